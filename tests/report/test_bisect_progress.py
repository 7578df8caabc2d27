from __future__ import annotations

from typing import Any

from patchkit.report.bisect import BisectProgress


def ask(stage: str, *nodes: str) -> dict[str, Any]:
    return {"event": "ask", "stage": stage, "nodes": list(nodes)}


def probe(node: str, left: int, bits: float, **more: Any) -> dict[str, Any]:
    return {"event": "probe", "node": node, "stage": "search", "left": left, "bits": bits, "reused": False, **more}


def test_the_line_tells_what_is_left_what_runs_and_how_long_it_takes() -> None:
    progress = BisectProgress(confirm=3)
    progress.take({"event": "start", "commits": 100}, 0)
    assert progress.line(0) == "100 left · 0 probes"
    progress.take(ask("ends", "bad"), 0)
    progress.take(probe("bad", 100, 6.6), 120)
    progress.take(ask("search", "c50"), 120)
    # seven steps and four runs of confirmation, two minutes each; one of them began a minute ago
    assert progress.line(180) == "100 left (6.6 bits) · 1 probe · search c50 1 min 00 s · about 21 min left"
    progress.take(probe("c50", 1, 0), 240)
    for number in range(4):
        progress.take(ask("confirm", "c50"), 240 + 120 * number)
        assert progress.minutes_left(240 + 120 * number) == (4 - number) * 2
        progress.take(probe("c50", 1, 0, stage="confirm"), 360 + 120 * number)
    assert progress.line(720) == "1 left · 6 probes · less than a minute left"


def test_probes_at_once_share_the_time_and_known_ones_take_none() -> None:
    progress = BisectProgress(jobs=2, confirm=1)
    progress.take({"event": "start", "commits": 16}, 0)
    progress.take(ask("search", *(f"n{number}" for number in range(6))), 0)
    assert "n3 1.0 s and 2 more" in progress.line(1)
    progress.take(probe("n0", 16, 4, reused=True), 1)
    assert progress.minutes_left(1) is None
    progress.take(probe("n1", 16, 4, build_seconds=30.0), 60)
    assert "2 probes · 1 build · search" in progress.line(60)
    assert progress.minutes_left(60) == 0
    for number in range(2, 6):
        progress.running.pop(f"n{number}")
    assert progress.minutes_left(60) == 2
