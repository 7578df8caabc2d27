"""The kinds of failures that everybody meets, as a table: how each is told, in plain words, and what to do.

A kind is not an issue: it has no patch. Patterns are tried from top to bottom on a failure's text; the first one wins.
"""

from __future__ import annotations

from dataclasses import dataclass

from patchkit.diagnosis.log.failure import Weight


@dataclass(frozen=True)
class Kind:
    """A kind of failure. `alone`: a line with the pattern is a failure in itself, outside of any traceback.

    `words`: one of them, small, is in every text that the pattern finds; looking for them is a hundred times faster.
    """

    name: str
    pattern: str
    words: tuple[str, ...]
    sentence: str
    hint: str
    weight: Weight = Weight.CAUSE
    alone: bool = False


KINDS = (
    Kind(
        "wrapper",
        r"Worker failed with error|Engine core initialization failed|WorkerProc initialization failed"
        r"|EngineCore encountered an issue|^RuntimeError: Executor failed|died unexpectedly"
        r"|Frontend process failed during|died with exit code \d"
        r"|^(?:[\w.]*\.)?(?:SystemExit|KeyboardInterrupt|CancelledError|EngineDeadError)\b"
        r"|^ray\.exceptions\.(?:RayTaskError|ActorDiedError|RayActorError)|ProcessRaisedException|ChildFailedError"
        r"|RPC call to \w+ timed out",
        (
            "worker failed", "initialization failed", "encountered an issue", "executor failed", "unexpectedly",
            "failed during", "died with", "systemexit", "keyboardinterrupt", "cancellederror", "enginedead",
            "ray.exceptions", "processraised", "childfailed", "rpc call",
        ),
        "another process failed, and its own words are not in this log",
        "give the log of all processes and nodes",
        weight=Weight.WRAPPER,
    ),
    Kind(
        "out-of-host-memory",
        r"exit code: -9\b|(?:': |exit code )-9\b|\bSIGKILL\b|exit(?:ed with)? code 137|OOMKilled|oom[-_]kill"
        r"|Out of memory: Killed|^Killed\b|task \d+: Killed|killed by the OOM killer"
        r"|due to the node running low on memory",
        ("-9", "137", "kill", "running low on memory"),
        "the system killed a process, almost always because the host ran out of memory",
        "look at `dmesg` for oom-kill; give the container more memory, or load with fewer parallel workers",
        weight=Weight.DEATH, alone=True,
    ),
    Kind(
        "shared-memory",
        r"exit code: -7\b|': -7\b|Bus error|unable to (?:open|write to|mmap) .*shm|insufficient shared memory"
        r"|No space left on device: '/dev/shm|/dev/shm.{0,80}No space left"
        r"|Error while creating shared memory segment",
        ("-7", "bus error", "shm", "shared memory"),
        "the shared memory of the container is too small",
        "start it with --ipc=host or --shm-size=16g",
        alone=True,
    ),
    Kind(
        "crash",
        r"Fatal Python error: (?:Segmentation fault|Illegal instruction|Floating|Bus error)"
        r"|exit code: -(?:4|8|11)\b|': -(?:4|8|11)\b|\(core dumped\)|received a segfault|\*\*\* SIGSEGV"
        r"|Segfault encountered|signal 11",
        ("fatal python", "-4", "-8", "-11", "core dumped", "seg", "signal 11"),
        "native code crashed",
        "the innermost Python frame names the extension that was called; check its build for this GPU",
        weight=Weight.DEATH, alone=True,
    ),
    Kind(
        "disk-full",
        r"\[Errno 28\]|No space left on device|Disk quota exceeded",
        ("errno 28", "no space left", "quota exceeded"),
        "the disk is full",
        "free the cache folder (HF_HOME, VLLM_CACHE_ROOT, TMPDIR), or point it at a larger disk",
        alone=True,
    ),
    Kind(
        "port-in-use",
        r"address already in use|\[Errno 98\]|EADDRINUSE",
        ("in use", "errno 98", "eaddrinuse"),
        "the port is taken by another process",
        "stop the other server, or choose another --port (or MASTER_PORT)",
        alone=True,
    ),
    Kind(
        "no-kernel-for-gpu",
        r"no kernel image is available for execution|cudaErrorNoKernelImageForDevice",
        ("kernel image", "nokernelimage"),
        "a compiled extension has no kernel for this GPU's architecture",
        "build it with the GPU's architecture in TORCH_CUDA_ARCH_LIST, or take a wheel that has it",
    ),
    Kind(
        "unsupported-ptx",
        r"unsupported PTX|provided PTX was compiled with an unsupported toolchain|cudaErrorUnsupportedPtxVersion"
        r"|CUDA_ERROR_UNSUPPORTED_PTX_VERSION|ptxas .*(?:unsupported|not defined for option)",
        ("ptx",),
        "the driver or ptxas is older than the CUDA toolchain that made the kernel",
        "update the driver, or take a build for an older CUDA",
    ),
    Kind(
        "cuda-driver",
        r"driver version is insufficient|driver .{0,60}is too old|no CUDA-capable device"
        r"|No CUDA GPUs are available|Failed to infer device type|CUDA unknown error|system not yet initialized",
        ("driver", "cuda-capable", "no cuda gpus", "device type", "cuda unknown", "not yet init"),
        "no usable GPU or driver was found",
        "check `nvidia-smi` where the server runs, and --gpus of the container",
    ),
    Kind(
        "out-of-gpu-memory",
        r"OutOfMemoryError|CUDA out of memory|HIP out of memory|NPU out of memory|CUBLAS_STATUS_ALLOC_FAILED"
        r"|CUDA error: out of memory|Free memory on device .* is less than desired",
        ("outofmemory", "out of memory", "alloc_failed", "free memory on"),
        "the GPU's memory is too small for what was asked",
        "lower --gpu-memory-utilization, --max-num-seqs or --max-model-len, or use more GPUs; check for other"
        " processes on it",
    ),
    Kind(
        "kv-cache-too-small",
        r"No available memory for the cache blocks",
        ("cache blocks",),
        "nothing is left for the KV cache",
        "raise --gpu-memory-utilization, quantize the weights, or use more GPUs",
    ),
    Kind(
        "context-too-long",
        r"larger than the available KV cache|greater than the derived max_model_len"
        r"|larger than the maximum number of tokens that can be stored",
        ("kv cache", "max_model_len", "tokens that can be"),
        "the context asked for is longer than the model or the KV cache allows",
        "lower --max-model-len",
    ),
    Kind(
        "nccl-timeout",
        r"Watchdog caught collective operation timeout|NCCL operations have failed or timed out"
        r"|Timed out waiting \d+ms|collective operation timeout|wait timeout after \d+ms"
        r"|TimeoutError: .*(?:store|barrier)",
        ("timeout", "timed out"),
        "a collective waited for a rank that never came",
        "look for the rank that failed or hangs; its log tells the cause",
        weight=Weight.SECONDARY, alone=True,
    ),
    Kind(
        "peer-gone",
        r"remote process exited or there was a network error|Connection closed by (?:remote )?peer"
        r"|Connection reset by peer"
        r"|^(?:\w+\.)*(?:BrokenPipeError|ConnectionResetError|EOFError|ConnectionRefusedError)\b|Broken pipe"
        r"|recvValue failed|failed to recv, got 0 bytes|ContextTerminated",
        ("remote process", "connection", "pipe", "eoferror", "recv", "contextterminated"),
        "the other end of a connection went away",
        "look for the process that ended first; its log tells the cause",
        weight=Weight.SECONDARY,
    ),
    Kind(
        "nccl",
        r"DistBackendError|NCCL error|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclInvalidUsage"
        r"|HCCL error",
        ("distbackend", "nccl", "hccl"),
        "NCCL could not set up or use the connection between ranks",
        "run with NCCL_DEBUG=INFO; check NCCL_SOCKET_IFNAME, peer access and that all nodes run the same version",
    ),
    Kind(
        "ray-placement",
        r"placement group (?:requiring|of)|number of required (?:GPUs|\w+s) exceeds the total"
        r"|World size .* is larger than the number of available|No available node types can fulfill",
        ("placement group", "number of required", "larger than the number", "node types"),
        "Ray has not the GPUs that were asked for",
        "check `ray status`; lower --tensor-parallel-size or --pipeline-parallel-size, or add nodes",
    ),
    Kind(
        "model-access",
        r"GatedRepoError|\b401 Client Error|\b403 Client Error|Access to model .* is restricted"
        r"|Invalid (?:user )?token",
        ("gatedrepo", "client error", "restricted", "token"),
        "the model hub refuses access",
        "accept the model's terms on its page and set HF_TOKEN",
    ),
    Kind(
        "model-not-found",
        r"RepositoryNotFoundError|\b404 Client Error|is not a local folder and is not a valid model"
        r"|Repo id must be|EntryNotFoundError|does not appear to have a file named|Invalid repository ID",
        ("notfounderror", "client error", "local folder", "repo id", "a file named", "repository id"),
        "there is no such model on the hub or in that folder",
        "check the name; a folder must be mounted where the server runs",
    ),
    Kind(
        "hub-unreachable",
        r"LocalEntryNotFoundError|couldn't connect to .?https?://huggingface|Max retries exceeded"
        r"|Name or service not known|Temporary failure in name resolution|OfflineModeIsEnabled",
        ("notfounderror", "connect to", "max retries", "name or service", "name resolution", "offlinemode"),
        "the model hub cannot be reached",
        "check network and proxy, or fetch the model before and set HF_HUB_OFFLINE=1",
    ),
    Kind(
        "unknown-architecture",
        r"are not supported for now|failed to be inspected|does not recognize this architecture"
        r"|is not supported (?:anymore|in-tree anymore)|has no vLLM implementation",
        ("not supported", "inspected", "architecture", "vllm implementation"),
        "this vLLM (or its transformers) does not know the model's architecture",
        "use a release that supports the model, or update transformers",
    ),
    Kind(
        "unsupported-quantization",
        r"is not supported for quantization|Unknown quantization method|does not match the quantization"
        r"|quantization method .* is not supported|Minimum capability|unsupported quantization",
        ("quantization", "minimum capability"),
        "the quantization does not fit the GPU, the dtype or this release",
        "choose another --quantization, --dtype or checkpoint",
    ),
    Kind(
        "unsupported-dtype",
        r"Bfloat16 is only supported on GPUs|does not support bfloat16"
        r"|(?:dtype|data type) .{0,60}not (?:supported|implemented)"
        r"|not implemented for '(?:Half|BFloat16|Float8_\w+)'",
        ("bfloat16", "dtype", "data type", "not implemented"),
        "the GPU or a kernel does not support the data type",
        "try --dtype=half, or --kv-cache-dtype=auto",
    ),
    Kind(
        "tokenizer",
        r"Failed to load the tokenizer|Can't load tokenizer|Tokenizer class \w+ does not exist|backend tokenizer"
        r"|tokenizer\.json|data did not match any variant of untagged enum",
        ("token", "untagged enum"),
        "the tokenizer cannot be loaded",
        "check the model's tokenizer files; --trust-remote-code or --tokenizer-mode may be needed",
    ),
    Kind(
        "missing-package",
        r"ModuleNotFoundError|^ImportError|No module named|cannot open shared object file|undefined symbol",
        ("notfounderror", "importerror", "no module", "shared object", "undefined symbol"),
        "a package is missing, or was built for another torch or CUDA",
        "install it into the server's environment, built for the torch that is there",
    ),
    Kind(
        "cuda-error",
        r"CUDA error|AcceleratorError|CUDA_ERROR_|cudaError|HIP error|device-side assert|Cuda failure",
        ("cuda", "accelerator", "hip error", "device-side"),
        "a GPU kernel failed; the frame may be a later one than the culprit",
        "run again with CUDA_LAUNCH_BLOCKING=1 to see the call that failed",
    ),
    Kind(
        "compile",
        r"InductorError|BackendCompilerFailed|torch\._dynamo\.exc|TorchRuntimeError|CompilationError|nvcc fatal"
        r"|ninja: build stopped",
        ("inductorerror", "backendcompiler", "_dynamo", "torchruntimeerror", "compilationerror", "nvcc", "ninja"),
        "compilation failed",
        "--enforce-eager tells whether the model itself runs; it is no fix",
    ),
    Kind(
        "arguments",
        r"error: (?:unrecognized arguments|argument |the following arguments are required|ambiguous option)",
        ("error: ",),
        "the command line is wrong",
        "see `vllm serve --help=all` of this release",
        alone=True,
    ),
    Kind(
        "npu-error",
        r"call aclnn\w+ failed|\bERR\d{5} (?:OPS|PTA|DIST|GRAPH)|\bE[A-Z\d]\d{4}: (?:Inner Error|\[PID)"
        r"|npuSynchronizeDevice|\bACL_ERROR|acl error|rtStreamSynchronize",
        ("aclnn", "err", "inner error", "[pid", "npusync", "acl", "rtstream"),
        "an operator of the NPU failed",
        "run again with ASCEND_LAUNCH_BLOCKING=1 to see the call that failed; plog under ~/ascend/log has its words",
    ),
    Kind(
        "spawn-without-guard",
        r"start a new process before the",
        ("new process",),
        "the script starts the engine while it is imported, and worker processes import it again",
        "put its code below `if __name__ == '__main__':`",
    ),
    Kind(
        "abort",
        r"^terminate called after throwing|Fatal Python error: Aborted|exit code: -6\b|': -6\b",
        ("terminate", "fatal python", "-6"),
        "native code ended the process",
        "the words after what() tell why",
        weight=Weight.SECONDARY, alone=True,
    ),
)  # fmt: skip


def find_kind(name: str) -> Kind | None:
    """Return the kind of a name, or None."""
    return next((kind for kind in KINDS if kind.name == name), None)
