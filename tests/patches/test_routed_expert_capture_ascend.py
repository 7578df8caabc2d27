"""routed-expert-capture-ascend: the prepare steps say how they moved the rows, and say so in every layer anew."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from tests.patches.shapes import PATCHES, choose, fake_modules, patched, run_module

SLUG = "routed-expert-capture-ascend"
CAPTURE = "vllm_ascend/patch/worker/patch_routed_experts_capture.py"
PREPARE = "vllm_ascend/ops/fused_moe/prepare_finalize.py"
ROWS = "vllm_ascend/ops/fused_moe/routed_rows.py"

SPLITTING = """
    def prepare(self, hidden_states, replace_allreduce=False):
        self.replace_allreduce = replace_allreduce
        if not self.replace_allreduce:
            self.num_tokens, _ = hidden_states.shape
            if self.tp_size > 1:
                split_hidden_states = torch.tensor_split(hidden_states, self.tp_size, dim=0)
                hidden_states = split_hidden_states[self.tp_rank]
        return hidden_states
"""
TREE = {
    CAPTURE: """\
from vllm.forward_context import get_forward_context


def capture(self, layer_id, topk_ids):
    ctx = get_forward_context()
    if ctx.dp_metadata is None:
        return topk_ids
    return "guessed"
""",
    PREPARE: f"""\
import torch


class PrepareAndFinalizeWithAll2All:{SPLITTING}

class PrepareAndFinalizeWithMC2(PrepareAndFinalizeWithAll2All):{SPLITTING}

class PrepareAndFinalizeWithAllGather:
    def prepare(self, hidden_states):
        if self.moe_config.is_sequence_parallel:
            return self._prepare_with_ep_group(hidden_states)
        return self._prepare_with_dp_group(hidden_states)

    def _prepare_with_ep_group(self, hidden_states):
        return hidden_states

    def _prepare_with_dp_group(self, hidden_states):
        if self.moe_config.dp_size > 1:
            max_tokens_across_dp = _EXTRA_CTX.max_tokens_across_dp
            self.num_tokens = hidden_states.shape[0]
            hidden_states = self.moe_config.dp_group.all_gather(hidden_states, 0)
        if self.moe_config.pcp_size > 1:
            max_tokens_across_pcp = _EXTRA_CTX.max_tokens_across_pcp
            hidden_states = max_tokens_across_pcp
        return hidden_states
""",
}


class Rows:
    """A batch of which only the shape counts."""

    def __init__(self, rows: int) -> None:
        self.shape = (rows, 4)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The patched tree, run on a vLLM whose layout is a plain record."""
    made = SimpleNamespace(context=SimpleNamespace(dp_metadata=None, routed_row_layout=None), dp_rank=0)
    fused_moe = "vllm.model_executor.layers.fused_moe"
    packages = ("vllm", "vllm.distributed", "vllm.model_executor", "vllm.model_executor.layers", fused_moe)
    ascend = ("vllm_ascend", "vllm_ascend.ops", "vllm_ascend.ops.fused_moe")
    groups = {"get_tp_group": lambda: "tp", "get_dp_group": lambda: SimpleNamespace(rank_in_group=made.dp_rank)}
    names: dict[str, dict[str, Any]] = {name: {} for name in (*packages, *ascend)}
    names |= {
        "vllm.distributed.parallel_state": groups,
        "vllm.forward_context": {"get_forward_context": lambda: made.context},
        f"{fused_moe}.routed_rows": {"RoutedRowLayout": layout, "restore_rows": restored},
        "torch": {"tensor_split": tensor_split},
    }
    fake_modules(monkeypatch, names)
    files = patched(SLUG, TREE, "0").contents
    made.rows = run_module(files[ROWS])
    fake_modules(monkeypatch, {"vllm_ascend.ops.fused_moe.routed_rows": vars(made.rows)})
    made.extra = SimpleNamespace(max_tokens_across_dp=7, max_tokens_across_pcp=9)
    made.prepare = run_module(files[PREPARE], _EXTRA_CTX=made.extra)
    made.capture = run_module(files[CAPTURE]).capture
    return made


def layout(tokens: int, ranges: Any, shard_sizes: Any = None, gather_group: Any = None) -> SimpleNamespace:
    return SimpleNamespace(said=(tokens, ranges, shard_sizes, gather_group))


def restored(topk_ids: Any, layout: Any, _metadata: Any, _dp_rank: int) -> tuple[str, Any]:
    return "restored", layout.said


def tensor_split(rows: Rows, parts: int, dim: int) -> list[Rows]:
    assert dim == 0
    return [Rows(rows.shape[0] // parts + (part < rows.shape[0] % parts)) for part in range(parts)]


def splitting(machine: SimpleNamespace, name: str, tp: int) -> Any:
    step = getattr(machine.prepare, name)()
    step.tp_size, step.tp_rank = tp, 0
    return step


STEPS = pytest.mark.parametrize("name", ["PrepareAndFinalizeWithAll2All", "PrepareAndFinalizeWithMC2"])


@STEPS
def test_a_split_batch_is_said_to_be_split_as_it_was(machine: SimpleNamespace, name: str) -> None:
    splitting(machine, name, 2).prepare(Rows(5))
    assert machine.context.routed_row_layout.said == (5, ((0, 5),), (3, 2), "tp")


@STEPS
def test_with_one_tp_rank_the_rows_are_the_tokens(machine: SimpleNamespace, name: str) -> None:
    splitting(machine, name, 1).prepare(Rows(5))
    assert machine.context.routed_row_layout.said == (5, ((0, 5),), None, None)


@STEPS
def test_rows_that_the_model_has_split_already_are_said_to_be_unknown(machine: SimpleNamespace, name: str) -> None:
    machine.context.routed_row_layout = layout(1, ((0, 1),))
    splitting(machine, name, 2).prepare(Rows(5), replace_allreduce=True)
    assert machine.context.routed_row_layout is None


def gathering(machine: SimpleNamespace, **config: Any) -> Any:
    step = machine.prepare.PrepareAndFinalizeWithAllGather()
    group = SimpleNamespace(all_gather=lambda rows, _: rows)
    known = {"is_sequence_parallel": False, "dp_size": 2, "pcp_size": 1, "dp_group": group}
    step.moe_config = SimpleNamespace(**known | config)
    return step


def test_a_gathered_batch_starts_behind_the_padded_ones_before_it(machine: SimpleNamespace) -> None:
    machine.dp_rank = 1
    gathering(machine).prepare(Rows(5))
    assert machine.context.routed_row_layout.said == (5, ((7, 12),), None, None)


@pytest.mark.parametrize("config", [{"is_sequence_parallel": True}, {"dp_size": 1}, {"pcp_size": 2}])
def test_a_gather_that_is_not_known_is_said_to_be_unknown(machine: SimpleNamespace, config: dict[str, Any]) -> None:
    machine.context.routed_row_layout = layout(1, ((0, 1),))
    gathering(machine, **config).prepare(Rows(5))
    assert machine.context.routed_row_layout is None


@pytest.mark.parametrize(("counts", "known"), [([5, 7], True), ([6, 7], False)])
def test_a_batch_that_dp_counts_otherwise_is_unknown(machine: SimpleNamespace, counts: list[int], known: bool) -> None:
    machine.context.dp_metadata = SimpleNamespace(num_tokens_across_dp_cpu=counts)
    splitting(machine, "PrepareAndFinalizeWithMC2", 2).prepare(Rows(5))
    assert (machine.context.routed_row_layout is not None) is known


def test_the_replacement_restores_rows_with_a_layout_and_guesses_those_without(machine: SimpleNamespace) -> None:
    capturer = SimpleNamespace(dp_rank=0)
    machine.context.dp_metadata = "metadata"
    assert machine.capture(capturer, 0, "ids") == "guessed"
    machine.context.routed_row_layout = layout(1, ((0, 1),))
    assert machine.capture(capturer, 0, "ids") == ("restored", (1, ((0, 1),), None, None))


def test_a_vllm_without_the_layout_is_told_and_served_as_before(
    machine: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fake_modules(monkeypatch, {"vllm.model_executor.layers.fused_moe.routed_rows": {}})
    with caplog.at_level(logging.WARNING):
        rows = run_module((PATCHES / SLUG / "routed_rows.py").read_bytes())
    assert "knows no layout" in caplog.text
    rows.lay_out_local_rows(5)
    assert machine.context.routed_row_layout is None


def test_a_tree_with_the_layout_has_it_already() -> None:
    after = {path: content.decode() for path, content in patched(SLUG, TREE, "0").contents.items()}
    assert patched(SLUG, TREE | after, "0").done


def test_a_tree_that_replaces_no_capture_is_not_applicable() -> None:
    assert choose(SLUG, {PREPARE: TREE[PREPARE]}, "0") is None
