"""How far start-up got, by the lines that tell it and the frames of the failure; what differs between two logs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from patchkit.diagnosis.log.failure import Frame
from patchkit.diagnosis.log.prefixes import LogLine
from patchkit.diagnosis.root_cause import RootCause

# The stages of a start, in order.
STAGES = (
    "start",
    "engine",
    "distributed set-up",
    "weights",
    "post-processing",
    "profile run",
    "KV cache",
    "graph capture",
    "serving",
)
LINES = (
    (re.compile(r"serving model|█  version|non-default args|API server version"), "start"),
    (re.compile(r"Initializing a V\d+ LLM engine"), "engine"),
    (re.compile(r"rank \d+ in world size \d|world_size=\d+ .*distributed_init|using nccl=="), "distributed set-up"),
    (re.compile(r"Starting to load model"), "weights"),
    (re.compile(r"oading[\w -]{0,30} shards[^:]{0,20}: .*?\b(?P<done>\d{1,9})/(?P<total>\d{1,9}) \["), "weights"),
    (re.compile(r"Loading weights took"), "post-processing"),
    (re.compile(r"Model loading took"), "profile run"),
    (re.compile(r"Available KV cache memory|KV cache size: "), "KV cache"),
    (re.compile(r"Capturing CUDA graphs.*?\b(?P<done>\d{1,9})/(?P<total>\d{1,9}) \["), "graph capture"),
    (re.compile(r"Application startup complete|init engine \(profile"), "serving"),
)  # fmt: skip
QUICK = re.compile(
    r"serving model|non-default|Resolved arch|API server|Initializing a V|world.size|nccl==|Starting to load"
    r"| shards|Loading weights|Model loading|KV cache (?:memory|size)"
    r"|Capturing CUDA|startup complete|init engine|█  (?:version|model) "
)  # fmt: skip
# Functions of vLLM's workers and engine: a failure below one of them is in that stage. The innermost one counts.
FUNCTIONS = {
    "init_device": "distributed set-up",
    "init_worker_distributed_environment": "distributed set-up",
    "init_distributed_environment": "distributed set-up",
    "create_engine_config": "start",
    "load_model": "weights",
    "load_weights": "weights",
    "process_weights_after_loading": "post-processing",
    "determine_available_memory": "profile run",
    "profile_run": "profile run",
    "get_kv_cache_configs": "KV cache",
    "check_enough_kv_cache_memory": "KV cache",
    "initialize_from_config": "KV cache",
    "initialize_kv_cache": "KV cache",
    "compile_or_warm_up_model": "graph capture",
    "capture_model": "graph capture",
    "execute_model": "serving",
}
# The loop of an engine core that has started: whatever is below it failed while serving.
SERVING = ("run_busy_loop", "_process_engine_step")
# Parts of a layer in the order in which a forward pass meets them, by the path or function of a frame.
PARTS = (
    ("embedding", re.compile(r"vocab_parallel_embedding|:embed")),
    ("hyper-connection", re.compile(r"/mhc|:mhc_|:hc_|hyper_?connection")),
    ("attention output", re.compile(r"o_proj")),
    ("MoE", re.compile(r"fused_moe|/moe/|:moe_|mega_?moe|routed_experts")),
    ("attention", re.compile(r"attention|/attn|flash_?mla|/mla|:attn|indexer|rotary")),
    ("linear layer", re.compile(r"/linear|scaled_mm|fp8_utils|quantization/")),
    ("normalisation", re.compile(r"layernorm|rms_norm")),
    ("logits", re.compile(r"logits_processor|lm_head|compute_logits")),
    ("sampling", re.compile(r"sampler|/sample/")),
)
FORWARD_ORDER = (
    "embedding", "hyper-connection", "normalisation", "linear layer", "attention", "attention output", "MoE", "logits",
    "sampling",
)  # fmt: skip
FACTS = (
    ("vllm", re.compile(r"\(v(\d[\w.+]*)\) with config|(?:█  |server )version +v?(\d[\w.+]*)")),
    ("model", re.compile(r"with config: model='([^']{1,300})'|serving model (\S{1,300})|█  model +(\S{1,300})")),
    ("architecture", re.compile(r"Resolved architecture: (\w+)")),
    ("tensor_parallel", re.compile(r"tensor_parallel_size=(\d+)|'tensor_parallel_size': (\d+)")),
    ("pipeline_parallel", re.compile(r"pipeline_parallel_size=(\d+)|'pipeline_parallel_size': (\d+)")),
    ("data_parallel", re.compile(r"data_parallel_size=(\d+)|'data_parallel_size': (\d+)")),
    ("world_size", re.compile(r"in world size (\d+)|world_size=(\d+)")),
    ("quantization", re.compile(r"[ ,]quantization=(\w+)|'quantization': '([\w-]+)'")),
    ("kv_cache_dtype", re.compile(r"kv_cache_dtype=(\w+)")),
)  # fmt: skip
ERRORS = ("WARNING", "ERROR", "CRITICAL")
FRAMES = ('  File "', "    ")
FACT_WORDS = re.compile(r"serving model|with config|non-default args|Resolved arch|world.size|█  (?:version|model) ")


class Change(StrEnum):
    """What became of a failure between two logs."""

    SAME = "same"
    MOVED_ON = "moved-on"
    WENT_BACK = "went-back"
    OTHER = "other"  # another failure in the same place: which of them comes first cannot be told
    GONE = "gone"
    NEW = "new"
    NONE = "none"  # neither log has a failure


@dataclass
class Progress:
    """How far a start got: one of STAGES or '', `done` of `total` shards or graphs, the `part` of a layer or ''."""

    stage: str = ""
    done: int = 0
    total: int = 0
    part: str = ""
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def rank(self) -> tuple[int, int, int]:
        """Return what sorts by how far a start got."""
        stage = STAGES.index(self.stage) + 1 if self.stage else 0
        return stage, self.done, FORWARD_ORDER.index(self.part) if self.part else -1

    def read(self, line: LogLine) -> None:
        """Take what the lines of a record tell; stages only go forward.

        Errors tell no progress; one of them, of `dump_input.py`, tells the configuration.
        """
        if line.level in ERRORS:
            if "with config: " in line.text:
                self._read_facts(line.text)
        elif not line.text.startswith(FRAMES) and QUICK.search(line.text):
            for text in line.text.split("\n"):
                self._read_text(text)

    def _read_text(self, text: str) -> None:
        if FACT_WORDS.search(text):
            self._read_facts(text)
        for pattern, stage in LINES:
            match = pattern.search(text)
            if match:
                self._reach(stage, match.groupdict())

    def _read_facts(self, text: str) -> None:
        for name, pattern in FACTS:
            match = pattern.search(text)
            if match:
                self.facts.setdefault(name, next(group for group in match.groups() if group is not None))

    def _reach(self, stage: str, counts: dict[str, str]) -> None:
        index = STAGES.index(stage)
        ahead = self.rank[0] - 1
        if index < ahead:
            return
        if index > ahead:
            self.stage, self.done, self.total = stage, 0, 0
        if counts.get("total"):
            self.done, self.total = max(self.done, int(counts["done"])), int(counts["total"])


def place_failure(progress: Progress, cause: RootCause | None) -> Progress:
    """Return how far the start got by its lines and by the frames of the failure, which know better."""
    if cause is None:
        return progress
    frames = [frame for raised in cause.failure.chain for frame in raised.frames]
    own = cause.failure.root.frames or tuple(frames)
    stage = _stage_of(own) or _stage_of(frames)
    part = part_of(own) if stage in ("profile run", "graph capture", "serving", "post-processing", "") else ""
    if not stage or stage == progress.stage:
        return Progress(progress.stage, progress.done, progress.total, part, progress.facts)
    looped = any(frame.function.rpartition(".")[2] in SERVING for frame in frames)
    if stage == "serving" and progress.stage != "serving" and not looped:  # a warm-up runs the model as a request does
        return Progress(progress.stage, progress.done, progress.total, part, progress.facts)
    return Progress(stage, 0, 0, part, progress.facts)


def _stage_of(frames: Iterable[Frame]) -> str:
    """Return the stage of the innermost frame that tells one."""
    found = ""
    for frame in frames:
        name = frame.function.rpartition(".")[2]
        if name in SERVING:
            return "serving"
        if name in FUNCTIONS and (frame.product_path or "/" not in frame.path):
            found = FUNCTIONS[name]
    return found


def part_of(frames: Iterable[Frame]) -> str:
    """Return the part of a layer that the innermost telling frame is in, '' when none tells one."""
    for frame in reversed(tuple(frames)):
        place = f"{frame.product_path}:{frame.function}"
        if frame.product_path:
            found = next((name for name, pattern in PARTS if pattern.search(place)), "")
            if found:
                return found
    return ""


def compare(old: tuple[Progress, RootCause | None], new: tuple[Progress, RootCause | None]) -> Change:
    """Return whether a failure is still the same, gone, or which way it moved."""
    before, after = old[1], new[1]
    if before is None or after is None:
        return Change.NONE if before is after else Change.NEW if before is None else Change.GONE
    if before.failure.identity == after.failure.identity:
        return Change.SAME
    if old[0].rank == new[0].rank:
        return Change.OTHER
    return Change.MOVED_ON if new[0].rank > old[0].rank else Change.WENT_BACK
