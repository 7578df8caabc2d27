from __future__ import annotations

from patchkit.report.markdown import escape, markdown
from tests.report.pictures import NASTY, make_report


def test_the_outcome_comes_first_then_transitions_then_the_matrix() -> None:
    lines = markdown(make_report("why")).splitlines()
    assert lines[0] == "## patchkit watch: deepseek-v4-gb10"
    assert lines[2] == "**6 new since v0.25.1: 1 demands attention**"
    assert lines[4] == "The series does not apply from v0.30.0 on: e8m0-upcast: conflict: why"
    assert "| v0.26.0 | deepgemm-unsupported-arch/static | newly-bad | yes | static |" in lines
    assert "| v0.30.0 | bad → good | bad → conflict |" in lines
    assert lines.index("| vllm | deepgemm-unsupported-arch/static (static) | e8m0-scale-dtype/stubbed (stubbed) |") > 8


def test_every_table_row_has_as_many_cells_as_its_header() -> None:
    rows = [line for line in markdown(make_report(NASTY)).splitlines() if line.startswith("|")]
    counts = [line.replace("\\|", "").count("|") for line in rows]
    assert set(counts) == {4, 6}


def test_what_means_something_in_markdown_is_escaped() -> None:
    assert escape("a|b *c* <d> `e` @f") == r"a\|b \*c\* \<d\> \`e\` \@f"
