from __future__ import annotations

import pytest

from patchkit.report.text import align, flatten, seconds, series_table, verdict_table
from patchkit.stack.outcome import Outcome, PatchRecord, SeriesResult
from tests.report.pictures import verdict


def test_columns_are_as_wide_as_their_widest_cell_and_lines_do_not_end_in_spaces() -> None:
    assert align(("a", "bb"), [("long", "x"), ("s", "")]) == "a     bb\nlong  x\ns"


@pytest.mark.parametrize(
    ("duration", "said"), [(0.04, "0.0 s"), (9.94, "9.9 s"), (12.3, "12 s"), (185, "3 min 05 s"), (6000, "1 h 40 min")]
)
def test_a_duration_is_said_as_people_do(duration: float, said: str) -> None:
    assert seconds(duration) == said


def test_text_from_outside_stays_on_its_line_and_moves_no_cursor() -> None:
    assert flatten("\n\n  first \x1b[2J\nsecond") == "first \N{REPLACEMENT CHARACTER}[2J"


def test_each_patch_has_a_row_with_its_outcome() -> None:
    records = (
        PatchRecord("guard", Outcome.REWRITTEN, "rewrite", "1 place", ("a.py",), "0" * 64),
        PatchRecord("upcast", Outcome.CONFLICT, "exact", "hunk 2 of b.py does not match\nmore", (), "1" * 64),
    )
    assert series_table(SeriesResult(records, None)).splitlines() == [
        "patch   outcome    method   detail",
        "guard   rewritten  rewrite  1 place",
        "upcast  conflict   exact    hunk 2 of b.py does not match",
    ]
    assert series_table(SeriesResult((), None)) == "the series is empty"


def test_each_verdict_shows_its_fidelity_and_whether_it_was_known() -> None:
    from dataclasses import replace

    table = verdict_table([verdict("bad", "without", "v1"), replace(verdict("good", "with", "v1"), reused=True)])
    assert table.splitlines() == [
        "at  issue                             series   answer  reason     fidelity  time   detail",
        "v1  deepgemm-unsupported-arch/static  without  bad     signature  static    1.2 s",
        "v1  deepgemm-unsupported-arch/static  with     good    passed     static    known",
    ]
