"""What GitHub is asked, with the real PyGithub; a token must not go anywhere else, nor into any message."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from patchkit.tools.web.github import PullFacts, pull_url, read_pull, split_url
from tests.support.forge import Forge, Told, serving

pytest.importorskip("github")
TOKEN = "ghp_0123456789abcdef"


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    with serving(tmp_path / "forge") as forge:
        forge.upstream.commit({"x": "1\n"})
        yield forge


def connect(forge: Forge, told: Told, tmp_path: Path, offline: bool = False, **env: str) -> Toolkit:
    return Toolkit(Cache(tmp_path / "store"), told, {**forge.env, **env}, offline)


def test_a_pull_request_is_told_with_its_state(forge: Forge, told: Told, tmp_path: Path) -> None:
    forge.pull(7, "main", title="Heal  the\nfault")
    facts = read_pull(connect(forge, told, tmp_path), forge.git, 7)
    head = forge.upstream.head()
    assert facts == PullFacts("Heal the fault", "ada", "open", "", f"{forge.url}/team/product/pull/7", head)
    forge.pull(7, "main", state="closed")
    closed = read_pull(connect(forge, told, tmp_path), forge.git, 7)
    assert closed is not None
    assert (closed.state, closed.merged_as) == ("closed", "")
    forge.pull(7, "main", state="closed", merged=True, merge_commit_sha="a" * 40, user=None)
    merged = read_pull(connect(forge, told, tmp_path), forge.git, 7)
    assert merged is not None
    assert (merged.state, merged.merged_as, merged.author) == ("merged", "a" * 40, "")
    assert told.warnings == []


def test_the_token_goes_to_the_api_of_its_server_and_is_never_logged(
    forge: Forge, told: Told, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    forge.pull(7, "main")
    toolkit = connect(forge, told, tmp_path, GITHUB_TOKEN=TOKEN)
    assert read_pull(toolkit, forge.git, 7) is not None
    asked = [path for path, authorization in forge.asked if TOKEN in authorization]
    assert asked == ["/api/v3/repos/team/product/pulls/7"]
    forge.pulls[7] = 401
    assert read_pull(toolkit, forge.git, 7) is None
    assert TOKEN not in caplog.text + str(told.warnings)
    assert "refused" in told.warnings[0][1]


@pytest.mark.parametrize(
    "url", ["/srv/product.git", "file:///srv/team/product", "https://forge.example.org/team/product"]
)
def test_another_server_is_not_asked(forge: Forge, told: Told, tmp_path: Path, url: str) -> None:
    assert read_pull(connect(forge, told, tmp_path, GITHUB_TOKEN=TOKEN), url, 7) is None
    assert (forge.asked, told.warnings) == ([], [])


@pytest.mark.parametrize(("status", "words"), [(404, "is the number right"), (403, "limit"), (500, "")])
def test_a_refusal_is_told_and_no_error(forge: Forge, told: Told, tmp_path: Path, status: int, words: str) -> None:
    forge.pulls[7] = status
    assert read_pull(connect(forge, told, tmp_path), forge.git, 7) is None
    ((message, hint),) = told.warnings
    assert f"GitHub answers {status}: title and state are taken from git alone" in message
    assert words in hint


def test_a_server_that_does_not_answer_is_told(forge: Forge, told: Told, tmp_path: Path) -> None:
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        port = dead.getsockname()[1]
        toolkit = connect(forge, told, tmp_path, GITHUB_API_URL=f"http://127.0.0.1:{port}")
        assert read_pull(toolkit, forge.git, 7) is None
    assert "does not answer" in told.warnings[0][0]


def test_offline_and_without_pygithub_nothing_is_asked(
    forge: Forge, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = forge.git
    assert read_pull(connect(forge, told, tmp_path, offline=True), url, 7) is None
    monkeypatch.setitem(sys.modules, "github", None)
    assert read_pull(connect(forge, told, tmp_path), url, 7) is None
    assert forge.asked == []
    assert "vllm-patchkit[github]" in told.warnings[1][1]


@pytest.mark.parametrize(
    ("url", "server", "name"),
    [
        ("https://github.com/vllm-project/vllm.git", "https://github.com", "vllm-project/vllm"),
        ("https://user:secret@github.com/vllm-project/vllm", "https://github.com", "vllm-project/vllm"),
        ("git@github.com:vllm-project/vllm.git", "https://github.com", "vllm-project/vllm"),
        ("ssh://git@github.com/vllm-project/vllm.git", "https://github.com", "vllm-project/vllm"),
        ("http://127.0.0.1:8000/team/product/", "http://127.0.0.1:8000", "team/product"),
    ],
)
def test_server_and_name_are_read_from_any_url_of_git(url: str, server: str, name: str) -> None:
    assert split_url(url) == (server, name)
    assert pull_url(url, 7) == f"{server}/{name}/pull/7"


@pytest.mark.parametrize(
    "url", ["/srv/git/vllm", "../vllm", "https://github.com/vllm", "C:/work/vllm/x", "file:///a/b"]
)
def test_what_names_no_server_has_no_page(url: str) -> None:
    assert pull_url(url, 7) == ""
