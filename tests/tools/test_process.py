"""A probe that leaves a worker behind would hold the accelerator and poison the next probe."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from patchkit.errors import ToolMissing
from patchkit.tools.process import Completed, Limits, Stop, Stopped, run_logged, run_process

GRANDCHILD = (
    "import subprocess, sys, time; "
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
    "print(child.pid, flush=True); "
)


def lives(pid: int) -> bool:
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.02)
    return True


def test_a_time_out_ends_the_whole_group(tmp_path: Path) -> None:
    result = run_logged(
        [sys.executable, "-c", GRANDCHILD + "time.sleep(60)"], tmp_path / "log", limits=Limits(seconds=1)
    )
    assert result.timed_out
    assert not lives(int((tmp_path / "log").read_text()))


def test_a_process_that_ends_leaves_no_child_running(tmp_path: Path) -> None:
    result = run_logged([sys.executable, "-c", GRANDCHILD], tmp_path / "log", limits=Limits(seconds=30))
    assert (result.exit_code, result.timed_out) == (0, False)
    assert not lives(int((tmp_path / "log").read_text()))


def test_output_and_exit_code_come_back() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    result = run_process([sys.executable, "-c", code])
    assert (result.exit_code, result.text, result.complaint) == (3, "out\n", "err")


def test_input_is_fed_and_the_environment_replaced() -> None:
    code = "import os, sys; print(sys.stdin.read(), os.environ.get('HOME'))"
    result = run_process([sys.executable, "-c", code], input_bytes=b"fed", env={"PATH": os.environ["PATH"]})
    assert result.text == "fed None\n"


def test_a_missing_program_is_told_by_name() -> None:
    with pytest.raises(ToolMissing, match="no-such-program"):
        run_process(["no-such-program"])


def test_a_process_that_writes_without_end_is_ended(tmp_path: Path) -> None:
    code = "import os\nwhile True: os.write(1, b'x' * 100_000)"
    result = run_logged([sys.executable, "-c", code], tmp_path / "log", limits=Limits(60, 5_000_000))
    assert (result.overflowed, result.timed_out) == (True, False)
    assert result.duration_seconds < 30


def test_a_daemon_that_holds_the_pipe_of_a_process_that_was_ended_is_not_waited_for() -> None:
    code = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'], start_new_session=True)\n"
        "print('said', flush=True)\ntime.sleep(20)"
    )
    started = time.monotonic()
    result = run_process([sys.executable, "-c", code], timeout_seconds=1)
    assert (result.timed_out, result.text) == (True, "said\n")
    assert time.monotonic() - started < 15


def test_the_end_of_a_process_is_seen_at_once(tmp_path: Path) -> None:
    """A look every 50 ms would add half of that to each probe; the median of ten is not an accident of the machine."""
    waits = []
    for _ in range(10):
        code = "import os, time; open(1, 'w').write(str(time.monotonic_ns())); os._exit(0)"
        run_logged([sys.executable, "-I", "-S", "-c", "import time; time.sleep(.06)\n" + code], tmp_path / "log")
        waits.append(time.monotonic_ns() - int((tmp_path / "log").read_text()))
    assert sorted(waits)[len(waits) // 2] < 20_000_000


def test_the_end_of_a_process_is_seen_where_the_kernel_tells_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert run_logged([sys.executable, "-c", "print('done')"], tmp_path / "log").exit_code == 0
    result = run_logged([sys.executable, "-c", "while True: pass"], tmp_path / "log", limits=Limits(seconds=0.5))
    assert result.timed_out


def ended_after(stop: Stop, command: list[str], log: Path, seconds: float) -> Completed | Stopped:
    """What a thread gets for a command that is stopped after some seconds."""
    got: list[Completed | Stopped] = []

    def work() -> None:
        with stop.held():
            try:
                got.append(run_logged(command, log))
            except Stopped as stopped:
                got.append(stopped)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(seconds)
    stop.set()
    thread.join(30)
    return got[0]


def test_what_is_stopped_from_another_thread_has_no_answer_and_leaves_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", GRANDCHILD + "time.sleep(60)"]
    stop = Stop()
    threading.Thread(target=lambda: (_wait_for(log), stop.set())).start()
    assert isinstance(ended_after(stop, command, log, 30), Stopped)
    assert not lives(int(log.read_text()))


def _wait_for(log: Path) -> None:
    while not (log.exists() and log.read_text().strip()):
        time.sleep(0.02)


def test_what_ended_by_itself_before_it_was_stopped_has_its_answer(tmp_path: Path) -> None:
    done = ended_after(Stop(), [sys.executable, "-c", "import sys; sys.exit(7)"], tmp_path / "log", 30)
    assert isinstance(done, Completed)
    assert done.exit_code == 7


def test_nothing_starts_for_a_thread_that_was_stopped(tmp_path: Path) -> None:
    stop = Stop()
    stop.set()
    assert isinstance(ended_after(stop, ["touch", str(tmp_path / "made")], tmp_path / "log", 30), Stopped)
    assert not (tmp_path / "made").exists()


def test_a_stop_at_any_moment_gives_an_answer_or_none_and_never_a_wrong_one(tmp_path: Path) -> None:
    """The process takes about as long as the stop waits: sometimes it was first, sometimes it was not."""
    command = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(.05)"]
    for number in range(20):
        done = ended_after(Stop(), command, tmp_path / "log", 0.04 + number / 100)
        assert isinstance(done, Stopped) or done.exit_code == 0
