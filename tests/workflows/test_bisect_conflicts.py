"""Commits at which the series does not apply are known before they are probed, and only where that is certain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from patchkit.pipeline import patch_tree
from patchkit.report.bisect import log_text
from patchkit.tools.git.objects import Entry
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect, read_records
from tests.workflows.worlds import World, make_world

WHEEL = "one\ntwo\n{word}\nfour\nfive\n"
TURN = "--- a/wheel.txt\n+++ b/wheel.txt\n@@ -1,5 +1,5 @@\n one\n two\n-three\n+ours\n four\n five\n"
PATCH = "format: 1\ntitle: Ours\n{more}change: [{{patch: ours.patch}}]\n"


def grown(folder: Path, wheels: list[str], fault: int, more: str = "") -> tuple[World, list[str]]:
    """A world whose series has a patch on `wheel.txt`; it applies where the word there is `three`."""
    world = make_world(folder)
    world.recipe.write_text(world.recipe.read_text().replace("series: [heal]", "series: [ours]"))
    (folder / "patches" / "ours").mkdir()
    (folder / "patches" / "ours" / "ours.patch").write_text(TURN)
    (folder / "patches" / "ours" / "patch.yaml").write_text(PATCH.format(more=more))
    commits = []
    for number, wheel in enumerate(wheels):
        files: dict[str, str | None] = {f"new-{number}.txt": "x\n"}
        files["engine.txt"] = f"engine\ntop\n{'fault' if number >= fault else 'good'}\n"
        files["wheel.txt"] = WHEEL.format(word=wheel) if wheel else None
        commits.append(world.upstream.commit(files, f"commit {number}"))
    return world, commits


def run(toolkit: Toolkit, world: World, good: str, **more: Any) -> tuple[dict[str, Any], list[Any], Any]:
    told: list[Any] = []
    request = BisectRequest(world.recipe, "git", "", good, "main", **more)
    result = bisect(toolkit, request, told.append)
    (record,) = read_records(toolkit, request)
    return result, told, record


def skips(told: list[Any]) -> list[str]:
    return [event["node"] for event in told if event["event"] == "probe" and event["answer"] == "skip"]


def known(record: Any) -> dict[str, str]:
    found = [event["nodes"] for event in record.events if event["event"] == "conflicts"]
    return dict(found[0]) if found else {}


def test_what_does_not_apply_is_never_probed(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = grown(tmp_path, ["three"] * 4 + ["other"] * 8 + ["three"] * 6, 14)
    result, told, record = run(toolkit, world, commits[0])
    assert (result["first_bad"], result["confirmed"]) == (commits[14], True)
    assert skips(told) == []
    assert set(known(record)) == set(commits[4:12])
    assert all(why.startswith("ours: conflict") for why in known(record).values())
    (event,) = [event for event in record.events if event["event"] == "conflicts"]
    assert log_text({**record.subject.about(), **event}).startswith("8 commits cannot be patched: ours: conflict")
    assert record.replay().is_same
    again, _, _ = run(toolkit, world, commits[0])
    assert again == result


def test_suspects_among_them_are_told_as_skipped(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = grown(tmp_path, ["three"] * 4 + ["other"] * 4 + ["three"] * 4, 6)
    result, told, _ = run(toolkit, world, commits[0], jobs=3)
    assert [one["node"] for one in result["candidates"]] == commits[4:9]
    assert result["skipped"] == commits[4:8]
    assert skips(told) == []


def test_what_asks_more_of_a_commit_is_left_to_the_probe(toolkit: Toolkit, tmp_path: Path) -> None:
    wheels = ["three"] * 4 + ["other"] * 8 + ["three"] * 6
    for number, more in enumerate(("when: has(wheel.txt)\n", "requires: [heal]\n")):
        world, commits = grown(tmp_path / str(number), wheels, 14, more)
        if "requires" in more:
            world.recipe.write_text(world.recipe.read_text().replace("[ours]", "[heal, ours]"))
        result, _, record = run(toolkit, world, commits[0], series="with" if "when" in more else "others")
        assert known(record) == {}
        assert result["first_bad"] in (commits[14], None)


def test_a_file_that_is_gone_may_have_moved_and_is_left_to_the_probe(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = grown(tmp_path, ["three"] * 6 + [""] * 3 + ["three"] * 5, 11)
    result, _, record = run(toolkit, world, commits[0])
    assert known(record) == {}
    assert result["first_bad"] == commits[11]


def test_patches_on_one_file_are_tried_in_their_order(toolkit: Toolkit, tmp_path: Path) -> None:
    """The second one applies to what the first one makes: on the bare file it would be a conflict everywhere."""
    world, commits = grown(tmp_path, ["three"] * 8, 5)
    world.recipe.write_text(world.recipe.read_text().replace("[ours]", "[ours, more]"))
    (tmp_path / "patches" / "more").mkdir()
    (tmp_path / "patches" / "more" / "ours.patch").write_text(TURN.replace("-three", "-ours").replace("+ours", "+more"))
    (tmp_path / "patches" / "more" / "patch.yaml").write_text(PATCH.format(more=""))
    result, told, record = run(toolkit, world, commits[0])
    assert known(record) == {}
    assert (result["first_bad"], skips(told)) == (commits[5], [])


def test_a_fix_up_mends_what_the_series_does_not_apply_to(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = grown(tmp_path, ["three"] * 4 + ["other"] * 4 + ["three"] * 4, 6)
    result, _, record = run(toolkit, world, commits[0], fix_up=(commits[8],))
    assert known(record) == {}  # the probe decides
    assert (result["first_bad"], result["confirmed"]) == (commits[6], True)


def truth(record: Any, nodes: list[str]) -> list[str]:
    """The commits that a probe cannot patch."""
    subject = record.subject
    return [node for node in nodes if patch_tree(subject.opened, subject.source.resolve(node)).patched is None]


def test_a_patch_that_upstream_took_and_then_changed_is_no_conflict(toolkit: Toolkit, tmp_path: Path) -> None:
    """Upstream took it, took it back, took it again: what the file looks like does not tell that."""
    wheels = ["three", "other", "three", "ours", "later", "ours", "three", "later", "three", "ours", "later", "three"]
    world, commits = grown(tmp_path, wheels, 9)
    result, told, record = run(toolkit, world, commits[0])
    assert set(known(record)) == set(truth(record, commits[1:-1]))
    assert commits[1] in known(record)
    assert commits[4] not in known(record)
    assert (result["first_bad"], result["confirmed"]) == (commits[9], True)
    assert skips(told) == []


def test_a_side_branch_is_asked_for_what_it_has_itself(toolkit: Toolkit, tmp_path: Path) -> None:
    """The main line took the patch, a branch that left before did not; a branch older than the good end has less."""
    world, commits = grown(tmp_path, ["three", "ours", "three", "ours", "later"], 99)
    for name, at in (("old", commits[0]), ("young", commits[2])):
        world.upstream.branch(name, at)
        commits.append(world.upstream.commit({"wheel.txt": WHEEL.format(word="later")}, name, branch=name))
        commits.append(world.upstream.commit({"wheel.txt": WHEEL.format(word="three")}, name, branch=name))
        commits.append(world.upstream.merge(name))
    commits.append(world.upstream.commit({"engine.txt": "engine\ntop\nfault\n"}))
    _, _, record = run(toolkit, world, commits[2])
    nodes = list(record.subject.graph.nodes[:-1])
    assert set(known(record)) == set(truth(record, nodes))
    assert {commits[5], commits[8]} <= set(known(record))
    assert commits[4] not in known(record)


def test_a_folder_or_link_in_the_way_says_nothing_of_commits_without(toolkit: Toolkit, tmp_path: Path) -> None:
    ways: tuple[dict[str, str | Entry], ...] = (
        {"ours/inner.txt/deep.txt": "x\n"},
        {"ours": Entry(0o120000, "")},
    )
    for number, way in enumerate(ways):
        world, commits = grown(tmp_path / str(number), ["three"] * 3, 99)
        made = "--- /dev/null\n+++ b/ours/inner.txt\n@@ -0,0 +1 @@\n+new\n"
        (world.folder / "patches" / "ours" / "ours.patch").write_text(made)
        stands = {path: world.upstream.symlink("x") if isinstance(what, Entry) else what for path, what in way.items()}
        commits.append(world.upstream.commit(stands, "in the way"))
        commits.append(world.upstream.commit(dict.fromkeys(way), "gone"))
        commits += [world.upstream.commit({f"more-{at}.txt": ""}, "more") for at in range(3)]
        commits.append(world.upstream.commit({"engine.txt": "engine\ntop\nfault\n"}, "fault"))
        result, _, record = run(toolkit, world, commits[0])
        assert list(known(record)) == [commits[3]]
        assert (result["first_bad"], result["confirmed"]) == (commits[-1], True)


def test_a_patch_may_need_the_room_that_an_earlier_one_makes(toolkit: Toolkit, tmp_path: Path) -> None:
    """The first one deletes a file, the second puts one below its name."""
    world, commits = grown(tmp_path, ["three"] * 8, 5)
    world.recipe.write_text(world.recipe.read_text().replace("[ours]", "[ours, more]"))
    gone = "--- a/wheel.txt\n+++ /dev/null\n@@ -1,5 +0,0 @@\n-one\n-two\n-three\n-four\n-five\n"
    (tmp_path / "patches" / "ours" / "ours.patch").write_text(gone)
    (tmp_path / "patches" / "more").mkdir()
    below = "--- /dev/null\n+++ b/wheel.txt/new.txt\n@@ -0,0 +1 @@\n+new\n"
    (tmp_path / "patches" / "more" / "ours.patch").write_text(below)
    (tmp_path / "patches" / "more" / "patch.yaml").write_text(PATCH.format(more=""))
    result, told, record = run(toolkit, world, commits[0])
    assert known(record) == {}
    assert (result["first_bad"], skips(told)) == (commits[5], [])


def test_known_conflicts_do_not_make_others_look_hopeless(toolkit: Toolkit, tmp_path: Path) -> None:
    """All that conflict are known, so what is not among them can be tested, however many there are."""
    words = [
        "three",
        "other",
        "other",
        "three",
        "three",
        "three",
        "other",
        "-",
        "other",
        "other",
        "other",
        "ours",
        "three",
        "three",
    ]
    world, commits = grown(tmp_path, [word.strip("-") for word in words], 3)
    result, _, record = run(toolkit, world, commits[0])
    assert len(known(record)) >= 5
    assert [one["node"] for one in result["candidates"]] == commits[1:4]
    assert not result["untested"]
