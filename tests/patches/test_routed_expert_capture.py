"""routed-expert-capture-layout and -reset: whose rows they are is said, and rows of an earlier pass are forgotten.

The code that goes into vLLM is run here on a torch of our own that knows a few operations on rows.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from patchkit.recipe.condition import parse_condition
from patchkit.recipe.load import load_patch
from patchkit.recipe.model import ChangeRewrite
from patchkit.stack.rewrite import RewriteError, RewriteResult, rewrite_files
from tests.patches.shapes import PATCHES, TreeFacts, fake_modules, run_module

LAYOUT, RESET = "routed-expert-capture-layout", "routed-expert-capture-reset"
CONTEXT = "vllm/forward_context.py"
CAPTURER = "vllm/model_executor/layers/fused_moe/routed_experts_capturer.py"
ROWS = "vllm/model_executor/layers/fused_moe/routed_rows.py"
RUNNER = "vllm/model_executor/layers/fused_moe/runner/moe_runner.py"

CONTEXT_TEXT = """\
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ForwardContext:
    dp_metadata: Any = None
    additional_kwargs: dict[str, Any] = field(default_factory=dict)
"""
RUNNER_TEXT = """\
class MoERunner:
    def _apply_quant_method(self, hidden_states, router_logits):
        topk_weights, topk_ids = self.router.select_experts(
            hidden_states=hidden_states,
            router_logits=router_logits,
        )
        return topk_ids
"""
GUESSING = """\
from vllm.forward_context import get_forward_context


class RoutedExpertsCapturer:
    dp_rank = 0

    def capture(self, layer_id, topk_ids):
        ctx = get_forward_context()
        if ctx.dp_metadata is None:
            rows = topk_ids
        else:
            rows = self.guess(topk_ids)
        self.device_buffer[: len(rows)] = rows

    def get_device_buffer(self):
        return self.device_buffer

    def get_routed_experts(self, slot_mappings, num_tokens):
        return (self.device_buffer[:num_tokens].clone(), slot_mappings)
"""
RESTORING = """\
from vllm.forward_context import get_forward_context


class RoutedExpertsCapturer:
    dp_rank = 0

    def capture(self, layer_id, topk_ids):
        ctx = get_forward_context()
        local_topk_ids = self._restore_local_topk_ids(topk_ids, ctx)
        self.device_buffer[: len(local_topk_ids)] = local_topk_ids

    def _restore_local_topk_ids(self, topk_ids, ctx):
        return self.guess(topk_ids)

    def snapshot_routing_data(self, num_tokens):
        return self.device_buffer[:num_tokens].to(self.output_dtype)
"""
FORMS = pytest.mark.parametrize(("text", "version"), [(GUESSING, "0.30.0"), (RESTORING, "0.33.0")])


class Rows:
    """A matrix of ids that knows what the patch asks of a tensor."""

    def __init__(self, rows: list[list[int]]) -> None:
        self.rows = rows

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows[0]) if self.rows else 1

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: slice) -> Rows:
        return Rows(self.rows[at])

    def __setitem__(self, at: slice, value: Rows) -> None:
        assert len(self.rows[at]) == len(value.rows)
        self.rows[at] = value.rows

    def new_full(self, shape: tuple[int, int], value: int, dtype: str) -> Rows:
        assert dtype == "int32"
        return Rows([[value] * shape[1] for _ in range(shape[0])])

    def clone(self) -> Rows:
        return Rows([list(row) for row in self.rows])

    def to(self, _dtype: str) -> Rows:
        return self.clone()

    def zero_(self) -> None:
        self.rows = [[0] * len(row) for row in self.rows]


def ids(*values: int) -> Rows:
    return Rows([[value] for value in values])


def values(rows: Rows) -> list[int]:
    return [row[0] for row in rows.rows]


class Group:
    """The gather group as one rank sees it; what the other ranks hand in is given."""

    def __init__(self, rank: int, others: Mapping[int, list[int]], size: int = 2) -> None:
        self.rank_in_group, self.world_size, self.others = rank, size, others
        self.entered: list[list[int]] = []

    def all_gather(self, shard: Rows, dim: int) -> Rows:
        assert dim == 0
        self.entered.append(values(shard))
        parts = {**self.others, self.rank_in_group: values(shard)}
        return ids(*(value for rank in range(self.world_size) for value in parts[rank]))


class Facts(TreeFacts):
    """Also knows methods, as `Class.method`."""

    def has(self, path: str, symbol: str | None) -> bool:
        return super().has(path, symbol.rpartition(".")[2] if symbol else None)


def choose(slug: str, files: Mapping[str, str], version: str) -> str | None:
    """Return the rewrite that a patch chooses for a tree, None where it is not applicable."""
    patch, facts = load_patch(PATCHES / slug).patch, Facts(files, version)
    assert patch.when is not None
    if not parse_condition(patch.when).decide(facts).holds:
        return None
    changes = [change for change in patch.change if isinstance(change, ChangeRewrite)]
    return next(c.rewrite for c in changes if c.when is None or parse_condition(c.when).decide(facts).holds)


def patched(slug: str, files: Mapping[str, str], version: str) -> RewriteResult:
    """Apply a shipped patch to a tree."""
    loaded, chosen = load_patch(PATCHES / slug), choose(slug, files, version)
    assert chosen is not None
    return rewrite_files(
        lambda path: files[path].encode() if path in files else None, loaded.rewrites[chosen], loaded.folder
    )


@pytest.fixture
def context() -> SimpleNamespace:
    return SimpleNamespace(current=SimpleNamespace(dp_metadata=None, routed_row_layout=None), dbo=False)


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch, context: SimpleNamespace) -> Any:
    """The file of our own, executed."""
    fused_moe = "vllm.model_executor.layers.fused_moe"
    names: dict[str, dict[str, Any]] = {
        name: {} for name in ("vllm", "vllm.model_executor", "vllm.model_executor.layers", fused_moe, "vllm.v1")
    }
    names |= {
        "torch": {
            "int32": "int32",
            "Tensor": Rows,
            "cat": lambda parts: Rows([row for part in parts for row in part.rows]),
        },
        "vllm.forward_context": {"get_forward_context": lambda: context.current},
        "vllm.distributed": {},
        "vllm.distributed.parallel_state": {"get_tp_group": lambda: context.tp_group},
        "vllm.v1.worker": {},
        "vllm.v1.worker.ubatching": {"dbo_enabled": lambda: context.dbo},
        "probed": {},
    }
    fake_modules(monkeypatch, names)
    made = run_module((PATCHES / LAYOUT / "routed_rows.py").read_bytes())
    monkeypatch.setattr(sys.modules[fused_moe], "routed_rows", made, raising=False)
    monkeypatch.setitem(sys.modules, f"{fused_moe}.routed_rows", made)
    return made


def tree(capturer: str) -> dict[str, str]:
    return {CONTEXT: CONTEXT_TEXT, RUNNER: RUNNER_TEXT, CAPTURER: capturer}


def with_layout(capturer: str, version: str) -> dict[str, str]:
    files = tree(capturer)
    return files | {path: content.decode() for path, content in patched(LAYOUT, files, version).contents.items()}


def new_capturer(source: str, size: int = 8) -> Any:
    made = run_module(source.encode()).RoutedExpertsCapturer()
    made.device_buffer, made.output_dtype = ids(*[0] * size), "uint8"
    made.guess = lambda topk_ids: ids(*(value + 100 for value in values(topk_ids)))
    return made


# -- restoring rows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rank", "own", "other"), [(0, (1, 2, 3), [4, 5, -1]), (1, (4, 5), [1, 2, 3])])
def test_unequal_shards_are_padded_to_the_largest_and_put_together(
    rows: Any, rank: int, own: tuple[int, ...], other: list[int]
) -> None:
    group = Group(rank, {1 - rank: other})
    layout = rows.RoutedRowLayout(5, ((0, 5),), (3, 2), group)
    assert values(rows.restore_rows(ids(*own), layout, None, 0)) == [1, 2, 3, 4, 5]
    assert [len(shard) for shard in group.entered] == [3]


def test_padding_inside_shards_is_left_out(rows: Any) -> None:
    layout = rows.RoutedRowLayout(5, ((0, 3), (4, 6)))
    assert values(rows.restore_rows(ids(1, 2, 3, -9, 4, 5, -9, -9), layout, None, 0)) == [1, 2, 3, 4, 5]


def test_a_padded_gather_starts_where_the_padding_of_others_ends(rows: Any) -> None:
    metadata = SimpleNamespace(num_tokens_across_dp_cpu=[5, 7])
    layout = rows.RoutedRowLayout(7, ((7, 14),))
    seen = ids(1, 2, 3, 4, 5, -9, -9, *range(11, 18))
    assert values(rows.restore_rows(seen, layout, metadata, 1)) == list(range(11, 18))


def test_a_rank_without_rows_enters_the_collective_like_the_others(rows: Any) -> None:
    group = Group(1, {0: [1, 2]})
    layout = rows.RoutedRowLayout(2, ((0, 2),), (2, 0), group)
    assert values(rows.restore_rows(Rows([]), layout, None, 0)) == [1, 2]
    assert group.entered == [[-1, -1]]


def test_a_rank_with_other_rows_than_it_says_enters_first_and_raises_then(rows: Any) -> None:
    group = Group(1, {0: [1, 2, 3]})
    layout = rows.RoutedRowLayout(5, ((0, 5),), (3, 2), group)
    with pytest.raises(AssertionError, match="has 1 routed rows, its layout says 2"):
        rows.restore_rows(ids(4), layout, None, 0)
    assert group.entered == [[-1, -1, -1]]


def test_a_layout_for_another_number_of_tokens_is_refused_before_any_collective(rows: Any) -> None:
    group = Group(0, {})
    layout = rows.RoutedRowLayout(5, ((0, 5),), (3, 2), group)
    with pytest.raises(AssertionError, match="DP rank 1 has 7 tokens"):
        rows.restore_rows(ids(1, 2, 3), layout, SimpleNamespace(num_tokens_across_dp_cpu=[5, 7]), 1)
    assert group.entered == []


def test_ranges_beyond_the_rows_are_refused(rows: Any) -> None:
    with pytest.raises(AssertionError, match="3 routed rows, of which 2 are laid out as tokens"):
        rows.restore_rows(ids(1, 2, 3), rows.RoutedRowLayout(4, ((1, 5),)), None, 0)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((5, ((0, 4),)), "hold 4 rows for 5 tokens"),
        ((1, ((2, 1), (0, 2))), "is no \\(start, stop\\)"),
        ((1, ((0, 1),), (1, 0)), "go together"),
        ((1, ((0, 1),), (1, 0, 0), Group(0, {})), "3 shard sizes for a group of 2 ranks"),
        ((1, ((5, 6),), (3, 2), Group(0, {})), "ends beyond the shards"),
    ],
)
def test_a_layout_that_contradicts_itself_is_refused(rows: Any, arguments: tuple[Any, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        rows.RoutedRowLayout(*arguments)


# -- the capturer, rewritten ------------------------------------------------------------------------------------------


@FORMS
def test_rows_with_a_layout_are_restored_and_not_guessed(
    rows: Any, context: SimpleNamespace, text: str, version: str
) -> None:
    capturer = new_capturer(with_layout(text, version)[CAPTURER])
    context.current.dp_metadata = SimpleNamespace(num_tokens_across_dp_cpu=[2, 1])
    with rows.hand_over_rows(rows.RoutedRowLayout(2, ((1, 3),))):
        capturer.capture(0, ids(-9, 1, 2, -9))
    assert values(capturer.device_buffer)[:3] == [1, 2, 0]


@FORMS
def test_rows_without_a_layout_are_guessed_as_before(
    rows: Any, context: SimpleNamespace, text: str, version: str
) -> None:
    capturer = new_capturer(with_layout(text, version)[CAPTURER])
    context.current.dp_metadata = SimpleNamespace(num_tokens_across_dp_cpu=[2, 1])
    capturer.capture(0, ids(1, 2))
    assert values(capturer.device_buffer)[:2] == [101, 102]


def test_a_layout_is_gone_after_the_routing_it_is_for(rows: Any, context: SimpleNamespace) -> None:
    layout = rows.RoutedRowLayout(1, ((0, 1),))
    with rows.hand_over_rows(layout), rows.hand_over_rows(None):
        assert context.current.routed_row_layout is layout
    assert context.current.routed_row_layout is None


def test_a_layout_is_gone_when_the_routing_failed(rows: Any, context: SimpleNamespace) -> None:
    with contextlib.suppress(RuntimeError), rows.hand_over_rows(rows.RoutedRowLayout(1, ((0, 1),))):
        raise RuntimeError
    assert context.current.routed_row_layout is None


def test_the_forward_context_has_a_layout_only_when_one_is_set(rows: Any) -> None:
    made = run_module(with_layout(GUESSING, "0.26.0")[CONTEXT].encode())
    assert made.ForwardContext().routed_row_layout is None


# -- what vLLM's own runner says --------------------------------------------------------------------------------------


@contextlib.contextmanager
def batch(context: SimpleNamespace, counts: list[int], sizes: list[int] | None) -> Iterator[None]:
    context.current.dp_metadata = SimpleNamespace(num_tokens_across_dp_cpu=counts, local_sizes=sizes)
    yield


def runner(dp_rank: int, shards: int, gathered: bool, **others: Any) -> SimpleNamespace:
    config = SimpleNamespace(dp_rank=dp_rank, sp_size=shards, pcp_size=others.pop("pcp_size", 1))
    router = SimpleNamespace(capture_fn=others.pop("capture_fn", print))
    return SimpleNamespace(moe_config=config, router=router, do_naive_dispatch_combine=gathered)


def test_the_runner_says_where_a_dp_ranks_rows_are_in_a_gathered_batch(rows: Any, context: SimpleNamespace) -> None:
    with batch(context, [5, 7], [3, 3, 4, 4]):
        layout = rows.runner_layout(runner(1, 2, gathered=True))
    assert (layout.num_tokens, layout.source_ranges, layout.gather_group) == (7, ((6, 13),), None)


def test_the_runner_says_that_sequence_parallel_shards_are_to_be_gathered(rows: Any, context: SimpleNamespace) -> None:
    context.tp_group = Group(0, {})
    with batch(context, [5, 7], [3, 3, 4, 4]):
        layout = rows.runner_layout(runner(1, 2, gathered=False))
    assert (layout.source_ranges, layout.shard_sizes) == (((0, 7),), (4, 4))
    assert layout.gather_group is context.tp_group


def test_the_runner_says_that_its_rows_are_its_tokens(rows: Any, context: SimpleNamespace) -> None:
    with batch(context, [5, 7], [5, 7]):
        layout = rows.runner_layout(runner(1, 1, gathered=False))
    assert (layout.source_ranges, layout.gather_group) == (((0, 7),), None)


@pytest.mark.parametrize("asked", [runner(0, 1, False, capture_fn=None), runner(0, 1, False, pcp_size=2)])
def test_the_runner_says_nothing_where_nobody_captures_or_it_does_not_know(
    rows: Any, context: SimpleNamespace, asked: SimpleNamespace
) -> None:
    with batch(context, [5], [5]):
        assert rows.runner_layout(asked) is None


def test_the_runner_says_nothing_without_dp_metadata(rows: Any) -> None:
    assert rows.runner_layout(runner(0, 1, gathered=False)) is None


def test_the_runner_hands_over_its_layout_while_it_routes(rows: Any, context: SimpleNamespace) -> None:
    made = run_module(with_layout(GUESSING, "0.26.0")[RUNNER].encode()).MoERunner()
    vars(made).update(vars(runner(0, 1, gathered=False)))
    seen = []

    def select_experts(**_: Any) -> tuple[None, str]:
        seen.append(context.current.routed_row_layout)
        return None, "ids"

    made.router.select_experts = select_experts
    with batch(context, [5], [5]):
        assert made._apply_quant_method("hidden", "logits") == "ids"
    assert [layout.num_tokens for layout in seen] == [5]
    assert context.current.routed_row_layout is None


# -- rows of an earlier pass ------------------------------------------------------------------------------------------


def with_reset(text: str, version: str) -> str:
    files = with_layout(text, version)
    return patched(RESET, files, version).contents[CAPTURER].decode()


def read(capturer: Any, tokens: int) -> list[int]:
    if hasattr(capturer, "snapshot_routing_data"):
        return values(capturer.snapshot_routing_data(tokens))
    return values(capturer.get_routed_experts("slots", tokens)[0])


class Pass:
    """A forward context that can be referred to weakly, as the real one."""

    dp_metadata = None
    routed_row_layout = None


@FORMS
def test_a_new_pass_forgets_the_rows_of_the_one_before(
    rows: Any, context: SimpleNamespace, text: str, version: str
) -> None:
    capturer = new_capturer(with_reset(text, version))
    capturer.guess = lambda topk_ids: topk_ids
    context.current = Pass()
    capturer.capture(0, ids(1, 2, 3, 4))
    context.current = Pass()
    capturer.capture(0, ids(5, 6))
    assert values(capturer.device_buffer) == [5, 6, 0, 0, 0, 0, 0, 0]


@FORMS
def test_a_pass_keeps_what_its_other_layers_captured(
    rows: Any, context: SimpleNamespace, text: str, version: str
) -> None:
    capturer = new_capturer(with_reset(text, version))
    capturer.guess = lambda topk_ids: topk_ids
    context.current = Pass()
    capturer.capture(0, ids(1, 2, 3, 4))
    capturer.capture(1, ids(5, 6))
    assert values(capturer.device_buffer)[:4] == [5, 6, 3, 4]


@FORMS
def test_what_was_read_is_not_read_again(rows: Any, context: SimpleNamespace, text: str, version: str) -> None:
    capturer = new_capturer(with_reset(text, version))
    capturer.guess = lambda topk_ids: topk_ids
    context.current = Pass()
    capturer.capture(0, ids(1, 2))
    assert read(capturer, 2) == [1, 2]
    assert read(capturer, 2) == [0, 0]


@FORMS
def test_micro_batches_do_not_forget_each_others_rows(
    rows: Any, context: SimpleNamespace, text: str, version: str
) -> None:
    capturer = new_capturer(with_reset(text, version))
    capturer.guess = lambda topk_ids: topk_ids
    context.dbo = True
    for batch_of in (ids(1, 2, 3, 4), ids(5, 6)):
        context.current = Pass()
        capturer.capture(0, batch_of)
    assert values(capturer.device_buffer)[:4] == [5, 6, 3, 4]


# -- where they apply -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "version"), [(GUESSING, "0.22.0"), (GUESSING, "0.32.0"), (RESTORING, "0.33.0")])
def test_a_tree_with_the_layout_has_it_already(text: str, version: str) -> None:
    assert patched(LAYOUT, with_layout(text, version), version).done


def test_the_layout_is_not_applicable_before_the_capturer_has_its_present_form() -> None:
    assert choose(LAYOUT, tree(GUESSING), "0.21.0") is None


def test_a_capturer_that_has_moved_is_a_conflict_and_not_silence() -> None:
    files = {CONTEXT: CONTEXT_TEXT, RUNNER: RUNNER_TEXT}
    with pytest.raises(RewriteError, match="no such file in the tree"):
        patched(LAYOUT, files, "0.34.0")


def test_the_reset_is_not_applicable_where_the_runner_clears_the_buffer() -> None:
    clearing = GUESSING + "\n    def clear_buffer(self):\n        self.device_buffer.zero_()\n"
    assert choose(RESET, tree(clearing), "0.28.0") is None
    assert choose(RESET, tree(GUESSING), "0.27.1") is None
    assert choose(RESET, tree(GUESSING), "0.28.0") == "device-buffer.yaml"
    assert choose(RESET, tree(RESTORING), "0.31.0") == "snapshot.yaml"
