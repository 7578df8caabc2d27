"""What a fix-up meets besides a plain hole: a series that conflicts, releases, git logs, repros that err."""

from __future__ import annotations

import time
from pathlib import Path

from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect
from tests.workflows.test_bisect_holes import grown, hole, run, wrote

NEED = """--- a/need.txt
+++ b/need.txt
@@ -1,3 +1,3 @@
 a
-b
+healed
 c
"""


def test_a_fix_up_mends_a_hole_in_which_the_series_conflicts(toolkit: Toolkit, tmp_path: Path) -> None:
    """What upstream wrote in the hole is what the patch stumbles over; the repair takes it away."""
    world, _ = grown(tmp_path, [("good", "whole")])
    (tmp_path / "patches/heal/patch.yaml").write_text("format: 1\ntitle: need\nchange: [{patch: heal.patch}]\n")
    (tmp_path / "patches/heal/heal.patch").write_text(NEED)
    words = [("good", "b")] * 2 + [("good", "q")] * 3 + [("fault", "q")] * 3 + [("fault", "b")] * 2
    commits = [
        world.upstream.commit({**wrote(number, word, "whole"), "need.txt": f"a\n{need}\nc\n"}, f"commit {number}")
        for number, (word, need) in enumerate(words)
    ]
    request = BisectRequest(world.recipe, "git", "", commits[0], "main", series="with", fix_up=(commits[8],))
    result = bisect(toolkit, request, lambda event: None)
    assert (result["first_bad"], result["confirmed"], result["reverted"]) == (commits[5], True, "good")
    assert result["confirmation"]["carried"] == [[commits[5], [commits[8]]], [commits[4], [commits[8]]]]


def test_a_release_that_a_false_fix_up_accuses_is_not_confirmed(toolkit: Toolkit, tmp_path: Path) -> None:
    words = [("good", "whole")] * 3 + [("good", "broken")] * 4 + [("fault", "whole")] * 3
    world, commits = grown(tmp_path, words)
    for number in (0, 2, 4, 6, 9):
        world.upstream.tag(f"v1.{number}.0", commits[number])
    request = BisectRequest(
        *(world.recipe, "git", "", "v1.0.0", "v1.9.0"), axis="releases", series="without", fix_up=(commits[7],)
    )
    told: list[object] = []
    result = bisect(toolkit, request, told.append)
    assert (result["first_bad"], result["confirmed"]) == ("v1.4.0", False)
    assert "v1.2.0 is good, but bad with" in result["message"]
    assert not result["inside"]["confirmed"]


def test_skips_of_a_git_log_are_asked_again_with_the_fix_up(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = grown(tmp_path, hole(4, 3, 3, 4))
    file = tmp_path / "git.log"
    lines = [f"git bisect start '{commits[-1]}' '{commits[0]}'", f"git bisect bad {commits[10]}"]
    lines += [f"git bisect good {commits[3]}", *(f"git bisect skip {one}" for one in commits[4:10])]
    file.write_text("\n".join(lines) + "\n")
    alone, _ = run(toolkit, world, commits[0], from_git_log=file)
    assert alone["first_bad"] is None
    assert f"--fix-up={commits[10]}" in alone["next"]  # its answer was told, not probed
    result, _ = run(toolkit, world, commits[0], commits[10], from_git_log=file)
    assert (result["first_bad"], result["confirmed"]) == (commits[7], True)


def test_one_skip_of_a_repro_that_errs_is_not_remembered_as_a_hole(toolkit: Toolkit, tmp_path: Path) -> None:
    """The second run of the parent slips; the fix-up is in its history already, so nothing would mend it again."""
    world, commits = grown(tmp_path, hole(6, 0, 0, 6))
    repro = world.folder / "issues" / "fault" / "repro.py"
    runs = f"\nruns = pathlib.Path({str(tmp_path / 'parent.txt')!r})\n"
    runs += 'if max(name for name in os.listdir(os.environ["PATCHKIT_TREE"]) if "new-" in name) == "new-5.txt":\n'
    runs += '    runs.write_text((runs.read_text() if runs.exists() else "") + "x")\n'
    runs += '    if runs.read_text() == "xx":\n        sys.exit("slipped")\nif "broken" in text'
    repro.write_text(repro.read_text().replace('\nif "broken" in text', runs, 1))
    result, told = run(toolkit, world, commits[0], commits[1], flaky=True)
    answers = [event["answer"] for event in told if event["event"] == "probe" and event["node"] == commits[5]]
    assert answers[:3] == ["good", "skip", "good"]
    assert (result["first_bad"], result["confirmed"]) == (commits[6], True)


def test_fix_ups_that_no_two_have_in_common_are_told(toolkit: Toolkit, tmp_path: Path) -> None:
    """The culprit and its parent are broken in two ways, each with a repair of its own."""
    words = [("good", "whole")] * 2 + [("good", "broken one")] * 2 + [("fault", "broken two")] * 2
    words += [("fault", "whole")] * 2
    world, commits = grown(tmp_path, words)
    world.upstream.branch("side", commits[3])
    other = world.upstream.commit({"start.txt": "whole\n"}, "repair of one", branch="side")
    result, told = run(toolkit, world, commits[0], commits[6], other)
    assert (result["first_bad"], result["confirmed"]) == (commits[4], True)
    controls = [(event["node"], event["answer"]) for event in told if event["event"] == "control"]
    assert controls
    assert {answer for _, answer in controls} == {"skip"}
    assert [one["kind"] for one in result["warnings"]] == ["fix-up-unproven"] * 2


def test_a_control_that_cannot_be_told_is_no_doubt_where_the_other_side_was_told(
    toolkit: Toolkit, tmp_path: Path
) -> None:
    """What mends the parent alone is too little for the culprit; what mends the culprit mends the parent as well."""
    parent, both, whole = "broken\n\n\n\nwhole", "broken\n\n\n\nbroken", "whole\n\n\n\nwhole"
    words = [("good", whole)] * 2 + [("good", parent)] * 2 + [("fault", both)] * 2 + [("fault", whole)] * 2
    world, commits = grown(tmp_path, words)
    world.upstream.branch("side", commits[3])
    half = world.upstream.commit({"start.txt": f"{whole}\n"}, "repair of the parent", branch="side")
    result, told = run(toolkit, world, commits[0], half, commits[6])
    assert (result["first_bad"], result["confirmed"]) == (commits[4], True)
    controls = {(event["node"], event["answer"]) for event in told if event["event"] == "control"}
    assert controls == {(commits[3], "good"), (commits[4], "skip")}
    assert result["warnings"] == []


def test_a_message_with_any_character_in_it_and_a_title_without_end(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = grown(tmp_path, hole(4, 0, 0, 4))
    for message in ("odd \x01 title\n\nbody \x01\n", "x" + " " * 100_000 + "(#1)" * 50_000 + "x", 'Revert "' * 50_000):
        world.upstream.commit({"later.txt": message[:9]}, message)
    started = time.monotonic()
    request = BisectRequest(world.recipe, "git", "", commits[0], commits[-1], series="without")
    result = bisect(toolkit, request, lambda event: None)
    assert (result["first_bad"], result["confirmed"]) == (commits[4], True)
    assert time.monotonic() - started < 30  # with a whole title it is minutes
