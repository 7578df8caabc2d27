"""Sends tagged rows through vLLM-Ascend's own prepare steps and into its own `RoutedExpertsCapturer.capture`.

The two files of the tree are run as they are, with torch on the CPU; everything else that they import (vLLM, torch_npu)
is a stand-in. The router logits carry a tag for each token, so padding, splitting and gathering are the tree's own.
Each rank is run twice: the first time a collective ends it and shows its shard, so it is seen when one rank enters and
another does not; the second time the shards of all are answered. The oracle knows the tokens' tags only.

Exit code: 0 good, 1 bad, 125 cannot tell. `patchkit: absent` means that the tree replaces no capture.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import sys
import traceback
import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CAPTURE = "vllm_ascend/patch/worker/patch_routed_experts_capture.py"
PREPARE = "vllm_ascend/ops/fused_moe/prepare_finalize.py"
PAD = "vllm_ascend/ops/fused_moe/moe_utils.py"  # how the steps pad, from 0.30 on
SAID = "vllm_ascend/ops/fused_moe/routed_rows.py"  # of the patch
LAYOUT = Path(__file__).resolve().parents[2] / "patches/routed-expert-capture-layout/routed_rows.py"
STANDING_IN = ("torch_npu", "vllm", "vllm_ascend")
LAYERS, TOP_K = 3, 8
BATCHES = ((5, 7), (1, 4), (2, 9), (640, 611))
METHODS = {"ALLTOALL": "WithAll2All", "MC2": "WithMC2", "ALLGATHER": "WithAllGather"}


class Entered(Exception):
    """A rank has come to a collective, with this shard."""

    def __init__(self, shard: Any) -> None:
        super().__init__()
        self.shard = shard


class Anything:
    """Stands in for what is imported and not wanted here: false, callable, with every attribute."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    def __bool__(self) -> bool:
        return False

    def __or__(self, _: Any) -> Any:  # in annotations
        return self


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives a module of stand-ins for every name of the packages that are not there."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.known = known

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002 — the protocol's
        if name.partition(".")[0] not in STANDING_IN:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        made = types.ModuleType(spec.name)
        made.__dict__["__getattr__"] = lambda name: self.known.get(name, Anything())
        return made

    def exec_module(self, module: types.ModuleType) -> None:  # noqa: ARG002 — the protocol's
        return None


@dataclass(frozen=True)
class Place:
    """One rank, and the batch of every DP rank."""

    method: str
    tp: int
    tp_rank: int
    dp_rank: int
    batches: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return self.batches[self.dp_rank]


class Machine:
    """The ranks of one configuration, seen by the rank that runs. Without `shards` a collective ends it."""

    def __init__(self) -> None:
        self.place = Place("MC2", 1, 0, 0, (1,))
        self.shards: Sequence[Any] | None = None
        self.context: Any = None
        self.extra = types.SimpleNamespace()
        self.rank_in_group, self.world_size, self.device_group = 0, 1, None

    def known(self) -> dict[str, Any]:
        """What the tree imports and really uses, by name."""
        kinds = types.SimpleNamespace(**{name: name for name in (*METHODS, "FUSED_MC2")})
        return {
            "_EXTRA_CTX": self.extra,
            "MoECommType": kinds,
            "MoEPrepareOutput": types.SimpleNamespace,
            "RoutedExpertsCapturer": type("RoutedExpertsCapturer", (), {}),
            "get_current_vllm_config_or_none": lambda: None,  # padding without blocks kept from another TP size
            "get_forward_context": lambda: self.context,
            "get_tp_group": lambda: self,
            "get_dp_group": lambda: types.SimpleNamespace(rank_in_group=self.place.dp_rank),
        }

    def enter(self, place: Place, shards: Sequence[Any] | None) -> None:
        """Begin a layer on a rank."""
        import torch

        self.place, self.shards = place, shards
        self.rank_in_group, self.world_size = place.tp_rank, place.tp
        longest = max(place.batches)
        padded = -(-longest // place.tp) * place.tp
        vars(self.extra).update(
            moe_comm_type=place.method,
            max_tokens_across_dp=longest,
            padded_num_tokens=padded,
            mc2_mask=torch.ones(padded, dtype=torch.bool),
            flash_comm_v1_enabled=False,
        )
        counts = types.SimpleNamespace(num_tokens_across_dp_cpu=torch.tensor(place.batches))
        metadata = counts if len(place.batches) > 1 else None
        self.context = types.SimpleNamespace(dp_metadata=metadata, routed_row_layout=None)

    def all_gather(self, shard: Any, dim: int = 0) -> Any:
        """The collective of a TP group as vLLM has it."""
        import torch

        if self.shards is None:
            raise Entered(shard)
        assert dim == 0
        return torch.cat(list(self.shards))

    def gather_into(self, parts: list[Any], shard: Any, _group: Any) -> None:
        """The collective as torch has it: `all_gather(parts, shard, group)`, parts of the sizes that come in."""
        if self.shards is None:
            raise Entered(shard)
        for part, given in zip(parts, self.shards, strict=True):
            part.copy_(given)

    def gather_batches(self, rows: Any, _dim: int) -> Any:
        """The gather of a DP group: what the other ranks hand in is padded as this one's is."""
        import torch

        parts = []
        for rank, tokens in enumerate(self.place.batches):
            batch = torch.zeros_like(rows)
            batch[:tokens] = tags_of(rank, tokens).expand(tokens, rows.shape[1])
            parts.append(rows if rank == self.place.dp_rank else batch)
        return torch.cat(parts)


def tags_of(dp_rank: int, tokens: int) -> Any:
    import torch

    return torch.arange(1, tokens + 1, dtype=torch.float64)[:, None] + 10_000 * dp_rank


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Tree:
    """The code under test: the module of prepare steps and the replacement of `capture`."""

    prepare: Any
    capture: Any
    machine: Machine

    def run(self, place: Place, shards: list[Any] | None) -> Any:
        """All layers of a rank. Returns the rows captured for its tokens; raises `Entered` without shards."""
        import torch

        self.machine.enter(place, shards)
        buffer = torch.zeros((4096, LAYERS, TOP_K), dtype=torch.int64)
        capturer = types.SimpleNamespace(device_buffer=buffer, dp_rank=place.dp_rank, tp_size=place.tp)
        step = self.new_step(place)
        tags = tags_of(place.dp_rank, place.tokens)
        given = {
            "hidden_states": tags.repeat(1, 4),
            "router_logits": tags,
            "replace_allreduce": False,
            "enable_shared_expert_dp": False,
        }
        known = inspect.signature(step.prepare).parameters
        for layer in range(LAYERS):
            out = step.prepare(**{name: value for name, value in given.items() if name in known})
            self.capture(capturer, layer, ids_of(out.router_logits))
        return buffer[: place.tokens]

    def new_step(self, place: Place) -> Any:
        config = types.SimpleNamespace(
            dp_size=len(place.batches),
            dp_rank=place.dp_rank,
            pcp_size=1,
            is_sequence_parallel=False,
            dp_group=types.SimpleNamespace(all_gather=self.machine.gather_batches),
            tp_group=self.machine,
        )
        step = object.__new__(getattr(self.prepare, "PrepareAndFinalize" + METHODS[place.method]))
        vars(step).update(
            moe_config=config,
            tp_size=place.tp,
            tp_rank=place.tp_rank,
            lora_context=None,
            enable_shared_expert_dp=False,
            dynamic_mx_quant_scale_alg=0,
        )
        return step


def ids_of(tags: Any) -> Any:
    import torch

    return tags.to(torch.int64) * TOP_K + torch.arange(TOP_K)


def check_group(tree: Tree, places: list[Place]) -> str:
    """One TP group: who enters a collective, and what is captured. Returns what is wrong."""
    shards, raised = {}, {}
    for place in places:
        try:
            tree.run(place, None)
        except Entered as entered:
            shards[place.tp_rank] = entered.shard
        except (AssertionError, RuntimeError) as error:
            raised[place.tp_rank] = f"{type(error).__name__}: {str(error)[:160]}"
    if shards and len(shards) < len(places):
        return f"ranks {sorted(shards)} enter a collective alone; {raised}"
    if raised:
        return f"ranks {sorted(raised)} raise {raised[min(raised)]}"
    answers = [shards[rank] for rank in sorted(shards)] or None
    return next(filter(None, (check_rank(tree, place, answers or []) for place in places)), "")


def check_rank(tree: Tree, place: Place, shards: list[Any]) -> str:
    wanted = ids_of(tags_of(place.dp_rank, place.tokens))[:, None, :].expand(-1, LAYERS, -1)
    try:
        found = tree.run(place, shards)
    except (AssertionError, RuntimeError) as error:
        return f"rank {place.tp_rank} raises {type(error).__name__}: {str(error)[:160]}"
    wrong = int((wanted != found).sum())
    if not wrong:
        return ""
    rows = (found[:, 0, 0] // TOP_K).tolist()
    shown = f": captured {rows} for {(wanted[:, 0, 0] // TOP_K).tolist()}" if len(rows) <= 9 else ""
    return f"rank {place.tp_rank} of DP rank {place.dp_rank}: {wrong} of {wanted.numel()} ids wrong{shown}"


def check(tree: Tree) -> int:
    problems, compared = [], 0
    for method in METHODS:
        for tp, dp in [(tp, dp) for tp in (1, 2, 4) for dp in (1, 2)]:
            groups = [
                [Place(method, tp, rank, dp_rank, batches[:dp]) for rank in range(tp)]
                for batches in BATCHES
                for dp_rank in range(dp)
            ]
            found = next(filter(None, (check_group(tree, group) for group in groups)), "")
            compared += sum(place.tokens * LAYERS * TOP_K for group in groups for place in group)
            print(f"{method} tp={tp} dp={dp}: {found or 'right'}")
            problems += [f"{method} tp={tp} dp={dp}: {found}"] if found else []
    for problem in problems:
        print(f"bad: routed experts: {problem}")
    if not problems:
        print(f"good: {compared} expert ids are right in all methods and sizes, and no rank enters a collective alone")
    return 1 if problems else 0


def open_tree(root: Path) -> Tree:
    import torch

    torch.npu = Anything()  # type: ignore[attr-defined]
    machine = Machine()
    sys.meta_path.insert(0, StandIns(machine.known()))
    if (root / SAID).is_file():
        load("vllm.model_executor.layers.fused_moe.routed_rows", LAYOUT)
        load("vllm_ascend.ops.fused_moe.routed_rows", root / SAID)
    if (root / PAD).is_file():
        load("vllm_ascend.ops.fused_moe.moe_utils", root / PAD)
    prepare = load("vllm_ascend.ops.fused_moe.prepare_finalize", root / PREPARE)
    replaced = load("vllm_ascend.patch.worker.patch_routed_experts_capture", root / CAPTURE)
    replaced.dist = types.SimpleNamespace(all_gather=machine.gather_into)
    return Tree(prepare, replaced.capture, machine)


def main() -> int:
    root = Path(os.environ.get("PATCHKIT_TREE") or Path.cwd()).resolve()
    if not (root / "vllm_ascend").is_dir():
        print(f"cannot tell: {root} holds no vllm_ascend package")
        return 125
    if not (root / CAPTURE).is_file():
        print("patchkit: absent")
        return 0
    try:
        return check(open_tree(root))
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        print(f"cannot tell: {type(error).__name__}: {error}")
        return 125


if __name__ == "__main__":
    sys.exit(main())
