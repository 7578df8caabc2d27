"""People behind a wall have only the package index: its releases must answer as a repository's tags do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.source.package_source import PackageSource
from patchkit.source.source import FactSettings, Source
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from tests.support.packages import PackageServer, serve_index

FILES = {"demo/__init__.py": "x = 1\n"}


@pytest.fixture(scope="module")
def server() -> Iterator[PackageServer]:
    with serve_index() as server:
        for version in ("0.9", "0.10.0", "0.10.1rc1", "0.10.1", "0.11.0", "0.12.0", "0.13.0rc1"):
            server.add("demo", version, {**FILES, "demo/version.txt": version})
        server.files["demo-0.11.0.tar.gz"].yanked = True
        yield server


def open_package(server: PackageServer, root: Path, offline: bool = False) -> PackageSource:
    return PackageSource(Toolkit(Cache(root), env=server.env, offline=offline), "demo", "Demo")


def test_a_package_source_is_a_source(server: PackageServer, tmp_path: Path) -> None:
    source: Source = open_package(server, tmp_path)
    assert (source.kind, source.upstream) == ("package", "demo")


def test_a_release_is_found_by_tag_by_version_and_by_the_id_of_its_commit(
    server: PackageServer, tmp_path: Path
) -> None:
    source = open_package(server, tmp_path)
    commit = source.resolve("v0.10.0")
    assert (commit.ref, commit.version, commit.name) == ("v0.10.0", "0.10.0", "v0.10.0")
    for ref in ("0.10.0", "0.10", commit.id, commit.id[:12]):
        assert source.resolve(ref) == commit
    assert source.repository.read(source.tree(commit).id, "demo/version.txt") == b"0.10.0"


def test_latest_is_the_newest_that_is_neither_pre_release_nor_yanked(server: PackageServer, tmp_path: Path) -> None:
    assert open_package(server, tmp_path).resolve("latest").ref == "v0.12.0"


def test_a_release_in_the_store_needs_no_network(server: PackageServer, tmp_path: Path) -> None:
    commit = open_package(server, tmp_path).resolve("v0.10.0")
    asked = len(server.requests)
    for ref in ("v0.10.0", commit.id):
        assert open_package(server, tmp_path, offline=True).resolve(ref) == commit
    assert len(server.requests) == asked
    with pytest.raises(RemoteUnavailable, match="not in the store, and offline"):
        open_package(server, tmp_path, offline=True).resolve("v0.12.0")


def test_with_no_index_the_releases_in_the_store_are_all_there_are(server: PackageServer, tmp_path: Path) -> None:
    source = open_package(server, tmp_path)
    good, bad = source.resolve("v0.9"), source.resolve("v0.12.0")
    for record in (tmp_path / "index").iterdir():
        record.unlink()
    offline = open_package(server, tmp_path, offline=True)
    assert offline.releases(good, bad) == ("v0.9", "v0.12.0")
    assert offline.resolve("latest") == bad
    assert offline.since("v0.9", "releases") == ("v0.12.0",)


@pytest.mark.parametrize(
    ("ref", "hint"),
    [
        ("v0.10.9", r"is it one of v0\.10\.1, v0\.10\.0"),
        ("main", r"newest is v0\.12\.0; .* need --source git"),
        ("--output=x", "--source git"),
        ("0" * 40, r"v|--source git"),
        ("pull/3", "--source git"),
    ],
)
def test_what_is_no_release_is_refused_with_the_nearest_names(
    server: PackageServer, tmp_path: Path, ref: str, hint: str
) -> None:
    with pytest.raises(RequestError, match=f"demo: no commit or release named {ref} on the package index") as caught:
        open_package(server, tmp_path).resolve(ref)
    assert re.search(hint, caught.value.hint)


def test_releases_between_two_ends_leave_out_pre_releases_and_yanked_ones(
    server: PackageServer, tmp_path: Path
) -> None:
    source = open_package(server, tmp_path)
    good, bad = source.resolve("v0.9"), source.resolve("v0.13.0rc1")
    server.requests.clear()
    assert source.releases(good, bad) == ("v0.9", "v0.10.0", "v0.10.1", "v0.12.0", "v0.13.0rc1")
    assert server.requests == []
    with pytest.raises(RequestError, match=r"v0\.13\.0rc1 is newer than v0\.9"):
        source.releases(bad, good)


def test_a_yanked_release_can_be_asked_for_by_name(server: PackageServer, tmp_path: Path) -> None:
    source = open_package(server, tmp_path)
    yanked = source.resolve("v0.11.0")
    assert source.releases(yanked, source.resolve("v0.12.0")) == ("v0.11.0", "v0.12.0")


def test_what_is_new_since_a_release_comes_newest_first_and_is_not_downloaded(
    server: PackageServer, tmp_path: Path
) -> None:
    server.requests.clear()
    assert open_package(server, tmp_path).since("v0.10.0", "releases") == ("v0.12.0", "v0.10.1")
    assert [path for path, _ in server.requests] == ["/simple/demo/"]


def test_a_package_has_no_commits_to_walk(server: PackageServer, tmp_path: Path) -> None:
    source = open_package(server, tmp_path)
    commit = source.resolve("v0.9")
    for ask in (lambda: source.history(commit, commit), lambda: source.since("v0.9", "commits")):
        with pytest.raises(RequestError, match="a package has releases, and no commits") as caught:
            ask()
        assert "--axis releases" in caught.value.hint


def test_the_origin_has_the_digest_of_the_sdist(server: PackageServer, tmp_path: Path) -> None:
    source = open_package(server, tmp_path)
    origin = source.origin(source.resolve("v0.9"))
    assert (origin.kind, origin.location, origin.sha256) == ("package", "demo", server.files["demo-0.9.tar.gz"].sha256)


def test_which_commits_a_release_contains_cannot_be_told(server: PackageServer, tmp_path: Path) -> None:
    source = open_package(server, tmp_path)
    commit = source.resolve("v0.9")
    facts = source.facts(commit, FactSettings())
    assert (facts.contains("1" * 40), facts.contains(commit.id), facts.version("demo")) == (None, True, "0.9")
