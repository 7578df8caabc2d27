"""The files of a distribution as a commit: the same for a wheel and for what was installed from it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.recipe.model import Upstream
from patchkit.source.installed.folder import read_installed
from patchkit.source.installed.trees import store_commit
from patchkit.source.installed.wheel import read_wheel
from patchkit.source.open import open_source
from patchkit.source.source import FactSettings
from patchkit.tools.cache import Cache, digest_file
from patchkit.tools.toolkit import Toolkit
from tests.support.wheels import install, make_wheel


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path / "wheels")


@pytest.fixture
def toolkit(tmp_path: Path, wheel: Path) -> Toolkit:
    found = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheel.parent), "PIP_CONFIG_FILE": os.devnull}
    return Toolkit(Cache(tmp_path / "store"), env={**os.environ, **found})


def test_a_wheel_and_what_pip_made_of_it_are_one_commit_on_every_machine(
    toolkit: Toolkit, wheel: Path, tmp_path: Path
) -> None:
    packed = read_wheel(wheel)
    info = install(wheel, tmp_path / "site", ("vllm/__pycache__/x.cpython-312.pyc",))
    installed = read_installed(tmp_path / "site", info)
    first, repository = store_commit(toolkit, "vllm", packed.distribution, packed.contents)
    second, _ = store_commit(toolkit, "vllm", installed.distribution, installed.contents)
    assert first == second
    assert first.id == "5977b03182454e4af4d998f6cc35562026b67aeb"
    assert [path for path, _ in repository.walk(first.tree)] == [
        "vllm/__init__.py",
        "vllm/configs/a.json",
        "vllm/sub/y.py",
        "vllm/x.py",
    ]


def test_a_wheel_is_fetched_once_through_pip(toolkit: Toolkit, wheel: Path) -> None:
    upstream = Upstream(wheel="vllm", ref="v0.26.0")
    source = open_source(toolkit, "engine", upstream, "package")
    commit = source.resolve("v0.26.0")
    origin = source.origin(commit)
    assert (commit.version, commit.upstream, commit.ref) == ("0.26.0", "engine", "v0.26.0")
    assert (origin.kind, origin.location, origin.sha256) == ("package", "vllm", digest_file(wheel))
    wheel.unlink()
    again = open_source(toolkit, "engine", upstream, "git")
    assert again.resolve("v0.26.0") == commit
    assert again.origin(commit) == origin


def test_a_version_that_pip_does_not_find_cannot_be_had(toolkit: Toolkit) -> None:
    source = open_source(toolkit, "vllm", Upstream(wheel="vllm", ref="v0.99"))
    with pytest.raises(RemoteUnavailable, match=r"vllm 0\.99: pip finds no wheel"):
        source.resolve("v0.99")


def test_an_installed_version_answers_to_its_public_version_and_conditions(toolkit: Toolkit, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(make_wheel(tmp_path, version="0.26.0+cu129"), site)
    source = open_source(toolkit, "vllm", Upstream(site_packages=str(site), ref="v0.26.0"))
    commit = source.resolve("v0.26.0")
    facts = source.facts(commit, FactSettings())
    assert facts.version("vllm") == "0.26.0+cu129"
    assert facts.has("vllm/sub/y.py", "f")
    assert not facts.has("csrc", None)
    with pytest.raises(RequestError, match=r"vllm 0\.26\.0\+cu129 is installed, not 0\.25"):
        source.resolve("v0.25")
    with pytest.raises(RequestError, match="names no version"):
        source.resolve("main")


def test_an_installed_distribution_has_no_history(toolkit: Toolkit, wheel: Path, tmp_path: Path) -> None:
    install(wheel, tmp_path / "site")
    source = open_source(toolkit, "vllm", Upstream(site_packages=str(tmp_path / "site"), ref="v0.26.0"))
    commit = source.resolve("v0.26.0")
    with pytest.raises(RequestError, match="one version and no history"):
        source.since("v0.26.0", "releases")
    with pytest.raises(RequestError, match="one version and no history"):
        source.releases(commit, commit)


@pytest.mark.parametrize(
    "places", [{"wheel": "a", "site_packages": "b"}, {"git": "a", "wheel": "b"}, {"package": "a", "site_packages": "b"}]
)
def test_an_upstream_has_one_kind_of_place(places: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="or else one of `wheel` and `site-packages`"):
        Upstream.model_validate({**places, "ref": "v1"})
