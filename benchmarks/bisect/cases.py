"""Real regressions whose first bad commit is known, and a patch that stopped applying."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A regression: where it lies, and the commit that is known to have brought it (one of several, with commas)."""

    name: str
    repository: str
    script: str
    good: str
    bad: str
    first_bad: str


ASCEND, ROCM, CAT = "vllm-project/vllm-ascend", "ROCm/vllm", "1CatAI/1Cat-vLLM"
CASES = (
    Case(
        "ascend-eplb-condition",
        ASCEND,
        "ascend_eplb_condition.py",
        "e38ef2c4344e11130a8fae5260b9dad6962d1fd1",
        "e945e919331d8856cd01db7c467b61da4bf76c61",
        "c848da0687a1f74df5c8dcf33f577fa20491dd58",
    ),
    Case(
        "ascend-polib-import",
        ASCEND,
        "ascend_polib_import.py",
        "aabec5efb082c960ca54ac9006e1780f0057378e",
        "753d7ba875e623a83fec86440e8c00603880c0b1",
        "fbbf5167ada3f3b59909bcf947e69036fc4af425",
    ),
    Case(
        "ascend-models-layer-package",
        ASCEND,
        "package_marker.py",
        "6179cb07354ecbd49162c62802cd2d24ace1da7d",
        "b3da374f6489d77a6f6a54c4a885ceb25d45c4fc",
        "7bce23cc0572a7793636ae215015a528e4503f1e",
    ),
    Case(
        "vllm-rpc-port",
        ROCM,
        "vllm_env_default.py",
        "bb2fc08072db2d96e547407b4301fb6ba141d9d6",
        "a3bbbfa1d8c2f30581d37c6f30429d648bbbf87c",
        "ed812a73fae77bb520b739cfeaad36dbd61e2b03",
    ),
    Case(
        "vllm-spec-decode-package",
        ROCM,
        "package_marker.py",
        "bffddd9a05a6d0d3ea04b7baad1966e4f57f94c7",
        "da833b0aeee979bd754e92f7ada3a6709cf51954",
        "80f63a3966a6dbfd492ccd74004da5929cdba2bb",
    ),
    Case(
        "rocm-fused-moe-chunk",
        ROCM,
        "vllm_env_default.py",
        "d5bf9bc9b735bc71e4edb1c5057b1ef329e88710",
        "48c0cb4f2f4d8aa09c80a90faea72cd8d093a878",
        "34a0e96d463d37cf85cee9c2cd01397034e97573",
    ),
    Case(
        "vllm-sched-getaffinity",
        CAT,
        "vllm_sched_getaffinity.py",
        "ecd5443dbcd1de360fff067547c68a1128dcfb1b",
        "93726b2a1c766a27f10ad7c3f709ffbacb94bcf9",
        "abebd9323d7cf8abefd07f976be3be356d873075",
    ),
    Case(
        "non-monotonic",
        CAT,
        "vllm_dummy_sampler_run.py",
        "437b76ff5^",
        "1fc973c0b",
        "437b76ff5,8d5aa466f,1fc973c0b",
    ),
)
PATCH = Case(
    "patch-stops-applying",
    CAT,
    "fastsafetensors.patch",
    "794029f012066e6039b63566ef7d845af1ade831",
    "4ff865c38eac3c3602c064fd43b00836805cd0a4",
    "d9bede0314ba19a3f8336dcaeeeaf9e2c5487053",
)
