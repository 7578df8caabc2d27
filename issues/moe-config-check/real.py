"""Gives the tree's own config classes MoE models that cannot run, and its own layer the same numbers.

Upstream accepts the config: model, parallel and engine config are all made. The MoE layer then dies in an assertion, in
a real deployment in every worker and after minutes. Bad is: the layer refuses numbers that the config let pass. Good:
what the layer refuses is refused at load, naming the field and the arithmetic, and what the layer takes still passes.

Everything is the tree's: config classes, the verification that the engine runs on them, the layer's constructor. Only
the groups of processes are not there, so the rank that the layer asks for is told to be 0. FP8 blocks are checked at
load only, where the layer would need a GPU to be built; what is true of them was read from the layer's code.

Exit code: 0 good, 1 bad, 125 cannot tell. `patchkit: absent` means that the tree does not verify a parallel config.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

MOE = "vllm.model_executor.layers.fused_moe"
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
QWEN = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 2,
    "num_attention_heads": 24,
    "num_key_value_heads": 24,
    "head_dim": 16,
    "vocab_size": 128,
    "max_position_embeddings": 256,
    "decoder_sparse_step": 1,
    "dtype": "bfloat16",
}
# What the layer says when the numbers are wrong; anything else that it says on a CPU is about the CPU.
REFUSALS = ("intermediate_size % ", "EPLB currently only supports even distribution")


class Bad(Exception):
    """The tree ran and did the wrong thing."""


@dataclass(frozen=True)
class Case:
    """A model of `experts` experts of `size`, and its deployment. `redundant` not None: EPLB with that many."""

    size: int
    experts: int = 8
    tp: int = 1
    dp: int = 1
    ep: bool = False
    redundant: int | None = None
    fp8: bool = False

    def __str__(self) -> str:
        extras = [f"EPLB with {self.redundant} redundant"] if self.redundant is not None else []
        extras += ["FP8 in 128 x 128 blocks"] if self.fp8 else []
        mode = "ep" if self.ep else "no ep"
        return ", ".join([f"{self.experts} experts of {self.size}", f"tp {self.tp}", f"dp {self.dp}", mode, *extras])


# First those that upstream lets pass and the layer refuses; then a grid in which the layer's own answer decides.
TOLD = (
    Case(100, tp=8),
    Case(100, tp=4, dp=2),
    Case(96, tp=4, ep=True, redundant=1),
    Case(96, experts=250, tp=4, dp=2, ep=True, redundant=0),
)
GRID = tuple(
    Case(size, experts, tp, dp, ep)
    for size, experts, tp, dp, ep in itertools.product((96, 100), (7, 8), (1, 2, 8), (1, 2, 3), (False, True))
) + tuple(Case(96, 8, 4, dp, True, redundant) for dp, redundant in itertools.product((1, 2), (0, 3, 4, 8)))
# Of these the layer cannot be asked on a CPU; whether a release refines cut blocks decides the third.
FP8_FAILS = (Case(1088, tp=8, fp8=True), Case(200, fp8=True), Case(200, tp=8, ep=True, fp8=True))
FP8_RUNS = (Case(1024, tp=8, fp8=True), Case(1536, tp=4, fp8=True), Case(1152, tp=8, ep=True, fp8=True))
FP8_REFINED = Case(1536, tp=8, fp8=True)


class Engine:
    """The tree's config classes and its MoE layer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = importlib.import_module("vllm.config")
        layer = importlib.import_module(f"{MOE}.layer")
        # The module itself: in some releases the package holds a function of the same name.
        moe = sys.modules[f"{MOE}.config"]
        moe.get_tensor_model_parallel_rank = lambda: 0  # type: ignore[attr-defined]
        moe.get_dp_group = lambda: SimpleNamespace(rank_in_group=0)  # type: ignore[attr-defined]
        self.make_layer = getattr(layer, "FusedMoEFactory", None) or layer.FusedMoE
        self.torch = importlib.import_module("torch")

    def model(self, case: Case) -> Any:
        folder = self.folder / f"{case.experts}-{case.size}"
        folder.mkdir(exist_ok=True)
        told = QWEN | {"moe_intermediate_size": case.size, "num_experts": case.experts}
        (folder / "config.json").write_text(json.dumps(told))
        made = self.config.ModelConfig(
            model=str(folder), tokenizer=str(folder), skip_tokenizer_init=True, dtype="bfloat16", max_model_len=64
        )
        if case.fp8:  # set afterwards: quantization methods are imported for a quantised config, and want packages
            made.hf_config.quantization_config = FP8
        return made

    def parallel(self, case: Case) -> Any:
        made = self.config.ParallelConfig(
            tensor_parallel_size=case.tp,
            data_parallel_size=case.dp,
            enable_expert_parallel=case.ep,
            distributed_executor_backend="mp",
        )
        if case.redundant is not None:  # set afterwards: on a CPU it is refused
            made.enable_eplb = True
            made.eplb_config.num_redundant_experts = case.redundant
        return made

    def refusal_at_load(self, case: Case) -> str:
        """What the engine's verification of model and deployment says; empty when it passes."""
        model = self.model(case)
        try:
            model.verify_with_parallel_config(self.parallel(case))
        except ValueError as error:
            return str(error)
        return ""

    def engine_is_made(self, case: Case) -> bool:
        """Whether the whole engine config is made from it, as `vllm serve` does."""
        plain = Case(case.size, case.experts, case.tp, case.dp, case.ep)
        device = self.config.DeviceConfig(device="cpu")
        try:
            self.config.VllmConfig(
                model_config=self.model(plain), parallel_config=self.parallel(plain), device_config=device
            )
        except ValueError:
            return False
        return True

    def refusal_of_layer(self, case: Case, engine: Any) -> str:
        """How the layer refuses the numbers; empty when it does not, whatever else it lacks on a CPU."""
        engine.parallel_config.enable_expert_parallel = case.ep
        engine.parallel_config.enable_eplb = case.redundant is not None
        try:
            with self.config.set_current_vllm_config(engine):
                self.make_layer(
                    num_experts=case.experts,
                    top_k=2,
                    hidden_size=128,
                    intermediate_size=case.size,
                    params_dtype=self.torch.bfloat16,
                    tp_size=case.tp,
                    dp_size=case.dp,
                    pcp_size=1,
                    prefix=f"model.layers.{next(COUNTER)}.mlp.experts",
                    enable_eplb=case.redundant is not None,
                    num_redundant_experts=case.redundant or 0,
                )
        except Exception as error:
            told = [f"{frame.line}" for frame in traceback.extract_tb(error.__traceback__)][-1] + f" {error}"
            if any(refusal in told for refusal in REFUSALS):
                return f"{type(error).__name__}: {str(error) or '(no message)'}"
        return ""

    def plain_engine(self) -> Any:
        """An engine config that passes; the layer reads sizes from its own arguments."""
        case = Case(96)
        return self.config.VllmConfig(
            model_config=self.model(case),
            parallel_config=self.parallel(case),
            device_config=self.config.DeviceConfig(device="cpu"),
        )


COUNTER = itertools.count()


def check_message(case: Case, message: str) -> None:
    """A refusal must name the field and show the numbers."""
    wanted = ["moe_intermediate_size", str(case.size)]
    if case.redundant is not None:
        wanted = ["num_experts", "num_redundant_experts", str(case.experts + case.redundant)]
    missing = [word for word in wanted if word not in message]
    if missing:
        raise Bad(f"the refusal of {case} does not name {', '.join(missing)}: {message}")


def check_told(engine: Engine) -> list[str]:
    """What is impossible and known to be: refused at load, or let pass and what comes of it."""
    plain, passed = engine.plain_engine(), []
    for case in TOLD:
        fate = engine.refusal_of_layer(case, plain)
        if not fate:
            raise RuntimeError(f"the layer takes {case}: nothing to compare with")
        refusal = engine.refusal_at_load(case)
        if refusal:
            check_message(case, refusal)
            if case.redundant is None and engine.engine_is_made(case):
                raise Bad(f"{case}: the verification refuses it, the engine config does not")
            print(f"refused at load: {case}\n{refusal}", file=sys.stderr)
        else:
            passed.append(f"{case}: passes every check at load, then the layer says {fate}")
    return passed


def check_grid(engine: Engine) -> int:
    """Load must refuse what the layer refuses, and nothing else."""
    plain, refused = engine.plain_engine(), 0
    for case in GRID:
        fate, refusal = engine.refusal_of_layer(case, plain), engine.refusal_at_load(case)
        if bool(fate) != bool(refusal):
            does = "takes" if refusal else "refuses"
            raise Bad(f"{case}: the layer {does} it, load {'refuses' if refusal else 'takes'} it. {fate or refusal}")
        refused += bool(fate)
    return refused


def check_fp8(engine: Engine, refines: bool) -> None:
    for case in FP8_FAILS:
        refusal = engine.refusal_at_load(case)
        if not refusal:
            raise Bad(f"{case}: passes every check at load, then create_weights refuses its blocks")
        check_message(case, refusal)
    for case in (*FP8_RUNS, *([FP8_REFINED] if refines else [])):
        refusal = engine.refusal_at_load(case)
        if refusal:
            raise Bad(f"{case} runs, and is refused: {refusal}")
    if not refines and not engine.refusal_at_load(FP8_REFINED):
        raise Bad(f"{FP8_REFINED}: passes every check at load, and this release does not refine blocks")


def answer(tree: Path) -> None:
    oracle = tree / "vllm/model_executor/layers/fused_moe/oracle/fp8.py"
    refines = oracle.is_file() and "def refine_fp8_moe_block_shape(" in oracle.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):  # vLLM logs on stdout
        engine = Engine(Path(folder))
        passed = check_told(engine)
        if passed:
            raise Bad("; ".join(passed))
        refused = check_grid(engine)
        check_fp8(engine, refines)
    print(f"{len(GRID)} deployments: {refused} refused at load, exactly those that the layer refuses")


def main() -> int:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    tree = Path(os.environ.get("PATCHKIT_TREE") or Path.cwd()).resolve()
    if not (tree / "vllm" / "__init__.py").is_file():
        print(f"cannot tell: {tree} holds no vllm package")
        return 125
    config = tree / "vllm/config/model.py"
    if not config.is_file() or "def verify_with_parallel_config(" not in config.read_text(encoding="utf-8"):
        print("patchkit: absent")
        return 0
    sys.path.insert(0, str(tree))
    try:
        answer(tree)
    except Bad as bad:
        print(f"bad: load and layer disagree: {bad}")
        return 1
    except Exception as error:
        traceback.print_exc()
        print(f"cannot tell: {type(error).__name__}: {error}")
        return 125
    print("good: an impossible MoE config is refused at load, with field and arithmetic")
    return 0


if __name__ == "__main__":
    sys.exit(main())
