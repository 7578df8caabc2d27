"""A git upstream: its tags, its branches and its history are the two axes of every search."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.source.git_source import GitSource, version_of
from patchkit.source.source import FactSettings, Source
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from tests.support.repositories import START, GitRepository


@pytest.fixture
def upstream(tmp_path: Path) -> GitRepository:
    """main: a - v1.0 - b - M - c; a branch merged at M, and a release branch with v1.1rc1 and v1.1.0 that is not."""
    repository = GitRepository(tmp_path / "upstream.git")
    repository.commit({"demo/a.py": "a = 1\n"}, "start")
    repository.tag("v1.0")
    repository.branch("topic")
    repository.branch("release")
    repository.commit({"demo/t.py": ""}, "topic", branch="topic")
    repository.commit({"demo/a.py": "a = 2\n"}, "b")
    repository.merge("topic")
    repository.commit({"fix": ""}, "pick", branch="release")
    repository.tag("v1.1rc1", "release")
    repository.commit({"fix": "more"}, "pick again", branch="release")
    repository.tag("v1.1.0", "release")
    repository.commit({"demo/c.py": "class C:\n    def f(self): ...\n"}, "c")
    return repository


def open_git(upstream: GitRepository, root: Path, offline: bool = False) -> GitSource:
    return GitSource(Toolkit(Cache(root / "store"), offline=offline), "demo", upstream.url)


def test_a_git_source_is_a_source(tmp_path: Path, upstream: GitRepository) -> None:
    source: Source = open_git(upstream, tmp_path)
    assert (source.kind, source.upstream) == ("git", "demo")


def test_a_commit_tells_where_it_stands(tmp_path: Path, upstream: GitRepository) -> None:
    commit = open_git(upstream, tmp_path).resolve("v1.0")
    assert (commit.id, commit.tree) == (upstream.find("v1.0"), upstream.tree_of(upstream.find("v1.0")))
    assert (commit.ref, commit.subject, commit.time, commit.version) == ("v1.0", "start", START, "1.0")


def test_refs_of_every_kind_name_their_commit(tmp_path: Path, upstream: GitRepository) -> None:
    upstream.ref("refs/pull/5/head", "topic")
    source = open_git(upstream, tmp_path)
    for ref in ("main", "release", "v1.1rc1", "main~1", upstream.head()[:10], upstream.head("topic"), "topic"):
        assert source.resolve(ref).id == upstream.find(ref)
    assert source.resolve("pull/5").id == upstream.head("topic")
    assert source.resolve("latest").id == upstream.find("v1.1.0")


def test_an_unknown_ref_is_refused_with_the_nearest_names(tmp_path: Path, upstream: GitRepository) -> None:
    source = open_git(upstream, tmp_path)
    with pytest.raises(RequestError, match=r"demo: no commit or release named v1\.1\.1 in .*upstream\.git") as caught:
        source.resolve("v1.1.1")
    assert "v1.1.0" in caught.value.hint
    with pytest.raises(RequestError, match="no commit or release named --all") as caught:
        source.resolve("--all")
    for ref, shown in (("", "''"), ("a b", "'a b'"), ("x" * 5000, "x" * 77 + r"\.\.\.")):
        with pytest.raises(RequestError, match=f"no commit or release named {shown} in"):
            source.resolve(ref)


def test_history_is_what_rev_list_says_even_from_a_release_branch(tmp_path: Path, upstream: GitRepository) -> None:
    source = open_git(upstream, tmp_path)
    good, bad = source.resolve("v1.1.0"), source.resolve("main")
    command = ["git", "-C", upstream.path, "rev-list", "--parents", "v1.1.0..main"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert source.history(good, bad) == {line.split()[0]: tuple(line.split()[1:]) for line in lines}
    with pytest.raises(RequestError, match=r"v1\.0 holds no commit that main lacks"):
        source.history(bad, source.resolve("v1.0"))


def test_releases_go_by_version_and_not_by_history(tmp_path: Path, upstream: GitRepository) -> None:
    upstream.tag("v2.0.0")
    upstream.tag("nightly")
    upstream.tag("v2-wheels")
    source = open_git(upstream, tmp_path)
    assert source.releases(source.resolve("v1.0"), source.resolve("v2.0.0")) == ("v1.0", "v1.1.0", "v2.0.0")
    assert source.releases(source.resolve("v1.0"), source.resolve("v1.1rc1")) == ("v1.0", "v1.1rc1")
    with pytest.raises(RequestError, match="topic is no release"):
        source.releases(source.resolve("topic"), source.resolve("v2.0.0"))
    with pytest.raises(RequestError, match=r"v2\.0\.0 is newer than v1\.0"):
        source.releases(source.resolve("v2.0.0"), source.resolve("v1.0"))


def test_what_is_new_comes_newest_first_along_the_default_branch(tmp_path: Path, upstream: GitRepository) -> None:
    source = open_git(upstream, tmp_path)
    first_parents = subprocess.run(
        ["git", "-C", upstream.path, "rev-list", "--first-parent", "v1.0..main"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert list(source.since("v1.0", "commits")) == first_parents
    assert list(source.since("v1.1.0", "commits")) == first_parents
    assert source.since("main", "commits") == ()
    assert source.since("v1.0", "releases") == ("v1.1.0",)
    later = upstream.commit({"d": ""})
    assert open_git(upstream, tmp_path).since("main~1", "commits") == (later,)


def test_versions_are_those_of_setuptools_scm(tmp_path: Path, upstream: GitRepository) -> None:
    versions = {ref: version_of(upstream.objects, upstream.find(ref)) for ref in ("v1.0", "topic", "main", "release~1")}
    assert versions == {"v1.0": "1.0", "topic": "1.1.dev1", "main": "1.1.dev4", "release~1": "1.1rc1"}
    upstream.commit({"fix": "3"}, branch="release")
    assert version_of(upstream.objects, upstream.head("release")) == "1.1.1.dev1"
    upstream.tag("v1.2rc1")
    upstream.tag("v1.2")
    assert version_of(upstream.objects, upstream.head()) == "1.2"
    plain = GitRepository(tmp_path / "plain")
    assert version_of(plain.objects, plain.commit({"a": ""})) is None


@pytest.mark.parametrize(
    ("tag", "version"),
    [
        ("v0.27.0rc1", "0.27.0rc2.dev1"),
        ("v0.7.3.post1", "0.7.3.post2.dev1"),
        ("v1.0.dev0", "1.0.dev1"),
        ("vnext", None),
    ],
)
def test_the_next_version_raises_the_last_number(tmp_path: Path, tag: str, version: str | None) -> None:
    repository = GitRepository(tmp_path / "upstream")
    repository.commit({"a": ""})
    repository.tag(tag)
    assert version_of(repository.objects, repository.commit({"b": ""})) == version


def test_facts_know_what_a_commit_contains(tmp_path: Path, upstream: GitRepository) -> None:
    source = open_git(upstream, tmp_path)
    settings = FactSettings(arch="sm_121", torch="2.11.0", pins={"deepgemm": "2.5"})
    facts = source.facts(source.resolve("main"), settings)
    contained = [facts.contains(upstream.find(ref)) for ref in ("v1.0", "topic", "release", "main")]
    assert contained == [True, True, False, True]
    assert facts.contains("1" * 40) is None
    assert [facts.version(name) for name in ("demo", "torch", "python", "other")] == ["1.1.dev4", "2.11.0", None, None]
    assert (facts.arch(), facts.pin("deepgemm"), facts.pin("flashinfer")) == ("sm_121", "2.5", None)
    assert facts.has("demo/c.py", "C.f")


def test_the_origin_shows_no_credentials(tmp_path: Path, upstream: GitRepository) -> None:
    source = open_git(upstream, tmp_path)
    origin = source.origin(source.resolve("main"))
    assert (origin.kind, origin.location, origin.sha256) == ("git", upstream.url, None)


def test_with_the_network_gone_the_store_still_answers(tmp_path: Path, upstream: GitRepository) -> None:
    commit = open_git(upstream, tmp_path).resolve("main")
    upstream.path.rename(tmp_path / "away")
    for offline in (True, False):
        source = open_git(upstream, tmp_path, offline)
        assert source.resolve("main") == commit
        assert len(source.since("v1.0", "commits")) == 3
        with pytest.raises(RemoteUnavailable):
            source.resolve("v9.9")
