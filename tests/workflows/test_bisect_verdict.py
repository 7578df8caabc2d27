"""What is said besides the name of the culprit: the bad end without it, what makes the answer doubtful, its revert."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchkit.errors import RequestError, StoreFailure
from patchkit.recipe.load import check_files, load_recipe
from patchkit.report.bisect import event_text, log_text
from patchkit.search import Settings, build_chain
from patchkit.tools.git.history import commits_touching
from patchkit.tools.git.reverts import Titled, find_taken_back, find_topics, read_titles, take_turns
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect, read_records
from patchkit.workflows.bisect.culprit import emit
from patchkit.workflows.bisect.culprit.trial import MOST_REVERTS, count_reverts
from tests.support.repositories import GitRepository
from tests.workflows.worlds import World, make_world

BASE = {"engine.txt": "c0\ntop\ngood\nbottom\n", "notes.txt": "a\n"}
FAULTY = {"engine.txt": "c1\ntop\nfault\nbottom\n"}


def run(toolkit: Toolkit, world: World, good: str, **more: Any) -> dict[str, Any]:
    request = BisectRequest(recipe=world.recipe, source="git", issue="", good=good, bad="main", **more)
    return bisect(toolkit, request, lambda event: None)


def filled(upstream: GitRepository, count: int, name: str) -> None:
    for number in range(count):
        upstream.commit({f"{name}-{number}.txt": "x"}, f"{name} {number}")


def kinds(result: dict[str, Any]) -> list[str]:
    return [warning["kind"] for warning in result["warnings"]]


def test_the_bad_end_is_good_without_the_culprit(toolkit: Toolkit, tmp_path: Path) -> None:
    world = make_world(tmp_path)
    first = world.upstream.commit(BASE, "first")
    filled(world.upstream, 3, "before")
    culprit = world.upstream.commit(FAULTY, "break it")
    filled(world.upstream, 3, "after")
    result = run(toolkit, world, first)
    assert (result["first_bad"], result["confirmed"], result["reverted"]) == (culprit, True, "good")
    assert result["revert"]["runs"] == 1
    assert "without it main is good" in event_text(result)
    runs = len(world.runs)
    assert run(toolkit, world, first) == result
    assert len(world.runs) == runs


def test_a_second_cause_above_the_culprit_leaves_the_answer_unconfirmed(toolkit: Toolkit, tmp_path: Path) -> None:
    world = make_world(tmp_path)
    first = world.upstream.commit(BASE, "first")
    culprit = world.upstream.commit(FAULTY, "break it")
    world.upstream.commit({"engine.txt": "c2\ntop\nfault\nbottom\n\nfault\n"}, "break it once more, elsewhere")
    filled(world.upstream, 2, "after")
    world.upstream.commit({"engine.txt": "c1\ntop\nfault\nbottom\n\nfault\n"}, "as it was above")
    result = run(toolkit, world, first)
    assert (result["first_bad"], result["confirmed"], result["reverted"]) == (culprit, False, "bad")
    assert "another commit brings the fault as well" in result["message"]
    assert "not confirmed: without" in event_text(result)


def test_of_a_merge_that_breaks_what_both_sides_have_whole_the_first_parent_counts(
    toolkit: Toolkit, tmp_path: Path
) -> None:
    world = make_world(tmp_path)
    upstream = world.upstream
    first = upstream.commit({**BASE, "engine.txt": "c0\ntop\ngood\nbottom\n"}, "first")
    upstream.branch("side", first)
    filled(upstream, 2, "main")
    upstream.commit({"side.txt": "x"}, "side", branch="side")
    merge = upstream.merge("side", "take the side in")
    tree = upstream.objects.edit(upstream.tree_of(merge), {path: upstream.entry(text) for path, text in FAULTY.items()})
    parents = upstream.objects.read_commit(merge).parents
    evil = upstream.objects.create_commit(tree, parents, "take the side in, and break it", 1_800_000_000)
    upstream.branch("main", evil)
    filled(upstream, 2, "after")
    result = run(toolkit, world, first)
    assert (result["first_bad"], result["confirmed"], result["reverted"]) == (evil, True, "good")
    assert result["culprit"]["merge"] is True
    assert [parent["good"] for parent in result["confirmation"]["parents"]] == [3, 3]
    assert "a merge: no side of it is bad alone" in event_text(result)


def test_a_change_that_came_and_went_is_warned_about(toolkit: Toolkit, tmp_path: Path) -> None:
    world = make_world(tmp_path)
    first = world.upstream.commit(BASE, "first")
    on = world.upstream.commit(FAULTY, "faster engine (#7)")
    off = world.upstream.commit({"engine.txt": BASE["engine.txt"]}, 'Revert "faster engine (#7)" (#8)')
    again = world.upstream.commit(FAULTY, "faster engine (#9)")
    filled(world.upstream, 1, "after")
    result = run(toolkit, world, first)
    assert "revert-reland" in kinds(result)
    warning = next(one for one in result["warnings"] if one["kind"] == "revert-reland")
    assert warning["commits"] == [on, off, again]
    assert f"{on[:9]} on, {off[:9]} off, {again[:9]} on" in warning["message"]
    assert "warning: " in event_text(result)


def test_good_above_bad_is_warned_about(toolkit: Toolkit, tmp_path: Path) -> None:
    world = make_world(tmp_path)
    first = world.upstream.commit(BASE, "first")
    world.upstream.commit(FAULTY, "break")
    world.upstream.commit({"engine.txt": BASE["engine.txt"]}, "mend")
    world.upstream.commit(FAULTY, "break again")
    told = tmp_path / "log"
    ids = list(world.upstream.objects.parents_between(first, world.upstream.head()))
    told.write_text(f"git bisect bad {ids[0]}\ngit bisect good {ids[1]}\n")
    result = run(toolkit, world, first, from_git_log=told)
    assert kinds(result) == ["non-monotonic"]
    assert result["warnings"][0]["commits"] == [ids[0], ids[1]]
    assert result["confirmed"] is False


def test_a_feature_that_was_born_broken_is_said_to_be(toolkit: Toolkit, tmp_path: Path) -> None:
    world = make_world(tmp_path)
    first = world.upstream.commit({"engine.txt": "c0\ntop\nabsent\nbottom\n"}, "first")
    filled(world.upstream, 2, "before")
    culprit = world.upstream.commit({"engine.txt": "c1\ntop\nfault\nbottom\n"}, "add the engine")
    filled(world.upstream, 2, "after")
    result = run(toolkit, world, first)
    assert (result["first_bad"], result["reverted"]) == (culprit, "good")
    assert kinds(result) == ["born-broken"]


def test_a_patch_that_changes_with_the_culprit_is_named(toolkit: Toolkit, tmp_path: Path) -> None:
    world = make_world(tmp_path)
    patch = world.folder / "patches" / "note" / "patch.yaml"
    patch.parent.mkdir()
    (patch.parent / "note.patch").write_text("--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-a\n+b\n")
    patch.write_text("format: 1\ntitle: t\nwhen: has(old.txt)\nchange: [{patch: note.patch}]\n")
    world.recipe.write_text(world.recipe.read_text().replace("[heal]", "[heal, note]"))
    first = world.upstream.commit({**BASE, "old.txt": "x"}, "first")
    filled(world.upstream, 2, "before")
    culprit = world.upstream.commit({**FAULTY, "old.txt": None}, "break it")
    result = run(toolkit, world, first)
    assert (result["first_bad"], kinds(result)) == (culprit, ["series-changes"])
    assert (
        "the patch note changes with the culprit: clean before, not-applicable there"
        in result["warnings"][0]["message"]
    )


def test_the_revert_is_written_as_a_patch_that_heals_the_bad_end(toolkit: Toolkit, tmp_path: Path) -> None:
    world = make_world(tmp_path)
    first = world.upstream.commit(BASE, "first")
    culprit = world.upstream.commit(FAULTY, 'break: "it"')
    filled(world.upstream, 2, "after")
    result = run(toolkit, world, first, series="without", emit_revert="undo-it")
    folder = Path(result["emitted"])
    assert folder == world.folder / "patches" / "undo-it"
    assert check_files((folder / "patch.yaml",)) == ()
    world.recipe.write_text(world.recipe.read_text().replace("[heal]", "[undo-it]"))
    patch = load_recipe(world.recipe).patches["undo-it"].patch
    assert (patch.title, patch.when, patch.issue) == ('Revert "break: "it""', f"contains({culprit})", ("fault",))
    assert patch.upstream_status.startswith("Pending")
    assert "bad there in 3 of 3 runs" in patch.why
    words = ["repro", str(world.recipe), "--source", "git", "--at", "main", "--json"]
    done = subprocess.run([sys.executable, "-m", "patchkit", *words], capture_output=True, text=True, check=False)
    answers = [verdict["answer"] for verdict in json.loads(done.stdout)["verdicts"]]
    assert (done.returncode, answers) == (0, ["bad", "good"])
    with pytest.raises(RequestError, match="is there already"):
        run(toolkit, world, first, series="without", emit_revert="undo-it")


@pytest.mark.parametrize("name", ["No Name", "../out", "off", "2024-13-45", "1.5", ""])
def test_a_name_that_no_patch_may_have_is_refused_before_anything_runs(
    toolkit: Toolkit, tmp_path: Path, name: str
) -> None:
    world = make_world(tmp_path)
    first = world.upstream.commit(BASE, "first")
    world.upstream.commit(FAULTY, "break")
    if name:
        with pytest.raises(RequestError, match="is no name of a patch"):
            run(toolkit, world, first, emit_revert=name)
        assert world.runs == []
    else:
        assert "emitted" not in run(toolkit, world, first, emit_revert=name)


def test_an_answer_is_told_although_its_revert_cannot_be_written(
    toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path)
    first = world.upstream.commit(BASE, "first")
    culprit = world.upstream.commit(FAULTY, "break")

    def refuse() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(emit, "render_trees", lambda *_: refuse())
    told: list[Any] = []
    request = BisectRequest(
        recipe=world.recipe, source="git", issue="", good=first, bad="main", series="without", emit_revert="undo-it"
    )
    with pytest.raises(StoreFailure):
        bisect(toolkit, request, told.append)
    assert (told[-1]["event"], told[-1]["first_bad"], told[-1]["emitted"]) == ("result", culprit, None)
    assert [path.name for path in (world.folder / "patches").iterdir()] == ["heal"]


def test_a_revert_that_conflicts_is_told_and_nothing_is_written(toolkit: Toolkit, tmp_path: Path) -> None:
    world = make_world(tmp_path)
    first = world.upstream.commit(BASE, "first")
    world.upstream.commit(FAULTY, "break it")
    world.upstream.commit({"engine.txt": "c1\ntop\nfault and more\nbottom\n"}, "on top of it")
    result = run(toolkit, world, first, emit_revert="undo-it")
    assert (result["confirmed"], result["reverted"], result["emitted"]) == (True, "conflict", None)
    assert "it cannot be taken back on top of main" in event_text(result)
    assert "undo-it is not written" in event_text(result)
    assert not (world.folder / "patches" / "undo-it").exists()


def test_titles_tell_what_came_and_went(tmp_path: Path) -> None:
    titles = [
        ("1", "Add the thing (#1)"),
        ("2", 'Revert "Add the thing" (#1) (#2)'),
        ("3", "Reland: Add the thing"),
        ("4", 'Revert "Revert "Other" (#3)" (#4)'),
        ("5", "unrelated"),
        ("6", 'Revert "From before the range"'),
        ("7", "[Bugfix] quick"),
    ]
    topics = find_topics([*(Titled(*one) for one in titles), Titled("8", "back to the old way", reverts="7")])
    assert [(topic.title, [(turn.commit, turn.on) for turn in topic.turns]) for topic in topics] == [
        ("Add the thing", [("1", True), ("2", False), ("3", True)]),
        ("[Bugfix] quick", [("7", True), ("8", False)]),
    ]
    repository = GitRepository(tmp_path / "r")
    first = repository.commit({"a": "1"}, "one\n\nbody")
    second = repository.commit({"a": "2"}, f'Revert "one"\n\nThis reverts commit {first}.')
    third = repository.commit({"a": "3"}, "three")
    assert read_titles(repository.objects, first, third) == (
        Titled(second, 'Revert "one"', first),
        Titled(third, "three"),
    )


def test_paths_with_any_character_are_the_commits_own(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "odd.git")
    first, second = repository.commit({"a": "1"}), repository.commit({"odd\x01path": "1", "wanted": "1"})
    touching = commits_touching(repository.objects, first, second, {"wanted"}.__contains__)
    assert touching == {second}


def test_titles_tell_who_takes_back_and_who_was_taken_back() -> None:
    titles = [
        Titled("1" * 40, "Add the thing (#1)"),
        Titled("2" * 40, 'Revert "Before the range" (#2)'),
        Titled("3" * 40, "Reland the other"),
        Titled("4" * 40, "back to the old way", reverts="7777777"),
        Titled("5" * 40, 'Revert "Revert "Other" (#3)" (#4)'),
        Titled("6" * 40, "[Bugfix] Revert to the default only where asked"),
        Titled("7" * 40, "Named by id"),
    ]
    assert take_turns(titles) == {one * 40 for one in "2345"}
    later = [
        Titled("a" * 40, 'Revert "add  the Thing (#1)" (#9)'),
        Titled("b" * 40, "away with it", reverts="7" * 12),
        Titled("c" * 40, 'Revert "Revert "Reland the other""'),
        Titled("d" * 40, 'Revert "Not in the range"', reverts="eeeeeee"),
    ]
    assert find_taken_back(titles, later) == {"1" * 40, "7" * 40}
    assert find_taken_back([], later) == frozenset()


def test_a_flaky_culprit_is_taken_back_as_often_as_its_rate_asks_for() -> None:
    graph = build_chain(["g", "a", "b"])
    flaky = Settings(flaky=True, confidence=0.99)

    def events(bad: int, good: int) -> list[dict[str, Any]]:
        answers = ["bad"] * bad + ["good"] * good
        return [{"event": "probe", "node": "b", "answer": answer} for answer in answers]

    assert count_reverts(graph, events(5, 5), "a", Settings()) == 1
    assert count_reverts(graph, events(5, 5), "a", flaky) == 7
    assert count_reverts(graph, events(9, 1), "a", flaky) in (2, 3)
    assert count_reverts(graph, events(0, 20), "a", flaky) == MOST_REVERTS


def test_the_journal_says_why_commits_are_suspect(toolkit: Toolkit, tmp_path: Path) -> None:
    """The repro dies of a signal: native changes count; a revert and what upstream took back later are named."""
    world = make_world(tmp_path)
    script = world.folder / "issues" / "fault" / "repro.py"
    dies = 'print("FAULT: it dies", flush=True)\n    os.abort()'
    script.write_text(script.read_text().replace('sys.exit("FAULT: the engine stopped")', dies))
    first = world.upstream.commit(BASE, "first")
    filled(world.upstream, 6, "before")
    native = world.upstream.commit({"csrc/core.cu": "x\n"}, "a kernel")
    turn = world.upstream.commit({"more.txt": "x\n"}, 'Revert "from before the range"')
    culprit = world.upstream.commit(FAULTY, "break it")
    filled(world.upstream, 6, "after")
    bad = world.upstream.commit({"last.txt": "x\n"}, "the bad end")
    world.upstream.commit({"engine.txt": BASE["engine.txt"]}, f'Revert "break it"\n\nThis reverts commit {culprit}.')
    request = BisectRequest(world.recipe, "git", "", first, bad)
    result = bisect(toolkit, request, lambda event: None)
    assert (result["first_bad"], result["confirmed"]) == (culprit, True)
    (record,) = read_records(toolkit, request)
    (prior,) = [event for event in record.events if event["event"] == "prior"]
    told = {name: prior[name] for name in ("nodes", "native", "turns", "taken_back")}
    assert told == {"nodes": [culprit], "native": [native], "turns": [turn], "taken_back": [culprit]}
    asked = [event["nodes"] for event in record.events if event["event"] == "ask" and event["stage"] == "search"]
    assert asked[0] in ([culprit], [record.subject.graph.parents[culprit][0]])  # it is likely by far
    text = log_text({**record.subject.about(), **prior})
    assert "it crashed there, native files changed: 1 commit;" in text
    assert text.endswith("taken back after the bad end: 1 commit")
    assert record.replay().is_same
