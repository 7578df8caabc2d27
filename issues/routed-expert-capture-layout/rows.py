"""What both repros share: how rows get from a batch to its router in each layout, and what must have been captured.

Every token has a tag, a number that no other token of the run has. The expert ids that a row is routed to are made of
its tag, the layer and the place among the top k, so no two rows, layers or places can be confused. A batch is a column
of tags; splitting, padding and gathering move tags, the tree's own router and capturer see what arrives. The oracle
knows none of that: it computes what the tokens of a rank, in their order, must have been routed to.
"""

from __future__ import annotations

import inspect
import os
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

MODULE = "vllm/model_executor/layers/fused_moe/routed_experts_capturer.py"
LAYERS, TOP_K = 48, 8  # of Qwen3-30B-A3B
PAD = -9
# Tokens of DP rank 0 and 1 by step: the example of the docs, fewer than TP ranks, one rank far ahead, a prefill.
STEPS = ((5, 7), (1, 4), (64, 3), (3300, 2917))
EXPLICIT = ("L1", "L1 with DP metadata", "L2", "L3")
CONTROLS = ("modular", "naive")
RUNNER = ("runner modular", "runner naive", "runner SP", "runner SP naive")


@dataclass(frozen=True)
class Place:
    """One rank of a configuration."""

    tp: int
    dp: int
    tp_rank: int
    dp_rank: int


@dataclass(frozen=True)
class Said:
    """What the code that moved the rows knows of them."""

    source_ranges: tuple[tuple[int, int], ...]
    shard_sizes: tuple[int, ...] | None = None


def counts_of(step: int, dp: int) -> tuple[int, ...]:
    return STEPS[step][:dp]


def tags_of(step: int, dp_rank: int) -> Any:
    """The tags of a DP rank's tokens: 1, 2, 3 … in the first step, so that what goes wrong can be read."""
    import torch

    first = 1 + 20_000 * step + 10_000 * dp_rank
    return torch.arange(first, first + STEPS[step][dp_rank], dtype=torch.int64)


def shard_sizes(tokens: int, tp: int, step: int) -> tuple[int, ...]:
    """How a TP group splits a batch: as evenly as it gets, in every third step everything but one row on one rank."""
    tokens = max(tokens, tp)
    if step % 3 == 2 and tp > 1:
        sizes = [0] * tp
        sizes[step % tp], sizes[(step + 1) % tp] = tokens - 1, 1
        return tuple(sizes)
    return tuple(tokens // tp + (rank < tokens % tp) for rank in range(tp))


def padded(tags: Any, size: int) -> Any:
    import torch

    return torch.cat([tags, torch.full((size - len(tags),), PAD, dtype=tags.dtype)])


def widest_shard(step: int, place: Place) -> int:
    return 1 + max(max(shard_sizes(tokens, place.tp, step)) for tokens in counts_of(step, place.dp))


def longest_batch(step: int, place: Place) -> int:
    longest = max(counts_of(step, place.dp))
    return longest if place.dp > 1 else longest + 3  # with one DP rank: padded for a graph


def local_rows(kind: str, step: int, place: Place) -> Any:
    """The rows of a rank before anything is gathered."""
    tags = tags_of(step, place.dp_rank)
    if kind == "L3":
        return padded(tags, longest_batch(step, place))
    if kind.startswith("runner SP"):
        each = -(-len(tags) // place.tp)
        return padded(tags, each * place.tp)[place.tp_rank * each : (place.tp_rank + 1) * each]
    if not kind.startswith("L"):
        return tags
    sizes = shard_sizes(len(tags), place.tp, step)
    start = sum(sizes[: place.tp_rank])
    shard = padded(tags, sum(sizes))[start : start + sizes[place.tp_rank]]
    return padded(shard, widest_shard(step, place)) if kind == "L2" else shard


def gathered_over(kind: str) -> str:
    """The group over which the rows are gathered before they are routed; "" where they are not."""
    return {"L2": "ep", "L3": "dp", "naive": "dp", "runner naive": "dp", "runner SP naive": "ep"}.get(kind, "")


def said_of(kind: str, step: int, place: Place) -> Said | None:
    """The layout, for the kinds whose producer hands one over."""
    tokens = STEPS[step][place.dp_rank]
    if kind.startswith("L1"):
        return Said(((0, tokens),), shard_sizes(tokens, place.tp, step))
    if kind == "L3":
        first = place.dp_rank * longest_batch(step, place)
        return Said(((first, first + tokens),))
    if kind != "L2":
        return None
    width, ranges, left = widest_shard(step, place), [], tokens
    for rank, size in enumerate(shard_sizes(tokens, place.tp, step)):
        first = (place.dp_rank * place.tp + rank) * width
        ranges.append((first, first + min(size, left)))
        left -= min(size, left)
    return Said(tuple(ranges))


def has_metadata(kind: str, place: Place) -> bool:
    return place.dp > 1 or "metadata" in kind or "SP" in kind


def expert_ids(tags: Any, layer: int) -> Any:
    """What a router answers for rows with these tags: (rows, TOP_K)."""
    import torch

    places = torch.arange(TOP_K, dtype=torch.int64)
    return ((tags[:, None] * LAYERS + layer) * TOP_K + places).to(torch.int32 if layer % 2 else torch.int64)


def oracle(step: int, dp_rank: int) -> Any:
    """What must have been captured: (tokens, LAYERS, TOP_K), in numpy and from the token numbers alone."""
    import numpy

    first = 1 + 20_000 * step + 10_000 * dp_rank
    tokens = numpy.arange(first, first + STEPS[step][dp_rank])
    elements = numpy.arange(LAYERS * TOP_K).reshape(LAYERS, TOP_K)
    return tokens[:, None, None] * (LAYERS * TOP_K) + elements


def differences(captured: Any, step: int, place: Place) -> str:
    """Say in which way captured rows are wrong; "" when every element of every token and layer is right."""
    import numpy

    wanted, found = oracle(step, place.dp_rank), captured.numpy()
    wrong = int((wanted != found).sum())
    if not wrong:
        return ""
    owners = found[:, 0, 0] // (LAYERS * TOP_K)
    tokens = wanted[:, 0, 0] // (LAYERS * TOP_K)
    lost = len(numpy.setdiff1d(tokens, owners))
    shown = f": captured {owners.tolist()} for tokens {tokens.tolist()}" if len(tokens) <= 8 else ""
    return f"{wrong} of {wanted.size} expert ids wrong, {lost} of {len(tokens)} tokens lost{shown}"


# -- the tree's own classes -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tree:
    """The tree under test, imported."""

    capturer: Any
    base_router: Any
    runner: Any
    context: Any  # vllm.forward_context
    state: Any  # vllm.distributed.parallel_state
    layout: Any  # vllm…routed_rows, None where there is no such thing

    def new_capturer(self, place: Place, rows: int = 4096) -> Any:
        """The capturer's own methods on a buffer of ours: what its constructor asks of a model is not wanted here."""
        import torch

        made = object.__new__(self.capturer)
        made.device_buffer = torch.zeros((rows, LAYERS, TOP_K), dtype=torch.int32)
        made.dp_rank, made.tp_size, made.attn_gid = place.dp_rank, place.tp, 0
        made.output_dtype = torch.uint8
        return made

    def new_router(self, capture: Callable[[int, Any], None]) -> Any:
        """The tree's own `BaseRouter`, which captures; routing is by tag."""
        import torch

        class TagRouter(self.base_router):
            layer = 0
            eplb_state = None
            enable_eplb = False
            indices_type_getter = None
            _routing_replay_out = None

            def __init__(self) -> None:
                self.set_capture_fn(lambda ids: capture(self.layer, ids))

            def _compute_routing(self, hidden_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
                ids = expert_ids(hidden_states[:, 0], self.layer)
                return torch.ones(ids.shape), ids

            @property
            def routing_method_type(self) -> Any:
                return None

        return TagRouter()

    @contextmanager
    def forward(self, kind: str, counts: tuple[int, ...], place: Place) -> Iterator[Any]:
        """A forward context such as vLLM makes for this batch."""
        import torch

        metadata = self.context.DPMetadata(torch.tensor(counts, dtype=torch.int32))
        wanted = metadata if has_metadata(kind, place) else None
        made = self.context.ForwardContext(
            no_compile_layers={},
            attn_metadata={},
            slot_mapping={},
            dp_metadata=wanted,
            batch_descriptor=self.context.BatchDescriptor(num_tokens=described(kind, counts, place)),
        )
        shards = place.tp if "SP" in kind else 1
        with self.context.override_forward_context(made), wanted.sp_local_sizes(shards) if wanted else nullcontext():
            yield made


def described(kind: str, counts: tuple[int, ...], place: Place) -> int:
    """The tokens that the batch descriptor tells of: those of the graph where the batch is padded for one."""
    padding = 3 if kind == "L3" and place.dp == 1 else 0
    return counts[place.dp_rank] + padding


def publishes(kind: str, place: Place) -> bool:
    """Whether a rank's rows count: with a layout on every rank, as upstream has it on the first of a TP group."""
    return kind.startswith("L") or place.tp_rank == 0


def quiet(*_: Any, **__: Any) -> None:
    return None


def route(tree: Tree, kind: str, router: Any, rows: Any, place: Place) -> None:
    """Send rows through the router of one layer, for the runner's kinds by way of the tree's own `MoERunner`."""
    hidden = rows[:, None]
    if not kind.startswith("runner"):
        router.select_experts(hidden_states=hidden, router_logits=hidden)
        return
    method = types.SimpleNamespace(is_monolithic=False, topk_indices_dtype=None, apply=quiet)
    runner = types.SimpleNamespace(
        router=router,
        moe_config=types.SimpleNamespace(
            dp_rank=place.dp_rank, dp_size=place.dp, sp_size=place.tp if "SP" in kind else 1, pcp_size=1
        ),
        do_naive_dispatch_combine="naive" in kind,
        routed_experts=types.SimpleNamespace(quant_method=method, forward_modular=quiet),
        _quant_method=method,
        _shared_experts=None,
        _maybe_apply_shared_experts=quiet,
    )
    given = {"layer": None, "hidden_states": hidden, "router_logits": hidden, "shared_experts_input": None}
    known = inspect.signature(tree.runner._apply_quant_method).parameters
    tree.runner._apply_quant_method(runner, **{name: value for name, value in given.items() if name in known})


def layout_of(tree: Tree, said: Said | None, tokens: int, group: Any) -> Any:
    """The layout as the tree's API has it; None where it has none or there is nothing to say."""
    if tree.layout is None or said is None:
        return None
    gather = {} if said.shard_sizes is None else {"shard_sizes": said.shard_sizes, "gather_group": group}
    return tree.layout.RoutedRowLayout(num_tokens=tokens, source_ranges=said.source_ranges, **gather)


def hand_over(tree: Tree, layout: Any) -> Any:
    return nullcontext() if layout is None else tree.layout.hand_over_rows(layout)


# -- rows of an earlier forward pass ----------------------------------------------------------------------------------


def read(capturer: Any, tokens: int) -> Any:
    """What a model runner of this release reads at the end of a step."""
    if hasattr(capturer, "snapshot_routing_data"):
        return capturer.snapshot_routing_data(tokens)
    return capturer.get_device_buffer()[:tokens].clone()


def leftovers(tree: Tree) -> str:
    """Whether rows of a warm-up or of an earlier step are read as the current one's; "" when none are."""
    import torch

    place = Place(1, 1, 0, 0)
    capturer = tree.new_capturer(place)

    def step(tokens: int, layers: tuple[int, ...], expert: int) -> Any:
        getattr(capturer, "clear_buffer", quiet)()  # the model runner's first act, up to 0.27
        with tree.forward("modular", (tokens,), place):
            for layer in layers:
                capturer.capture(layer, torch.full((tokens, TOP_K), expert, dtype=torch.int32))
        return capturer

    every = tuple(range(LAYERS))
    step(64, every, 77)  # a warm-up: nobody reads it
    rows = read(step(5, every[:-1], 3), 64)
    found = []
    if (rows == 77).any():
        found.append(f"{int((rows == 77).sum())} expert ids of a warm-up are read as a step's own")
    if not bool((rows[:5, :-1] == 3).all()):
        found.append("the step's own rows are gone")
    step(9, every, 78)
    read(capturer, 9)
    rows = read(step(9, (), 0), 9)
    if (rows == 78).any():
        found.append(f"{int((rows == 78).sum())} expert ids of the last step are read in one that routed nothing")
    return "; ".join(found)


# -- import -----------------------------------------------------------------------------------------------------------


def open_tree() -> Tree | str:
    """Import the tree on its own CPU platform; a text says that the feature is absent, or is not of the kind known.

    Raises `ImportError` and its like when the tree does not import here.
    """
    root = Path(os.environ.get("PATCHKIT_TREE") or Path.cwd()).resolve()
    if not (root / "vllm" / "__init__.py").is_file():
        return f"cannot tell: {root} holds no vllm package"
    source = root / MODULE
    if not source.is_file() or "def capture(" not in source.read_text(encoding="utf-8"):
        return "patchkit: absent"
    if "def clear_buffer" in source.read_text(encoding="utf-8") and "init_buffer" in source.read_text(encoding="utf-8"):
        return "cannot tell: the capturer of this release writes to shared memory, which is another design"
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    warnings.simplefilter("ignore", FutureWarning)  # torch's, about a name in the tree's communicator
    sys.path.insert(0, str(root))
    return import_tree()


def import_tree() -> Tree:
    from vllm import platforms
    from vllm.platforms.cpu import CpuPlatform

    platforms._current_platform = CpuPlatform()
    from vllm import forward_context
    from vllm.distributed import parallel_state
    from vllm.model_executor.layers.fused_moe.routed_experts_capturer import RoutedExpertsCapturer
    from vllm.model_executor.layers.fused_moe.router.base_router import BaseRouter
    from vllm.model_executor.layers.fused_moe.runner.moe_runner import MoERunner

    found = Tree(RoutedExpertsCapturer, BaseRouter, MoERunner, forward_context, parallel_state, None)
    try:
        from vllm.model_executor.layers.fused_moe import routed_rows
    except ImportError:
        print("note: the tree has no layout API, its capturer is told what upstream tells it")
        return found
    return replace(found, layout=routed_rows)


def capture_into(capturer: Any, phase: Callable[[bool], None]) -> Callable[[int, Any], None]:
    """The capture call of a router, telling when it is inside."""

    def capture(layer: int, ids: Any) -> None:
        phase(True)
        partial(capturer.capture, layer)(ids)
        phase(False)

    return capture
