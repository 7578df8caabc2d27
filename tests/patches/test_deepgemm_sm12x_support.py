"""deepgemm-sm12x-support: sm_12x counts as served by DeepGEMM unless the pin is known to lack its kernels."""

from __future__ import annotations

import pytest

from patchkit.recipe.condition import parse_condition
from patchkit.recipe.load import load_patch
from patchkit.stack.rewrite import RewriteError, RewriteResult, rewrite_files
from tests.patches.shapes import PATCHES, TreeFacts

PATH = "vllm/platforms/cuda.py"
PLATFORM = """\
class CudaPlatformBase:
    @classmethod
    def support_deep_gemm(cls):
        return (
            cls.is_device_capability(90)
            or cls.is_device_capability_family(100)
            or cls.is_device_capability_family(120)
        )


class Told(CudaPlatformBase):
    capability = 0

    @classmethod
    def is_device_capability(cls, number):
        return cls.capability == number

    @classmethod
    def is_device_capability_family(cls, number):
        return cls.capability // 10 == number // 10
"""


class Pinned(TreeFacts):
    """A tree beside a DeepGEMM."""

    def __init__(self, vllm: str, deep_gemm: str | None) -> None:
        super().__init__({}, vllm)
        object.__setattr__(self, "deep_gemm", deep_gemm)

    def pin(self, name: str) -> str | None:
        return getattr(self, "deep_gemm") if name == "deepgemm" else None  # noqa: B009 — a frozen dataclass below


def rewritten(text: str) -> RewriteResult:
    steps = load_patch(PATCHES / "deepgemm-sm12x-support").rewrites["platform.yaml"]
    return rewrite_files(lambda path: text.encode() if path == PATH else None, steps, PATCHES)


@pytest.mark.parametrize(
    ("vllm", "pin", "holds"),
    [
        ("0.24.0", "891d57b", True),
        ("0.27.1", "e21c821", True),
        ("0.33.0", "891d57b", True),
        ("0.23.0", "891d57b", False),
        ("0.26.0", "a6b593d", False),
        ("0.24.0", None, False),
    ],
)
def test_it_applies_only_beside_a_deep_gemm_that_is_known_to_lack_the_kernels(
    vllm: str, pin: str | None, holds: bool
) -> None:
    when = load_patch(PATCHES / "deepgemm-sm12x-support").patch.when
    assert when is not None
    assert parse_condition(when).decide(Pinned(vllm, pin)).holds is holds


@pytest.mark.parametrize(
    ("capability", "before", "after"),
    [(80, False, False), (89, False, False), (90, True, True), (100, True, True), (103, True, True), (120, True, False),
     (121, True, False)],
)  # fmt: skip
def test_only_the_family_120_loses_deep_gemm(capability: int, before: bool, after: bool) -> None:
    for text, wanted in ((PLATFORM, before), (rewritten(PLATFORM).contents[PATH].decode(), after)):
        space: dict[str, type] = {}
        exec(text, space)
        space["Told"].capability = capability  # type: ignore[attr-defined]
        assert space["Told"].support_deep_gemm() is wanted  # type: ignore[attr-defined]


def test_an_answer_without_the_family_has_it_already() -> None:
    assert rewritten(PLATFORM.replace("            or cls.is_device_capability_family(120)\n", "")).done


def test_an_answer_of_another_shape_is_a_conflict() -> None:
    with pytest.raises(RewriteError):
        rewritten(PLATFORM.replace("(120)", "(12)"))
