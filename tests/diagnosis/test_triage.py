"""Root causes hide behind wrappers, and logs are cut and mixed: each test is a log that a simpler reader gets wrong."""

from __future__ import annotations

import json
import textwrap
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from patchkit.diagnosis.diagnose import Diagnosis, diagnose
from patchkit.diagnosis.log.classify import classify, classify_line
from patchkit.diagnosis.log.prefixes import read_line
from patchkit.diagnosis.matching import KnownIssue, match_issues, propose_signature
from patchkit.diagnosis.progress import Change, compare
from patchkit.diagnosis.root_cause import RootCause
from patchkit.recipe.load import load_issue

SITE = "/usr/lib/python3/dist-packages"


def read(text: str) -> Diagnosis:
    return diagnose([textwrap.dedent(text).encode()])


def cause_of(text: str) -> RootCause:
    cause = read(text).root_cause
    assert cause is not None
    return cause


def traceback(error: str, *frames: tuple[str, str], prefix: str = "") -> str:
    lines = ["Traceback (most recent call last):"]
    for path, function in frames:
        lines += [f'  File "{SITE}/{path}", line 7, in {function}', "    run()"]
    return "\n".join(f"{prefix}{line}" for line in [*lines, error]) + "\n"


def logged(who: str, clock: str, text: str, level: str = "ERROR") -> str:
    return "".join(f"({who}) {level} 11-29 {clock} [x.py:1] {line}\n" for line in text.splitlines())


def worker(rank: int, clock: str, error: str, *frames: tuple[str, str]) -> str:
    return logged(f"Worker_TP{rank} pid={rank}", clock, "WorkerProc hit an exception.\n" + traceback(error, *frames))


MODEL = ("vllm/model_executor/models/x.py", "forward")


def test_the_earlier_time_wins_over_the_earlier_line() -> None:
    cause = cause_of(
        worker(0, "12:00:05", "ValueError: late", MODEL) + worker(1, "12:00:01", "ValueError: early", MODEL)
    )
    assert (cause.rank, cause.message) == ("TP1", "early")


def test_the_wrapper_speaks_where_the_worker_is_silent() -> None:
    cause = cause_of("RuntimeError: Worker failed with error 'CUDA error: boom', please check the stack trace above")
    assert (cause.message, cause.kind, cause.certain) == ("CUDA error: boom", "cuda-error", False)


def test_a_wrapper_alone_is_told_as_seen_from_afar() -> None:
    cause = cause_of("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")
    assert not cause.certain
    assert cause.kind == ""


def test_exit_codes_within_a_wrapper_tell_the_death() -> None:
    text = (
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': -9}"
    )
    assert cause_of(text).kind == "out-of-host-memory"


def test_the_first_exception_of_a_chain_is_the_cause_and_the_product_frame_is_followed_outwards() -> None:
    text = (
        traceback("AssertionError: deep", ("torch/_inductor/x.py", "lower"))
        + "\nThe above exception was the direct cause of the following exception:\n\n"
        + traceback("torch._inductor.exc.InductorError: AssertionError: deep", MODEL, ("torch/y.py", "compile"))
    )
    cause = cause_of(text)
    assert (cause.failure.root.type, cause.message) == ("AssertionError", "deep")
    assert cause.frame is not None
    assert cause.frame.product_path == MODEL[0]


def test_a_look_up_that_failed_is_not_the_cause_of_the_error_raised_for_it() -> None:
    text = (
        traceback("KeyError: 'fp7'", MODEL)
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + traceback("ValueError: no method fp7", MODEL)
    )
    assert cause_of(text).message == "no method fp7"


def test_an_assertion_without_words_is_told_by_its_code() -> None:
    text = 'Traceback (most recent call last):\n  File "vllm/a.py", line 1, in f\n    assert x == 3\nAssertionError\n'
    assert cause_of(text).message == "assert x == 3"


def test_the_second_traceback_of_a_note_is_the_same_failure() -> None:
    text = worker(3, "12:00:00", "ValueError: a\n" + traceback("ValueError: a", MODEL), MODEL)
    assert len(read(text).texts) == 1


def test_a_warning_with_a_traceback_is_no_failure() -> None:
    text = logged("APIServer pid=1", "12:00:00", "warm-up failed\n" + traceback("ValueError: a", MODEL), "WARNING")
    assert read(text).root_cause is None


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit: 0", "asyncio.exceptions.CancelledError"])
def test_a_server_that_was_stopped_has_no_failure(error: str) -> None:
    assert read(traceback(error, MODEL)).root_cause is None


@pytest.mark.parametrize(
    "announcement", ["Exception in thread Thread-3 (report):", "Exception ignored in: <f>", "--- Logging error ---"]
)
def test_what_a_process_survives_is_not_the_cause_of_its_death(announcement: str) -> None:
    early = f"{announcement}\n" + traceback("OSError: no route", MODEL)
    assert cause_of(early + worker(0, "12:00:09", "ValueError: real", MODEL)).message == "real"
    assert cause_of(early).message == "no route"


def test_a_failed_request_hours_before_is_not_the_cause() -> None:
    early = logged(
        "APIServer pid=1", "02:00:00", "Error in preprocessing prompt\n" + traceback("TypeError: bad", MODEL)
    )
    text = early + logged("EngineCore pid=2", "12:00:00", "Worker proc VllmWorker-1 died unexpectedly (exit code: -9)")
    assert cause_of(text).kind == "out-of-host-memory"


def test_the_inspection_of_a_model_that_failed_is_the_cause_of_its_refusal() -> None:
    inspect = "Error in inspecting model architecture 'Foo'\n" + traceback("ImportError: no libfoo.so", MODEL)
    refusal = traceback(
        "ValueError: Model architectures ['Foo'] failed to be inspected.", MODEL, prefix="(APIServer pid=1) "
    )
    assert cause_of(logged("APIServer pid=1", "12:00:00", inspect) + refusal).message == "no libfoo.so"


def test_what_ray_left_out_counts_as_ranks() -> None:
    who = "(RayWorkerWrapper pid=5, ip=10.0.0.9) "
    lines = ("Error executing method 'load_model'.\n" + traceback("ValueError: a", MODEL)).splitlines()
    text = "".join(f"{who}ERROR 11-29 12:00:00 [w.py:1] {line} [repeated 7x across cluster]\n" for line in lines)
    assert cause_of(text).ranks_failed == 8


def test_the_same_rank_of_two_nodes_counts_twice() -> None:
    one = worker(0, "12:00:00", "ValueError: a", MODEL)
    text = "".join(f"{host} | {line}\n" for host in ("n1", "n2") for line in one.splitlines())
    assert cause_of(text).ranks == ("TP0 on n1", "TP0 on n2")


def test_engines_that_are_their_own_workers_count_as_ranks() -> None:
    text = "EngineCore failed to start.\n" + traceback("ValueError: a", MODEL)
    cause = cause_of("".join(logged(f"EngineCore_DP{rank} pid={rank}", "12:00:00", text) for rank in (2, 0, 1)))
    assert cause.ranks == ("DP2", "DP0", "DP1")


def test_lines_of_others_between_the_lines_of_a_traceback_do_not_tear_it() -> None:
    one = worker(0, "12:00:00", "ValueError: a", MODEL).splitlines()
    noise = "(APIServer pid=1) INFO 11-29 12:00:00 [l.py:1] Avg prompt throughput: 1.0 tokens/s\n"
    cause = cause_of("".join(f"{line}\n{noise}" for line in one))
    assert cause.frame is not None
    assert cause.frame.function == "forward"


def test_the_last_start_that_failed_is_told_of_a_container_that_restarts() -> None:
    engine = "Initializing a V1 LLM engine (v0.26.0) with config: model='m'"
    banner = f"(EngineCore pid={{}}) INFO 11-29 1{{}}:00:00 [core.py:1] {engine}\n"
    first = banner.format(1, 0) + worker(0, "10:00:01", "ValueError: first", MODEL)
    second = banner.format(2, 1) + worker(0, "11:00:01", "ValueError: second", MODEL)
    third = banner.format(3, 2)
    serving = "(APIServer pid=1) INFO:     Application startup complete.\n"
    for text, message, start in ((first + second, "second", 2), (first + second + third, "second", 2)):
        found = read(text)
        assert found.root_cause is not None
        assert (found.root_cause.message, found.start) == (message, start)
    assert read(first + second + third + serving).root_cause is None


def test_what_a_start_says_before_its_engine_begins_is_of_that_start() -> None:
    log = (Path(__file__).parent / "logs" / "illegal-memory-access.log").read_bytes()
    found = diagnose([log, log.replace(b"Qwen3MoeFor", b"NextMoeFor")])
    assert (found.starts, found.progress.facts["architecture"]) == (2, "NextMoeForCausalLM")


def test_engines_of_several_nodes_are_one_start() -> None:
    banner = "INFO 11-29 10:00:00 [core.py:1] Initializing a V1 LLM engine (v0.26.0) with config: model='m'\n"
    assert read(f"n1 | (EngineCore_DP0 pid=1) {banner}n2 | (EngineCore_DP1 pid=1) {banner}").starts == 1


def test_carriage_returns_of_progress_bars_are_read_one_by_one() -> None:
    found = read(
        "Loading safetensors checkpoint shards:  25% Completed | 1/4 [a]\rLoading safetensors checkpoint shards:"
        "  50% Completed | 2/4 [b]\n"
    )
    assert (found.progress.stage, found.progress.done, found.progress.total) == ("weights", 2, 4)


def test_a_traceback_without_its_end_still_names_the_place() -> None:
    cause = cause_of(
        f'Traceback (most recent call last):\n  File "{SITE}/vllm/v1/sample/sampler.py", line 3, in forward\n'
    )
    assert cause.frame is not None
    assert (cause.frame.function, cause.certain) == ("forward", False)


def test_docker_json_records_are_read() -> None:
    line = read_line('{"log":"(Worker_TP1 pid=4) ERROR 11-29 12:00:00 [a.py:1] x\\n","stream":"stderr","time":"t"}')
    assert (line.rank, line.level, line.text) == ("TP1", "ERROR", "x")


def test_the_host_of_a_json_record_tells_two_pods_apart() -> None:
    record = {"kubernetes": {"pod_name": "vllm-1"}, "log": "(Worker_TP1 pid=4) ERROR 11-29 12:00:00 [a.py:1] x\n"}
    line = read_line(json.dumps(record))
    assert (line.rank, line.host, line.text) == ("TP1", "vllm-1", "x")
    assert read_line(json.dumps({"msg": "(EngineCore pid=4) x"})).process == "EngineCore"


def test_the_message_of_a_wrapper_alone_shows_the_issue() -> None:
    """All that the title of a bug report has."""
    issue = load_issue(Path(__file__).parents[2] / "issues" / "e8m0-triton-scale").issue
    texts = read("RuntimeError: Worker failed with error ''float8_e8m0fnu'', please check the stack trace").texts
    assert match_issues(texts, [KnownIssue("e8m0-triton-scale", issue.title, issue.log_signatures)])


def test_records_of_the_json_logger_are_read_with_their_traceback() -> None:
    record = {
        "asctime": "2026-11-29 12:00:00,123",
        "levelname": "ERROR",
        "name": "vllm.v1.executor",
        "processName": "VllmWorker-3",
        "process": 12,
        "message": "WorkerProc hit an exception.",
        "exc_info": traceback("ValueError: a", MODEL),
    }
    cause = cause_of(json.dumps(record) + "\n")
    assert (cause.rank, cause.message, cause.failure.stamp) == ("rank 3", "a", "11-29 12:00:00")
    assert cause.frame is not None


@pytest.mark.parametrize(
    ("prefix", "host"),
    [("[node3] ", "node3"), ("2026/11/29 12:00:00.1 node7 ", "node7"), ("vllm-0 server › ", "server"), ("#12 ", "?")],
)
def test_a_prefix_that_nobody_knows_is_cut_off_before_vllms_own(prefix: str, host: str) -> None:
    line = read_line(f"{prefix}(Worker_TP3 pid=12) ERROR 11-29 12:00:00 [x.py:1] a")
    assert (line.host, line.rank, line.text) == (host, "TP3", "a")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "no-kernel-for-gpu"),
        ("RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.", "unsupported-ptx"),
        ("RuntimeError: CUDA error: out of memory", "out-of-gpu-memory"),
        ("RuntimeError: CUDA error: device-side assert triggered", "cuda-error"),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/x'", "shared-memory"),
        ("OSError: [Errno 28] No space left on device", "disk-full"),
        ("torch.distributed.DistBackendError: NCCL error in x: unhandled system error, ncclSystemError", "nccl"),
        (
            "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error",
            "peer-gone",
        ),
        (
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
            "unsupported-dtype",
        ),
        ("RuntimeError: \"mul\" not implemented for 'Float8_e8m0fnu'", "unsupported-dtype"),
        ("ImportError: libcudart.so.12: cannot open shared object file: No such file or directory", "missing-package"),
        ("ValueError: Unknown quantization method: foo.", "unsupported-quantization"),
        ("KeyError: 'x'", None),
        ("RuntimeError: The size of tensor a (3) must match the size of tensor b (4)", None),
    ],
)
def test_kinds_are_told_apart(text: str, kind: str | None) -> None:
    found = classify(text)
    assert (found.name if found else None) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.", "out-of-host-memory"),
        ("srun: error: node1: task 3: Killed", "out-of-host-memory"),
        ("Killed", "out-of-host-memory"),
        ("command terminated with exit code 137", "out-of-host-memory"),
        ("[1] 812 Segmentation fault (core dumped) vllm serve", "crash"),
        ("Fatal Python error: Bus error", "shared-memory"),
        ("OSError: [Errno 28] No space left on device", "disk-full"),
        ("write failed: Disk quota exceeded", "disk-full"),
        ("bind: address already in use", "port-in-use"),
        ("[Rank 1] Watchdog caught collective operation timeout: WorkNCCL", "nccl-timeout"),
        ("vllm serve: error: unrecognized arguments: --foo", "arguments"),
        ("terminate called after throwing an instance of 'x'", "abort"),
        ("Worker proc VllmWorker-1 died unexpectedly (exit code: -11), shutting down executor.", "crash"),
        ("(Worker died) Failed core proc(s): {'EngineCore': -9}", "out-of-host-memory"),
        ("Avg prompt throughput: 12.1 tokens/s, timeout of none", None),
    ],
)
def test_a_line_alone_tells_a_death(text: str, kind: str | None) -> None:
    found = classify_line(text)
    assert (found.name if found else None) == kind


def test_a_fix_moves_the_failure_on_and_back() -> None:
    hyper = ("vllm/model_executor/kernels/mhc/tilelang.py", "mhc_pre")
    experts = ("vllm/model_executor/layers/fused_moe/layer.py", "forward")
    profile = ("vllm/v1/worker/gpu_worker.py", "determine_available_memory")
    load = ("vllm/v1/worker/gpu_worker.py", "load_model")

    def at(error: str, *frames: tuple[str, str]) -> tuple[object, RootCause | None]:
        found = read(worker(0, "12:00:00", error, *frames))
        return found.progress, found.root_cause

    early, late = at("RuntimeError: a", profile, hyper), at("RuntimeError: b", profile, experts)
    weights, none = at("RuntimeError: c", load, experts), (read("").progress, None)
    other = at("RuntimeError: z", profile, hyper)
    for old, new, change in [
        (early, late, Change.MOVED_ON),
        (late, early, Change.WENT_BACK),
        (weights, early, Change.MOVED_ON),
        (early, early, Change.SAME),
        (early, other, Change.OTHER),
        (early, none, Change.GONE),
        (none, early, Change.NEW),
        (none, none, Change.NONE),
    ]:
        assert compare(old, new) is change  # type: ignore[arg-type]


def test_a_proposed_signature_finds_the_failure_again_with_other_numbers() -> None:
    first, second = (cause_of(worker(0, "12:00:00", f"ValueError: bad [x] {n} of 8", MODEL)) for n in (3, 71))
    issue = KnownIssue("mine", "mine", (propose_signature(first),))
    assert match_issues([second.failure.story.text], [issue])[0].is_cause


def test_a_match_of_another_failure_is_told_as_such() -> None:
    found = read(worker(0, "12:00:00", "ValueError: a", MODEL) + worker(1, "12:00:01", "ValueError: b", MODEL))
    issue = KnownIssue("late", "late", ("ValueError: b",))
    assert [match.is_cause for match in match_issues(found.texts, [issue])] == [False]


PIECES = st.sampled_from(
    [
        b"Traceback (most recent call last):\n",
        b'  File "vllm/x.py", line 3, in f\n',
        b"    code()\n",
        b"ValueError: a\n",
        b"(Worker_TP1 pid=3) ",
        b"ERROR 11-29 12:00:00 [x.py:1] ",
        b"[rank3]: ",
        b'{"log":"',
        b"\nThe above exception was the direct cause of the following exception:\n\n",
        b"Fatal Python error: Aborted\n",
        b"Current thread 0x00 (most recent call first):\n",
        b"terminate called after throwing an instance of 'x'\n",
        b"Capturing CUDA graphs: 99999999999999999999/9 [\n",
        b"Initializing a V1 LLM engine (v0) with config: tensor_parallel_size=99999999999999999999\n",
        b" [repeated 99999999999999999999x across cluster]\n",
        b"\x1b[31m",
        b"\r",
        b"\n",
        b"\xff\xfe\x00",
    ]
)


@given(st.lists(st.one_of(PIECES, st.binary(max_size=40)), max_size=60), st.integers(1, 64))
@example([b'{"log":' + b"[" * 9000], 64)
@settings(max_examples=150, deadline=None)
def test_no_bytes_break_it(pieces: list[bytes], size: int) -> None:
    data = b"".join(pieces)
    found = diagnose(data[start : start + size] for start in range(0, len(data), size))
    assert found.starts >= 1
    assert found.texts or found.root_cause is None


def test_memory_does_not_grow_with_the_log() -> None:
    def endless(count: int) -> Iterator[bytes]:
        for number in range(count):
            yield worker(number % 8, "12:00:00", f"ValueError: {'x' * (number % 900)}", MODEL).encode()

    def peak(count: int) -> int:
        tracemalloc.start()
        diagnose(endless(count))
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    assert peak(6000) < 1.5 * peak(2000) + 1_000_000
