"""Which vLLM a commit of vLLM-Ascend names: a line read wrongly judges a commit with a vLLM it never saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.source.pins.find import Pin, PinReader, Prefer, kind_of
from tests.support.repositories import Files, GitRepository

MAIN, OTHER = "1" * 40, "0123456789abcdef0123456789abcdef01234567"
CLONE = "ARG VLLM_REPO=https://example.org/vllm.git\nRUN git clone --depth 1 $VLLM_REPO {branch}/workspace/vllm\n"
TEST = "jobs:\n  test:\n    strategy:\n      matrix:\n        {name}: [{values}]\n"

# The forms of vLLM-Ascend's history, oldest first: files, and what they name.
PERIODS: list[tuple[str, Files, list[tuple[str, str, str]]]] = [
    ("a licence and nothing else", {"LICENSE": "x"}, []),
    ("a clone of the default branch", {"Dockerfile": CLONE.format(branch="")}, [("branch", "", "Dockerfile:2")]),
    (
        "the default branch, named",
        {"Dockerfile": "ARG VLLM_TAG=main\n" + CLONE.format(branch="--branch $VLLM_TAG ")},
        [("branch", "", "Dockerfile:1")],
    ),
    (
        "a matrix, misspelt, of the default branch and a release",
        {".github/workflows/vllm_ascend_test.yaml": TEST.format(name="vllm_verison", values="main, v0.8.5.post1")},
        [
            ("tag", "v0.8.5.post1", ".github/workflows/vllm_ascend_test.yaml:5"),
            ("branch", "", ".github/workflows/vllm_ascend_test.yaml:5"),
        ],
    ),
    (
        "an installed release",
        {
            ".github/workflows/vllm_ascend_test.yaml": "run: |\n  pip install -U pip\n  pip install vllm==0.7.3\n",
            "Dockerfile.CI": CLONE.format(branch=""),
        },
        [("tag", "v0.7.3", ".github/workflows/vllm_ascend_test.yaml:3")],
    ),
    (
        "a matrix of a commit and a release, and an image of the release",
        {
            ".github/workflows/pr_test_light.yaml": TEST.format(name="vllm_version", values=f"{MAIN},v0.13.0"),
            "Dockerfile": "ARG VLLM_TAG=v0.13.0\n" + CLONE.format(branch="-b $VLLM_TAG "),
        },
        [
            ("commit", MAIN, ".github/workflows/pr_test_light.yaml:5"),
            ("tag", "v0.13.0", ".github/workflows/pr_test_light.yaml:5"),
            ("tag", "v0.13.0", "Dockerfile:1"),
        ],
    ),
    (
        "an image at a commit, cloned whole",
        {
            "Dockerfile": f"# ARG VLLM_TAG=v0.19.0\nARG VLLM_COMMIT={MAIN}\n"
            "RUN git clone $VLLM_REPO /vllm && git -C /vllm checkout $VLLM_COMMIT\n"
        },
        [("commit", MAIN, "Dockerfile:2")],
    ),
    (
        "a file for each",
        {".github/vllm-main-verified.commit": MAIN, ".github/vllm-release-tag.commit": "v0.27.1\n"},
        [
            ("commit", MAIN, ".github/vllm-main-verified.commit:1"),
            ("tag", "v0.27.1", ".github/vllm-release-tag.commit:1"),
        ],
    ),
]


def read(tmp_path: Path, files: Files, name: str = "vllm", prefer: Prefer = "newest") -> tuple[Pin, ...]:
    upstream = GitRepository(tmp_path / "ascend.git")
    return PinReader(upstream.objects, name, prefer).read(upstream.tree_of(upstream.commit(files)))


@pytest.mark.parametrize(("files", "named"), [case[1:] for case in PERIODS], ids=[case[0] for case in PERIODS])
def test_every_period_is_read_with_its_line(tmp_path: Path, files: Files, named: list[tuple[str, str, str]]) -> None:
    assert [(pin.kind, pin.ref, pin.place) for pin in read(tmp_path, files)] == named


def test_the_line_is_kept_as_evidence(tmp_path: Path) -> None:
    (pin,) = read(tmp_path, {"Dockerfile": "FROM x\n  ARG VLLM_TAG=v0.9.1  \n"})
    assert (pin.place, pin.text) == ("Dockerfile:2", "ARG VLLM_TAG=v0.9.1")


def test_of_two_vllms_the_caller_says_which_comes_first(tmp_path: Path) -> None:
    files = {".github/vllm-main-verified.commit": MAIN, ".github/vllm-release-tag.commit": "v0.27.1"}
    assert [pin.ref for pin in read(tmp_path / "a", files)] == [MAIN, "v0.27.1"]
    assert [pin.ref for pin in read(tmp_path / "b", files, prefer="release")] == ["v0.27.1", MAIN]


def test_an_image_at_a_release_that_the_tests_have_dropped_comes_last(tmp_path: Path) -> None:
    files = {
        ".github/workflows/vllm_ascend_test.yaml": TEST.format(name="vllm_version", values="main"),
        "Dockerfile": "ARG VLLM_TAG=v0.10.0\n" + CLONE.format(branch="--branch $VLLM_TAG "),
    }
    assert [(pin.kind, pin.ref) for pin in read(tmp_path / "a", files)] == [("branch", ""), ("tag", "v0.10.0")]
    assert [pin.ref for pin in read(tmp_path / "b", files, prefer="release")] == ["v0.10.0", ""]


@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/labled_doctest.yaml",  # images of vLLM-Ascend itself, not vLLM
        ".github/workflows/vllm_ascend_test_310p.yaml",  # one device, months behind
        ".github/workflows/schedule_codecov_refresh.yaml",
        ".github/workflows/nightly_benchmarks.yaml",
        "docs/source/conf.py",
        "README.md",
    ],
)
def test_what_names_another_vllm_than_the_one_tested_with_is_no_pin(tmp_path: Path, path: str) -> None:
    text = TEST.format(name="vllm_version", values=f"{OTHER}, v0.11.0") + "'ci_vllm_version': 'v0.11.0',\n"
    assert read(tmp_path, {path: text}) == ()


def test_values_that_a_workflow_computes_are_no_pins(tmp_path: Path) -> None:
    files = {".github/workflows/pr_test.yaml": TEST.format(name="vllm_version", values="${{ inputs.vllm }}, '', x y")}
    assert read(tmp_path, files) == ()


def test_a_clone_of_something_else_names_nothing(tmp_path: Path) -> None:
    files = {"Dockerfile": "RUN git clone https://example.org/mooncake.git /m\nRUN git clone https://e.org/vllm-x /v\n"}
    assert read(tmp_path, files) == ()


def test_another_upstream_is_read_by_its_own_name(tmp_path: Path) -> None:
    files = {"Dockerfile": "ARG FLASH_INFER_TAG=v0.2.0\nARG VLLM_TAG=v0.9.1\n"}
    assert [pin.ref for pin in read(tmp_path, files, name="flash-infer")] == ["v0.2.0"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        *[(MAIN, "commit"), ("a1b2c3d", "commit"), ("v0.9.1", "tag"), ("0.10.1.1", "tag"), ("main", "branch")],
        *[("releases/v0.11.0", "branch"), ("", "branch"), ("$VLLM", None), ("nightly", None), ("-x", None)],
    ],
)
def test_a_value_is_a_commit_a_tag_a_branch_or_nothing(value: str, kind: str | None) -> None:
    assert kind_of(value) == kind
