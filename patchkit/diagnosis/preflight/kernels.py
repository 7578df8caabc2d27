"""Kernels: what an architecture lacks for this checkpoint, and settings that contradict it.

Read from vLLM 0.20 to 0.33. A note where it depends on how something was built: config.json does not say.
"""

from __future__ import annotations

from collections.abc import Iterator

from patchkit.diagnosis.preflight.finding import Case, Finding

# Majors that have an attention backend for models whose keys an indexer picks, and the release that had it first.
SPARSE_BACKENDS = {9: "0.20", 10: "0.20", 12: "0.24"}
FIRST_WITH_SM12X_DEEP_GEMM = "0.24"  # CudaPlatformBase.support_deep_gemm says yes from here on, whatever was built
DEEP_GEMM_MAJORS = (9, 10)  # of whose kernels every DeepGEMM has some
PLAIN_METHODS = frozenset({"fp8", "compressed-tensors", "awq", "gptq", "mxfp4", "bitsandbytes"})


def show_arch(arch: tuple[int, int]) -> str:
    """Return a compute capability as the name of an architecture: sm_121."""
    return f"sm_{arch[0]}{arch[1]}"


def check_block_scales(case: Case) -> Iterator[Finding]:
    """Find E8M0 block scales on an architecture where nothing that vLLM chooses reads them."""
    quantization, arch = case.model.quantization, case.deployment.arch
    if arch is None or quantization is None or quantization.scale_format != "ue8m0" or arch[0] in DEEP_GEMM_MAJORS:
        return
    is_stored, reads = case.model.model_type.startswith("deepseek_v4"), _takes_deep_gemm(case)
    yield Finding(
        "e8m0-scales",
        is_stored and not reads,
        f"block scales in ue8m0 on {show_arch(arch)}"
        + ("" if is_stored else ", if the checkpoint stores them as float8_e8m0fnu and not as float32")
        + (", once DeepGEMM is switched off" if reads else ""),
        f"DeepGEMM packs E8M0 itself; {show_arch(arch)} without it gets CUTLASS, whose scales are float32; "
        + _show_kernels(case),
        "patch e8m0-upcast (recipes deepseek-v4-gb10, deepseek-v4-l20); "
        "from 0.30 on VLLM_DISABLED_KERNELS=CutlassFp8BlockScaledMMKernel too",
        "the first block-scaled linear layer raises: b_scales.scalar_type() … Float",
    )


def _takes_deep_gemm(case: Case) -> bool:
    """Return whether vLLM takes an installed DeepGEMM on sm_12x that has kernels for it."""
    arch, deployment = case.deployment.arch, case.deployment
    has_kernels = deployment.deep_gemm is not None and arch is not None and arch[0] in deployment.deep_gemm
    return has_kernels and deployment.is_at_least(FIRST_WITH_SM12X_DEEP_GEMM) is not False


def check_deep_gemm(case: Case) -> Iterator[Finding]:
    """Find calls of DeepGEMM that an architecture without its kernels reaches."""
    arch, deployment, model = case.deployment.arch, case.deployment, case.model
    if arch is None or arch[0] in DEEP_GEMM_MAJORS:
        return
    name, kernels = show_arch(arch), _show_kernels(case)
    has_kernels = deployment.deep_gemm is not None and arch[0] in deployment.deep_gemm
    if model.model_type == "deepseek_v4":
        yield Finding(
            "deep-gemm-calls",
            not has_kernels,
            f"DeepSeek-V4 calls DeepGEMM on {name} without asking whether it is supported",
            f"deep_gemm_fp8_o_proj in every release, mhc_pre_broadcast_tilelang from 0.26 on; {kernels}",
            "patch deepgemm-arch-guard and VLLM_USE_DEEP_GEMM=0 (recipe deepseek-v4-gb10)",
            "RuntimeError: Unsupported architecture; VLLM_USE_DEEP_GEMM=0 alone does not reach these calls",
        )
    elif arch[0] == 12 and model.quantization and deployment.is_at_least(FIRST_WITH_SM12X_DEEP_GEMM) is not False:
        yield Finding(
            "deep-gemm-build",
            deployment.deep_gemm is not None and not has_kernels,
            f"vLLM takes DeepGEMM to support {name} from 0.24 on, whatever the installed one was made for",
            f"support_deep_gemm(): 9.0, 10.x or 12.x; {kernels}",
            "" if has_kernels else "VLLM_USE_DEEP_GEMM=0 unless the installed one has sm_12x kernels",
            "without them: RuntimeError: Unsupported architecture in the first forward pass",
        )


def _show_kernels(case: Case) -> str:
    families = case.deployment.deep_gemm
    if families is None:
        return "what the installed one has is not known: --site-packages tells"
    return "the installed one has kernels for " + (", ".join(f"sm_{one}x" for one in sorted(families)) or "none")


def check_sparse_attention(case: Case) -> Iterator[Finding]:
    """Find sparse attention (DeepSeek-V3.2's indexer) on an architecture without a backend for it."""
    arch = case.deployment.arch
    if arch is None or not case.model.sparse_attention or case.model.model_type.startswith("deepseek_v4"):
        return
    first = SPARSE_BACKENDS.get(arch[0])
    if first is not None and case.deployment.is_at_least(first) is not False:
        return
    backends = "; ".join(f"sm_{major}x from {release}" for major, release in SPARSE_BACKENDS.items())
    yield Finding(
        "sparse-attention",
        True,
        f"no backend for sparse latent attention on {show_arch(arch)}",
        f"backends: {backends}",
        f"vLLM {first} or later" if first else "another architecture: no release up to 0.33 has one",
        "ValueError: No valid attention backend found",
    )


def check_low_precision(case: Case) -> Iterator[Finding]:
    """Say where weights of 8 or 4 bits are used as storage only; find what an architecture cannot run at all."""
    arch, quantization = case.deployment.arch, case.model.quantization
    if arch is None or quantization is None:
        return
    four_bits = quantization.method in {"mxfp4", "modelopt_fp4", "nvfp4"}
    least, native = ((8, 0), (10, 0)) if quantization.method == "mxfp4" else ((7, 5), (10, 0) if four_bits else (8, 9))
    if quantization.method not in {"fp8", "mxfp4", "modelopt_fp4", "nvfp4"} or arch >= native:
        return
    yield Finding(
        "low-precision",
        arch < least,
        f"{quantization.method} weights on {show_arch(arch)}"
        + (" are not supported" if arch < least else " are stored in low precision and multiplied in 16 bits"),
        f"needs {show_arch(least)}, native from {show_arch(native)}; this is {show_arch(arch)}",
        "" if arch >= least else f"{show_arch(least)} or later",
        "get_min_capability" if arch < least else "Marlin's weight-only kernels: right, at their speed",
    )


def check_settings(case: Case) -> Iterator[Finding]:
    """Find settings that contradict the checkpoint: its quantization, its cache."""
    deployment, quantization = case.deployment, case.model.quantization
    if quantization is None:
        return
    asked, told = deployment.quantization, quantization.method
    if asked != told and {asked, told} <= PLAIN_METHODS:
        yield Finding(
            "quantization",
            True,
            f"--quantization {asked}, but the checkpoint is {told}",
            f"quantization_config.quant_method = {told}",
            "leave --quantization out: the checkpoint says it",
            "ModelConfig raises ValueError",
        )
    if deployment.kv_dtype == "fp8_e5m2" and told == "fp8":
        yield Finding(
            "kv-dtype",
            True,
            "--kv-dtype fp8_e5m2 with an fp8 checkpoint",
            f"quantization_config.quant_method = {told}",
            "--kv-dtype fp8 or fp8_e4m3",
            "the attention layer raises ValueError in every worker",
        )
