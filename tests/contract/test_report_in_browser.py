"""The HTML report in a real browser: it needs nothing from outside, draws, and shows what the events say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from patchkit.report.html import html
from tests.report.test_injection import PAYLOADS, poisoned
from tests.workflows.worlds import linear

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1200,900",
)


def browse(page: Path, profile: Path, *arguments: str) -> bytes:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on PATH")
    command = [browser, *FLAGS, f"--user-data-dir={profile}", *arguments, page.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, timeout=120).stdout


@pytest.mark.contract
def test_the_report_of_a_watch_is_drawn_and_shows_the_turn(tmp_path: Path) -> None:
    world, _ = linear(tmp_path / "world", ["good", "good", "good", "fault", "fault", "fault", "fault"])
    page = tmp_path / "report.html"
    watch = ["watch", str(world.recipe), "--since", "v1.0.0", "--axis", "releases", "--html", str(page), "--json"]
    command = [sys.executable, "-m", "patchkit", *watch]
    environment = {**os.environ, "PATCHKIT_CACHE": str(tmp_path / "store")}
    events = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.splitlines()
    turns = [event for event in map(json.loads, events) if event["event"] == "transition"]
    assert (turns[0]["at"], turns[0]["transition"], turns[0]["patched"]) == ("v1.1.0", "newly-bad", True)

    text = page.read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](https?:)?//""", text)
    document = browse(page, tmp_path / "profile", "--dump-dom").decode()
    assert "newly-bad" in document
    assert "v1.1.0" in document

    picture = tmp_path / "report.png"
    browse(page, tmp_path / "profile", f"--screenshot={picture}")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 10_000  # a blank page of this size compresses to less than half of that


@pytest.mark.contract
def test_nothing_in_a_report_runs_whatever_its_texts_say(tmp_path: Path) -> None:
    for number, payload in enumerate(PAYLOADS):
        page = tmp_path / f"report-{number}.html"
        page.write_text(html(poisoned(payload)), encoding="utf-8")
        document = browse(page, tmp_path / "profile", "--dump-dom", "--virtual-time-budget=1000").decode()
        assert "Needs attention" in document
        title = re.search(r"<title>(.*?)</title>", document, re.DOTALL)
        assert title is not None
        assert "deepseek-v4-gb10" in title[1]
        assert title[1] not in {"owned", "1"}
        assert not re.search(r"<(script|img|svg|iframe|object)\b", document)
