from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from patchkit.report.bisect import Moment, Picture, bisect_html, bisect_markdown
from patchkit.report.bisect.picture import COLUMNS, svg

NODES = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)
PICTURE = Picture(
    NODES,
    (
        Moment(NODES[3], 3, "bad", (0.25, 0.25, 0.25, 0.25)),
        Moment("good", -1, "good", (0.25, 0.25, 0.25, 0.25)),
        Moment(NODES[1], 1, "good", (0, 0, 0.5, 0.5)),
        Moment(NODES[2], 2, "bad", (0, 0, 1.0, 0)),
    ),
)
RESULT: dict[str, Any] = {
    "event": "result",
    "issue": "fault",
    "repro": "read",
    "axis": "commits",
    "series": "others",
    "fidelity": "static",
    "good": "v1",
    "bad": "main",
    "first_bad": NODES[2],
    "last_good": NODES[1],
    "candidates": [{"node": NODES[2], "commit": NODES[2], "probability": 1.0}],
    "skipped": [],
    "confirmed": True,
    "confirmation": None,
    "reverted": None,
    "revert": None,
    "warnings": [{"kind": "revert-reland", "message": "came <and> went", "commits": []}],
    "probes": 4,
    "nodes": 4,
    "culprit": {"subject": "<script>alert(1)</script> & | `x`", "author": "Ada", "date": "2023-11-14", "merge": False},
    "message": "",
    "hint": "",
    "next": "",
}
EVENTS = [
    {"event": "probe", "node": NODES[3], "answer": "bad", "reason": "signature", "stage": "ends", "reused": True}
    | {"detail": "", "duration_seconds": 1.0},
    {"event": "revert", "node": NODES[2], "answer": "conflict", "reason": "conflict", "detail": "in <x>"}
    | {"duration_seconds": 0.0},
]


def test_the_picture_has_a_row_for_a_probe_that_could_not_be_told() -> None:
    first, *others = PICTURE.moments
    skip = Moment(NODES[1], 1, "skip", first.belief)
    root = ElementTree.fromstring(svg(Picture(NODES, (first, skip, *others))))
    assert [circle.get("fill") for circle in root.iter("circle")][:2] == ["var(--bad)", "var(--unknown)"]


def test_the_picture_has_a_row_for_each_probe_that_told_something_and_the_end_below() -> None:
    root = ElementTree.fromstring(svg(PICTURE))
    groups = root.findall("g")
    assert len(groups) == 3 + 1
    assert [len(group.findall("rect")) for group in groups] == [4, 2, 1, 1]
    colours = [circle.get("fill") for circle in root.iter("circle")]
    assert colours == ["var(--bad)", "var(--good)", "var(--bad)"]
    left = float(groups[2].findall("rect")[0].get("x", ""))
    dot = float(groups[2].findall("circle")[0].get("cx", ""))
    assert left < dot < left + float(groups[2].findall("rect")[0].get("width", ""))


def test_thousands_of_commits_share_columns_and_none_that_is_likely_is_lost() -> None:
    nodes = tuple(f"{number:040x}" for number in range(5000))
    belief = [0.0] * 5000
    belief[4321] = 1.0
    text = svg(Picture(nodes, (Moment(nodes[4321], 4321, "skip", tuple(belief)),)))
    assert 0 < text.count("<rect") <= COLUMNS
    assert ElementTree.fromstring(text).findall("g")[1].findall("rect")[0].get("height") == "120.0"


def test_a_picture_of_nothing_is_empty() -> None:
    assert ElementTree.fromstring(svg(Picture(NODES, ()))).findall("g") == []


def test_the_page_needs_nothing_from_outside_and_what_commits_say_is_only_text() -> None:
    page = bisect_html([(RESULT, EVENTS, PICTURE)])
    assert "<script" not in page
    assert "came &lt;and&gt; went" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert not re.search(r"(?:src|href)=", page)
    assert "default-src &#x27;none&#x27;" in page
    assert "conflict: in &lt;x&gt;" in page
    assert page.count("<tr>") == 1 + 2


def test_markdown_escapes_and_lists_every_probe() -> None:
    text = bisect_markdown(RESULT, EVENTS)
    assert f"First bad: `{NODES[2]}` (confirmed)" in text
    assert "\\<script\\>" in text
    assert "| dddddddddddd | bad | signature | ends | known |" in text
    assert "came \\<and\\> went" in text
    assert "a set of suspects" in bisect_markdown({**RESULT, "first_bad": None, "confirmed": False}, EVENTS)
