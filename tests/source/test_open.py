from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.recipe.model import Upstream
from patchkit.source.open import open_source
from patchkit.source.source import Preference
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from tests.support.packages import PackageServer, serve_index
from tests.support.repositories import GitRepository

DEAD = "http://me:secret@127.0.0.1:1/demo.git"  # nobody listens on port 1


@dataclass
class Heard:
    warnings: list[str] = field(default_factory=list)

    def step(self, message: str) -> None:
        """Not of interest."""

    def advance(self, message: str, done: int, total: int | None) -> None:
        """Not of interest."""

    def warn(self, message: str, hint: str = "") -> None:
        self.warnings.append(message)


@pytest.fixture(scope="module")
def server() -> Iterator[PackageServer]:
    with serve_index() as server:
        server.add("demo", "1.0", {"a.py": ""})
        yield server


@pytest.fixture
def upstream(tmp_path: Path) -> GitRepository:
    repository = GitRepository(tmp_path / "upstream")
    repository.commit({"a.py": ""})
    repository.tag("v1.0")
    return repository


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def toolkit(tmp_path: Path, server: PackageServer, heard: Heard) -> Toolkit:
    return Toolkit(Cache(tmp_path / "store"), heard, server.env)


def test_git_comes_first_where_it_answers(toolkit: Toolkit, upstream: GitRepository, heard: Heard) -> None:
    source = open_source(toolkit, "demo", Upstream(git=upstream.url, package="demo", ref="v1.0"))
    assert (source.kind, source.resolve("v1.0").id) == ("git", upstream.head())
    assert heard.warnings == []


def test_a_mirror_in_the_store_needs_no_answer(toolkit: Toolkit, upstream: GitRepository, tmp_path: Path) -> None:
    wanted = Upstream(git=upstream.url, package="demo", ref="v1.0")
    open_source(toolkit, "demo", wanted)
    upstream.path.rename(tmp_path / "away")
    assert open_source(toolkit, "demo", wanted).resolve("v1.0").version == "1.0"


def test_the_package_steps_in_for_a_remote_that_is_silent_and_says_so(toolkit: Toolkit, heard: Heard) -> None:
    source = open_source(toolkit, "demo", Upstream(git=DEAD, package="demo", ref="v1.0"))
    assert (source.kind, source.resolve("v1.0").version) == ("package", "1.0")
    assert heard.warnings == ["demo: http://127.0.0.1:1/demo.git does not answer: using the releases of demo"]


def test_a_package_alone_is_used_without_a_word(toolkit: Toolkit, heard: Heard) -> None:
    assert open_source(toolkit, "demo", Upstream(package="demo", ref="v1.0")).kind == "package"
    assert heard.warnings == []


def test_a_preference_is_kept(toolkit: Toolkit, upstream: GitRepository) -> None:
    wanted = Upstream(git=upstream.url, package="demo", ref="v1.0")
    assert open_source(toolkit, "demo", wanted, "package").kind == "package"
    assert open_source(toolkit, "demo", wanted, "git").kind == "git"
    with pytest.raises(RemoteUnavailable, match=r"127\.0\.0\.1:1"):
        open_source(toolkit, "demo", Upstream(git=DEAD, package="demo", ref="v1.0"), "git")


@pytest.mark.parametrize(
    ("preference", "wanted"),
    [("git", Upstream(package="demo", ref="v1.0")), ("package", Upstream(git="/nowhere", ref="v1.0"))],
)
def test_what_the_recipe_does_not_name_cannot_be_preferred(
    toolkit: Toolkit, preference: Preference, wanted: Upstream
) -> None:
    with pytest.raises(RequestError, match="demo: the recipe names no") as caught:
        open_source(toolkit, "demo", wanted, preference)
    assert "--source" in caught.value.hint
