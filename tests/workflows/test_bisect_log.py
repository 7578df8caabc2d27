"""The journal: printed, made again decision by decision, and exchanged with `git bisect`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchkit.errors import RequestError
from patchkit.search import build_chain
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect, read_records
from patchkit.workflows.bisect.journal.gitlog import git_log, read_git_log
from patchkit.workflows.bisect.journal.replay import replay
from tests.support.repositories import linear_history
from tests.workflows.worlds import World, linear


def request(world: World, good: str, bad: str = "main", **more: Any) -> BisectRequest:
    return BisectRequest(recipe=world.recipe, source="git", issue="", good=good, bad=bad, **more)


def patchkit(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "patchkit", *words], capture_output=True, text=True, check=False)


def git(folder: Path, *words: str, check: bool = True) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_decision_comes_out_the_same_again(toolkit: Toolkit, tmp_path: Path, jobs: int) -> None:
    world, commits = linear(tmp_path, ["good"] * 20 + ["broken"] * 3 + ["good"] * 2 + ["fault"] * 9)
    bisect(toolkit, request(world, commits[0], jobs=jobs), lambda event: None)
    before = world.runs
    (record,) = read_records(toolkit, request(world, commits[0]))
    found = record.replay()
    assert (found.is_same, found.difference) == (True, "")
    assert found.decisions > 6
    assert world.runs == before


@pytest.mark.parametrize("what", ["other answer", "other question", "dropped question", "other result"])
def test_a_journal_that_was_tampered_with_is_told(toolkit: Toolkit, tmp_path: Path, what: str) -> None:
    world, commits = linear(tmp_path, ["good"] * 20 + ["fault"] * 9)
    bisect(toolkit, request(world, commits[0]), lambda event: None)
    (record,) = read_records(toolkit, request(world, commits[0]))
    events: list[dict[str, Any]] = [dict(event) for event in record.events]
    asked = [event for event in events if event["event"] == "ask" and event["stage"] == "search"]
    if what == "other answer":
        probe = next(event for event in events if event["event"] == "probe" and event["stage"] == "search")
        probe["answer"] = "good" if probe["answer"] == "bad" else "bad"
    elif what == "other question":
        asked[1]["nodes"] = [commits[2]]
    elif what == "dropped question":
        events.remove(asked[1])
    else:
        next(event for event in events if event["event"] == "result")["confirmed"] = False
    found = replay(record.subject.graph, events)
    assert not found.is_same
    assert found.line > 1
    assert found.difference


def test_log_and_replay_are_commands(tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 5 + ["fault"] * 4)
    words = [str(world.recipe), "--source", "git", "--good", commits[0], "--bad", "main"]
    missing = patchkit("bisect", "log", *words)
    assert missing.returncode == 128
    assert "no journal of a bisect" in missing.stderr
    assert patchkit("bisect", *words).returncode == 0
    log = patchkit("bisect", "log", *words)
    assert log.returncode == 0, log.stderr
    assert f"{commits[5]} is the first bad commit (confirmed)" in log.stdout
    assert len(re.findall("once more", log.stdout)) == 4
    kinds = [json.loads(line)["event"] for line in patchkit("bisect", "log", "--json", *words).stdout.splitlines()]
    assert kinds[:3] == ["start", "session", "ask"]
    assert kinds[-2:] == ["result", "end"] or kinds[-3:] == ["result", "revert", "end"]
    page = tmp_path / "page.html"
    assert patchkit("bisect", "log", *words, "--html", str(page), "--markdown", str(tmp_path / "m.md")).returncode == 0
    assert page.read_text().count("<circle") > 3
    assert commits[5] in (tmp_path / "m.md").read_text()
    again = patchkit("bisect", "replay", *words)
    assert (again.returncode, again.stdout) == (0, "10 decisions, all as in the journal\n")
    (journal,) = Path(os.environ["PATCHKIT_CACHE"]).glob("bisects/*/journal.jsonl")
    journal.write_text(journal.read_text().replace('"reason":"splits the suspects best"', '"x":1', 1))
    text = journal.read_text().splitlines()
    at = next(number for number, line in enumerate(text) if '"answer":"good"' in line and '"search"' in line)
    text[at] = text[at].replace('"answer":"good"', '"answer":"bad"')
    journal.write_text("\n".join(text) + "\n")
    differs = patchkit("bisect", "replay", "--json", *words)
    assert differs.returncode == 1
    assert json.loads(differs.stdout)["difference"]["line"] > at


def test_ends_are_needed_unless_a_git_log_has_them(tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["good", "fault"])
    done = patchkit("bisect", str(world.recipe), "--bad", "main")
    assert done.returncode == 129
    assert "Missing option '--good'" in done.stderr


def test_git_replays_our_log_and_ends_at_the_same_commit(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 6 + ["broken"] * 2 + ["good"] * 4 + ["fault"] * 9)
    bisect(toolkit, request(world, commits[0], jobs=3), lambda event: None)
    (record,) = read_records(toolkit, request(world, commits[0]))
    (tmp_path / "log").write_text(record.git_log())
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", world.upstream.url, str(clone))
    git(clone, "bisect", "replay", str(tmp_path / "log"))
    assert git(clone, "rev-parse", "bisect/bad").strip() == commits[12]
    assert f"# first bad commit: [{commits[12]}] commit 12" in git(clone, "bisect", "log")


def test_what_git_found_out_is_not_run_again(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 20 + ["fault"] * 12)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", world.upstream.url, str(clone))
    git(clone, "bisect", "start", "main", commits[0])
    for _ in range(3):
        at = commits.index(git(clone, "rev-parse", "HEAD").strip())
        git(clone, "bisect", "bad" if at >= 20 else "good")
    (tmp_path / "log").write_text(git(clone, "bisect", "log"))
    events: list[Any] = []
    result = bisect(toolkit, request(world, "", "", from_git_log=tmp_path / "log"), events.append)
    assert (result["first_bad"], result["confirmed"]) == (commits[20], True)
    assert events[0]["bad"] in ("main", commits[-1])
    probed = [event["node"] for event in events if event["event"] == "probe" and event["stage"] != "confirm"]
    assert len(probed) == 2 + 2  # the ends, which are believed of nobody, and what git had left
    assert result["confirmation"]["culprit"] == {"runs": 3, "bad": 3}
    (record,) = read_records(toolkit, request(world, commits[0]))
    assert record.replay().is_same


def test_a_git_log_that_lies_is_found_out(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 20 + ["fault"] * 12)
    (tmp_path / "log").write_text(f"git bisect start '{commits[-1]}' '{commits[0]}'\ngit bisect bad {commits[10]}\n")
    result = bisect(toolkit, request(world, "", "", from_git_log=tmp_path / "log"), lambda event: None)
    assert result["confirmed"] is False
    assert "was bad in one run and good in another" in result["message"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no good, bad or skip"),
        ("hello\n", "log:1: no line of a git bisect log"),
        ("git bisect start 'a' 'b'\ngit bisect visualize\n", "log:2: git bisect visualize is not known"),
        ("git bisect good 'a\n", "log:1: No closing quotation"),
    ],
)
def test_what_is_no_git_log_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(RequestError, match=re.escape(message)) as caught:
        read_git_log(text, "log")
    assert caught.value.hint


def test_terms_and_options_of_git_are_understood() -> None:
    text = "git bisect start '--term-new' 'broken' '--term-old=works' '--no-checkout' 'b2' 'a1' '--' 'vllm'\n"
    log = read_git_log(
        text + "# works: [a3] x\ngit bisect works a3\ngit bisect broken b1\ngit bisect skip c1 c2\n", "log"
    )
    assert [(mark.answer, mark.revision) for mark in log.marks] == [
        ("bad", "b2"),
        ("good", "a1"),
        ("good", "a3"),
        ("bad", "b1"),
        ("skip", "c1"),
        ("skip", "c2"),
    ]
    assert (log.end("good"), log.end("bad")) == ("a1", "b2")


def test_runs_that_disagree_and_a_bad_commit_that_widens_the_range_are_comments() -> None:
    graph = build_chain(["g", "a", "b", "c", "d", "e"])
    answers = [("e", "bad"), ("g", "good"), ("b", "bad"), ("d", "bad"), ("a", "good"), ("a", "bad"), ("c", "skip")]
    events = [{"event": "probe", "node": node, "answer": answer} for node, answer in answers]
    assert git_log(graph, events, lambda node: node.upper()).splitlines() == [
        "# bad: [e] E",
        "# good: [g] G",
        "git bisect start 'e' 'g'",
        "# bad: [b] B",
        "git bisect bad b",
        "# bad: [d] D",
        "# mixed: [a] A",
        "# skip: [c] C",
        "git bisect skip c",
    ]


def test_git_is_told_the_answer_of_the_search_where_runs_err(tmp_path: Path) -> None:
    upstream, ids = linear_history(tmp_path / "upstream.git", 7)
    graph = build_chain(ids)
    answers = [(6, "bad"), (0, "good"), (4, "good"), (5, "bad"), (1, "bad"), (2, "good"), (2, "bad")]
    answers += [(3, "bad"), (3, "good")]
    events: list[dict[str, Any]] = [
        {"event": "probe", "node": ids[number], "answer": answer} for number, answer in answers
    ]
    events.append({"event": "result", "candidates": [[ids[3], 0.99]], "confirmed": True})
    text = git_log(graph, events, lambda node: "title")
    (tmp_path / "log").write_text(text)
    subprocess.run(["git", "clone", "-q", upstream.url, tmp_path / "clone"], check=True)
    words = ["git", "-C", str(tmp_path / "clone"), "bisect", "replay", str(tmp_path / "log")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{ids[3]} is the first bad commit" in done.stdout
    assert f"# good: [{ids[4]}] title\n# bad: [{ids[5]}]" in text  # seen, not told


def test_a_good_commit_above_a_bad_one_is_a_comment_while_the_search_goes_on() -> None:
    graph = build_chain(["g", "a", "b", "c"])
    answers = [("c", "bad"), ("g", "good"), ("b", "good"), ("a", "bad")]
    events = [{"event": "probe", "node": node, "answer": answer} for node, answer in answers]
    assert git_log(graph, events, lambda node: "").splitlines()[3:] == [
        "# good: [b] ",
        "# bad: [a] ",
        "git bisect bad a",
    ]


def test_releases_have_no_git_log(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["good"] * 8 + ["fault"] * 14)
    asked = request(world, "v1.0.0", "v1.7.0", axis="releases")
    bisect(toolkit, asked, lambda event: None)
    with pytest.raises(RequestError, match="git bisect knows no releases"):
        read_records(toolkit, asked)[0].git_log()
