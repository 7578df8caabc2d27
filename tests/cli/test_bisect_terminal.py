"""What a person sees at a terminal when a bisect is interrupted."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.workflows.worlds import linear

ERASE = "\x1b[2K"


def test_the_line_is_gone_before_the_command_that_goes_on_is_told(tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good", "good", "fault"])
    world.pause(60)
    master, slave = pty.openpty()
    words = ["bisect", str(world.recipe), "--source", "git", "--good", commits[0], "--bad", commits[2]]
    process = subprocess.Popen(
        [sys.executable, "-m", "patchkit", *words], stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"}
    )
    os.close(slave)
    for _ in range(200):
        if world.runs:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    seen = b""
    try:
        while chunk := os.read(master, 4096):
            seen += chunk
    except OSError:  # the other side is closed
        pass
    os.close(master)
    assert process.wait(30) == 130
    before, told, after = seen.decode().partition("to go on from here: ")
    assert told
    assert before.endswith((ERASE, "\x1b[?25h"))
    assert ERASE not in after
