"""From a pin to a commit of the other upstream: the wrong one, or none, and the pair proves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from patchkit.errors import RemoteUnavailable
from patchkit.source.git_source import GitSource
from patchkit.source.package_source import PackageSource
from patchkit.source.pins import Pairing, Prefer
from patchkit.source.source import Source
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from tests.support.packages import PackageServer, serve_index
from tests.support.repositories import GitRepository

PIN = ".github/vllm-main-verified.commit"
RELEASE = ".github/vllm-release-tag.commit"


@pytest.fixture
def index() -> Iterator[PackageServer]:
    with serve_index() as server:
        yield server


class Two:
    """An upstream and the one that it is paired with; both grow, and their clocks go together."""

    def __init__(self, folder: Path, index: PackageServer) -> None:
        self.ascend, self.vllm = GitRepository(folder / "ascend.git"), GitRepository(folder / "vllm.git")
        self.toolkit = Toolkit(Cache(folder / "store"), env=index.env)

    def pairing(self, prefer: Prefer = "newest") -> Pairing:
        sources: list[Source] = [
            GitSource(self.toolkit, "vllm", self.vllm.url),
            PackageSource(self.toolkit, "vllm", "vllm"),
        ]
        return Pairing(GitSource(self.toolkit, "ascend", self.ascend.url), sources, prefer)


def test_a_commit_is_paired_with_what_its_files_name(tmp_path: Path, index: PackageServer) -> None:
    two = Two(tmp_path, index)
    old, new = (two.vllm.commit({"a": text}) for text in "xy")
    first, second = two.ascend.commit({PIN: old}), two.ascend.commit({PIN: new})
    pairing = two.pairing()
    for commit, expected in ((first, old), (second, new)):
        paired = pairing.find(pairing.main.resolve(commit))
        assert paired is not None
        assert (paired.commit.upstream, paired.commit.id, paired.pin.place) == ("vllm", expected, f"{PIN}:1")


def test_a_release_that_git_has_no_tag_for_comes_from_the_index(tmp_path: Path, index: PackageServer) -> None:
    two = Two(tmp_path, index)
    two.vllm.commit({"a": "x"})
    index.add("vllm", "0.12.0", {"vllm/__init__.py": ""})
    commit = two.ascend.commit({RELEASE: "v0.12.0"})
    pairing = two.pairing()
    paired = pairing.find(pairing.main.resolve(commit))
    assert paired is not None
    assert (paired.commit.version, paired.commit.ref) == ("0.12.0", "v0.12.0")


def test_a_commit_that_is_nowhere_gives_way_to_the_release_named_beside_it(
    tmp_path: Path, index: PackageServer
) -> None:
    two = Two(tmp_path, index)
    tagged = two.vllm.commit({"a": "x"})
    two.vllm.tag("v0.12.0")
    two.vllm.commit({"a": "y"})
    commit = two.ascend.commit({PIN: "f" * 40, RELEASE: "v0.12.0"})
    pairing = two.pairing()
    paired = pairing.find(pairing.main.resolve(commit))
    assert paired is not None
    assert (paired.commit.id, paired.pin.kind) == (tagged, "tag")


def test_a_branch_is_taken_as_it_was_that_day(tmp_path: Path, index: PackageServer) -> None:
    two = Two(tmp_path, index)
    commits = [two.vllm.commit({"a": str(number)}) for number in range(5)]
    for number in range(3):
        two.ascend.commit({"n": str(number)})
    named = two.ascend.commit({"Dockerfile": "ARG VLLM_TAG=main\n"})  # the fourth minute
    later = two.ascend.commit({"n": "9"})
    pairing = two.pairing()
    found = [pairing.find(pairing.main.resolve(commit)) for commit in (named, later)]
    assert [one.commit.id for one in found if one] == commits[3:5]


def test_without_a_pin_or_with_nothing_behind_it_there_is_no_pair(tmp_path: Path, index: PackageServer) -> None:
    two = Two(tmp_path, index)
    two.vllm.commit({"a": "x"})
    index.add("vllm", "0.12.0", {})
    nothing, unknown = two.ascend.commit({"a": "x"}), two.ascend.commit({PIN: "f" * 40, RELEASE: "v9.9.9"})
    pairing = two.pairing()
    assert pairing.find(pairing.main.resolve(nothing)) is None
    assert pairing.find(pairing.main.resolve(unknown)) is None


def test_an_index_that_does_not_answer_is_not_taken_for_a_release_that_is_not_there(
    tmp_path: Path, index: PackageServer
) -> None:
    two = Two(tmp_path, index)
    two.vllm.commit({"a": "x"})
    commit = two.ascend.commit({RELEASE: "v0.12.0"})
    two.toolkit = Toolkit(two.toolkit.cache, env={**index.env, "PIP_INDEX_URL": "http://127.0.0.1:9/simple/"})
    pairing = two.pairing()
    with pytest.raises(RemoteUnavailable):
        pairing.find(pairing.main.resolve(commit))


def test_pin_moves_are_the_commits_whose_pin_is_not_their_first_parents(tmp_path: Path, index: PackageServer) -> None:
    two = Two(tmp_path, index)
    vllm = [two.vllm.commit({"a": text}) for text in "xyz"]
    files = [{PIN: vllm[0]}, {"a": "1"}, {PIN: vllm[1]}, {"a": "2"}, {PIN: vllm[0]}]
    ascend = [two.ascend.commit(changed) for changed in files]
    pairing = two.pairing()
    history = pairing.main.history(pairing.main.resolve(ascend[0]), pairing.main.resolve(ascend[-1]))
    assert pairing.movers(history) == {ascend[2], ascend[4]}
