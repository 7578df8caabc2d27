"""The defect: which rows of a router's output are a rank's own is guessed from their number.

The lie these tests prevent is a repro that cannot fail: an oracle that follows the code it checks, a rank that hangs
and is taken for a slow one, a count of comparisons that were not made.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.issues.support import CANNOT_TELL, GOOD, ISSUES, ask, issue, plant

SLUG = "routed-expert-capture-layout"
FILE = "vllm/model_executor/layers/fused_moe/routed_experts_capturer.py"
SCRIPTS = pytest.mark.parametrize("script", ["single_process.py", "gloo.py"])
ROOT = ISSUES.parent


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The modules rows.py and gloo.py, imported as the repro imports them; neither imports torch by itself."""
    monkeypatch.syspath_prepend(str(ISSUES / SLUG))
    found = []
    for name in ("rows", "gloo"):
        spec = importlib.util.spec_from_file_location(name, ISSUES / SLUG / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        found.append(importlib.util.module_from_spec(spec))
        monkeypatch.setitem(sys.modules, name, found[-1])
        spec.loader.exec_module(found[-1])
    return found[0], found[1]


# -- what is asked ----------------------------------------------------------------------------------------------------


def test_all_three_layouts_run_at_every_size_with_more_than_32_million_ids(scripts: tuple[Any, Any]) -> None:
    rows, gloo = scripts
    cases = gloo.cases(gloo.Tree(None, None, None, None, None, None))
    layouts = [case for case in cases if case.kind in ("L1", "L2", "L3")]
    assert {(case.kind, case.tp, case.dp) for case in layouts} == {
        (kind, tp, dp) for kind in ("L1", "L2", "L3") for tp in (1, 2, 4) for dp in (1, 2)
    }
    tokens = sum(counts[rank] for case in layouts for counts in rows.STEPS for rank in range(case.dp))
    assert tokens * rows.LAYERS * rows.TOP_K > 32_000_000


def test_shards_hold_all_rows_and_differ_in_size(scripts: tuple[Any, Any]) -> None:
    rows, _ = scripts
    for step, counts in enumerate(rows.STEPS):
        for tp in (1, 2, 4):
            assert all(sum(rows.shard_sizes(tokens, tp, step)) == max(tokens, tp) for tokens in counts)
    assert rows.shard_sizes(5, 2, 0) == (3, 2)
    assert 0 in rows.shard_sizes(64, 4, 2)


@pytest.mark.parametrize("kind", ["L1", "L2", "L3"])
def test_what_the_producer_says_agrees_with_where_the_rows_really_are(scripts: tuple[Any, Any], kind: str) -> None:
    """Rows are moved by hand here, with lists; only what is said of them comes from the repro."""
    rows, _ = scripts
    for tp, dp in [(tp, dp) for tp in (1, 2, 4) for dp in (1, 2)]:
        for step in range(3):
            for dp_rank in range(dp):
                said = rows.said_of(kind, step, rows.Place(tp, dp, 0, dp_rank))
                seen = moved(rows, kind, step, (tp, dp), dp_rank)
                found = [tag for start, stop in said.source_ranges for tag in seen[start:stop]]
                assert found == [(dp_rank, token) for token in range(rows.STEPS[step][dp_rank])]


def moved(rows: Any, kind: str, step: int, size: tuple[int, int], dp_rank: int) -> list[Any]:
    tp, dp = size
    batches = [[(rank, token) for token in range(rows.STEPS[step][rank])] for rank in range(dp)]
    if kind == "L3":
        longest = rows.longest_batch(step, rows.Place(tp, dp, 0, dp_rank))
        return [tag for batch in batches for tag in batch + [None] * (longest - len(batch))]
    width = rows.widest_shard(step, rows.Place(tp, dp, 0, dp_rank))
    seen: list[Any] = []
    for rank, batch in enumerate(batches):
        sizes = rows.shard_sizes(len(batch), tp, step)
        filled = batch + [None] * (sum(sizes) - len(batch))
        for at, count in enumerate(sizes):
            shard = filled[sum(sizes[:at]) : sum(sizes[:at]) + count]
            if kind == "L2" or rank == dp_rank:
                seen += shard + [None] * (width - count if kind == "L2" else 0)
    return seen


# -- what is answered -------------------------------------------------------------------------------------------------


def outcome(gloo: Any, **fields: Any) -> Any:
    return gloo.Outcome(**fields)


def test_a_rank_that_waits_alone_is_bad_even_if_nobody_raises(scripts: tuple[Any, Any]) -> None:
    _, gloo = scripts
    case = gloo.Case("L1", 2, 1)
    assert "ranks [0] wait alone in a collective; nobody raises" in gloo.judge(case, outcome(gloo, alone=[0]))
    assert "ranks [1] raise no" in gloo.judge(case, outcome(gloo, alone=[0], raised={1: "no"}))


def test_wrong_ids_and_errors_of_the_capturer_are_bad(scripts: tuple[Any, Any]) -> None:
    _, gloo = scripts
    case = gloo.Case("L2", 2, 1)
    assert gloo.judge(case, outcome(gloo, wrong=["lost"])) == "lost"
    assert (
        gloo.judge(case, outcome(gloo, raised={0: "AssertionError: dim 8"})) == "ranks [0] raise AssertionError: dim 8"
    )
    assert gloo.judge(case, outcome(gloo)) == ""


def test_a_rank_that_is_only_slow_is_no_answer(scripts: tuple[Any, Any]) -> None:
    _, gloo = scripts
    with pytest.raises(RuntimeError, match="did not answer"):
        gloo.judge(gloo.Case("L1", 2, 1), outcome(gloo, late=[1]))


def test_exactly_the_rank_with_a_false_layout_has_to_raise(scripts: tuple[Any, Any]) -> None:
    _, gloo = scripts
    case = gloo.Case("L1", 2, 1, liar=True)
    assert gloo.judge(case, outcome(gloo, raised={1: "no"})) == ""
    assert "only ranks [] of [1]" in gloo.judge(case, outcome(gloo))


def in_a_collective(line: Connection, inside: Any, rank: int) -> None:
    inside[rank] = True
    time.sleep(60)
    line.send(("done", 1, []))


def raising(line: Connection, inside: Any, rank: int) -> None:
    inside[rank] = True
    line.send(("raised", "AssertionError: dim 2"))
    line.poll(60)


def test_a_deadlock_of_real_processes_is_seen_and_ended(
    scripts: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, gloo = scripts
    monkeypatch.setattr(gloo, "GRACE_SECONDS", 0.5)
    inside, found, lines, processes = gloo.FORK.Array("b", 2, lock=False), gloo.Outcome(), {}, []
    for rank, life in enumerate((in_a_collective, raising)):
        ours, theirs = gloo.FORK.Pipe()
        lines[ours] = rank
        processes.append(gloo.FORK.Process(target=life, args=(theirs, inside, rank)))
        processes[-1].start()
    started = time.monotonic()
    gloo.hear(found, lines, inside)
    for process in processes:
        process.kill()
        process.join()
    assert (found.alone, found.late, found.raised) == ([0], [], {1: "AssertionError: dim 2"})
    assert time.monotonic() - started < 30


def test_a_rank_that_ends_without_a_word_is_an_error_of_the_repro(scripts: tuple[Any, Any]) -> None:
    _, gloo = scripts
    ours, theirs = gloo.FORK.Pipe()
    theirs.close()
    with pytest.raises(RuntimeError, match="rank 3 ended without an answer"):
        gloo.take(gloo.Outcome(), 3, ours)


def test_ids_are_counted_only_where_they_were_compared(scripts: tuple[Any, Any]) -> None:
    _, gloo = scripts
    totals = gloo.Totals()
    totals.add(gloo.Case("L1", 2, 2), outcome(gloo, compared={0: 10, 1: 10, 2: 7, 3: 7}), "")
    totals.add(gloo.Case("L1", 2, 1), outcome(gloo, compared={0: 10}, alone=[1]), "alone")
    totals.add(gloo.Case("naive", 1, 2), outcome(gloo, compared={0: 10, 1: 10}), "")
    assert (totals.layouts, totals.compared, totals.distinct) == (2, 44, 27)
    assert totals.problems == ["L1 tp=2 dp=1: alone"]


# -- trees ------------------------------------------------------------------------------------------------------------


@SCRIPTS
def test_a_tree_without_a_capturer_says_absent_and_needs_no_torch(tmp_path: Path, script: str) -> None:
    answer = ask(SLUG, plant(tmp_path, {}), script)
    assert (answer.code, "patchkit: absent" in answer.output.splitlines()) == (GOOD, True)


@SCRIPTS
def test_a_tree_that_is_no_vllm_cannot_be_told(tmp_path: Path, script: str) -> None:
    assert ask(SLUG, tmp_path, script).code == CANNOT_TELL


@SCRIPTS
def test_a_tree_that_cannot_be_imported_cannot_be_told(tmp_path: Path, script: str) -> None:
    answer = ask(SLUG, plant(tmp_path, {FILE: "class C:\n    def capture(self):\n        pass\n"}), script)
    assert answer.code == CANNOT_TELL, answer.output


@SCRIPTS
def test_a_capturer_of_another_design_cannot_be_told(tmp_path: Path, script: str) -> None:
    text = "def init_buffer():\n    pass\ndef clear_buffer():\n    pass\ndef capture():\n    pass\n"
    answer = ask(SLUG, plant(tmp_path, {FILE: text}), script)
    assert (answer.code, "shared memory" in answer.output) == (CANNOT_TELL, True)


def test_the_readme_tells_what_a_pass_does_not_prove() -> None:
    text = (ISSUES / SLUG / "README.md").read_text()
    assert "What a pass proves" in text
    assert "hardware" in text


def test_the_files_of_the_issue_are_there_and_the_cheap_repro_comes_first() -> None:
    repros = issue(SLUG)["repros"]
    assert all((ISSUES / SLUG / repro["script"]).is_file() for repro in repros)
    assert [repro["fidelity"] for repro in repros] == ["stubbed", "real"]
    assert repros[0]["timeout_seconds"] < repros[1]["timeout_seconds"]


# -- on real vLLM -----------------------------------------------------------------------------------------------------

FIRST_ROWS = """
- file: vllm/model_executor/layers/fused_moe/routed_experts_capturer.py
  inside: RoutedExpertsCapturer.capture
  after: ctx = get_forward_context()
  insert: |
    known = ctx.dp_metadata is not None
    own = int(ctx.dp_metadata.num_tokens_across_dp_cpu[self.dp_rank]) if known else len(topk_ids)
    own = min(own, len(topk_ids))
    self.device_buffer[:own, layer_id] = topk_ids[:own]
    return
"""
PATCH = """
format: 1
title: Take the first rows for the rank's own
upstream-status: Inappropriate [wrong on purpose]
issue: [routed-expert-capture-layout]
change: [{rewrite: first-rows.yaml}]
"""
RECIPE = """
format: 1
name: wrong
upstream: {vllm: {package: vllm, ref: v0.26.0}}
series: [first-rows]
issues: [routed-expert-capture-layout]
environment: {env: {VLLM_TARGET_DEVICE: cpu}}
"""


def repro(recipe: Path, *options: str) -> dict[str, str]:
    """The answers with the series, by repro."""
    command = ["repro", str(recipe), "--source", "package", "--series", "with", "--json", *options]
    done = subprocess.run([sys.executable, "-m", "patchkit", *command], capture_output=True, text=True, check=False)
    verdicts = json.loads(done.stdout)["verdicts"]
    assert verdicts, done.stderr
    return {verdict["repro"]: verdict["answer"] for verdict in verdicts}


@pytest.mark.real
@pytest.mark.parametrize("release", ["v0.26.0", "v0.33.0"])
def test_taking_the_first_rows_is_no_fix(tmp_path: Path, release: str) -> None:
    """What drops the assertion: every layout runs, and in most of them experts are put down to other tokens."""
    for name in ("issues", "recipes/environments"):
        shutil.copytree(ROOT / name, tmp_path / name)
    folder = tmp_path / "patches" / "first-rows"
    folder.mkdir(parents=True)
    folder.joinpath("patch.yaml").write_text(dedent(PATCH))
    folder.joinpath("first-rows.yaml").write_text(dedent(FIRST_ROWS))
    recipe = tmp_path / "recipes" / "wrong" / "recipe.yaml"
    recipe.parent.mkdir()
    recipe.write_text(dedent(RECIPE))
    assert repro(recipe, "--at", release) == {"single-process": "bad", "gloo": "bad"}
