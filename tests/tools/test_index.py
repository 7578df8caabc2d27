"""A release that was half downloaded, or was another file than the index promised, must never become a commit."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from patchkit.errors import RemoteUnavailable, RequestError, StoreFailure
from patchkit.tools import index as index_module
from patchkit.tools.cache import Cache
from patchkit.tools.index import PackageIndex, Sdist, read_settings
from patchkit.tools.toolkit import Toolkit
from tests.support.packages import PackageServer, serve_index

DEMO = {"demo/__init__.py": "x = 1\n"}
LARGE = random.Random(0).randbytes(4 * index_module.PIECE_BYTES)  # a download of four pieces


@dataclass
class Heard:
    warnings: list[str] = field(default_factory=list)
    amounts: list[tuple[int, int | None]] = field(default_factory=list)

    def step(self, message: str) -> None:
        """Not of interest."""

    def advance(self, message: str, done: int, total: int | None) -> None:
        self.amounts.append((done, total))

    def warn(self, message: str, hint: str = "") -> None:
        self.warnings.append(message)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageServer]:
    monkeypatch.setattr(index_module, "PAUSES_SECONDS", (0.0, 0.0, 0.0))  # the clock is the one thing not real here
    with serve_index() as server:
        yield server


def open_index(server: PackageServer, root: Path, heard: Heard | None = None, offline: bool = False) -> PackageIndex:
    return PackageIndex(Toolkit(Cache(root / "store"), heard or Heard(), server.env, offline))


def only_sdist(index: PackageIndex) -> Sdist:
    (sdist,) = index.sdists("demo")
    return sdist


def test_releases_are_listed_by_version_with_digest_size_and_yanks(server: PackageServer, tmp_path: Path) -> None:
    for version in ("0.10.0", "0.9.0", "0.10.0rc1"):
        server.add("demo", version, DEMO)
    server.add("demo", "0.9.1", DEMO, yanked=True)
    found = open_index(server, tmp_path).sdists("Demo")
    assert [(one.version, one.yanked) for one in found] == [
        ("0.9.0", False),
        ("0.9.1", True),
        ("0.10.0rc1", False),
        ("0.10.0", False),
    ]
    data = server.files["demo-0.9.0.tar.gz"].data
    assert (found[0].size, found[0].sha256) == (len(data), hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize(
    "filename", ["demo-1.0-py3-none-any.whl", "demo-1.0.zip", "other-1.0.tar.gz", "demo-new.tar.gz", "demo.tar.gz", "x"]
)
def test_a_file_that_is_no_sdist_of_the_package_is_left_out(
    server: PackageServer, tmp_path: Path, filename: str
) -> None:
    server.add("demo", "2.0", DEMO)
    server.add_file("demo", filename, b"")
    assert [one.version for one in open_index(server, tmp_path).sdists("demo")] == ["2.0"]


def test_of_two_files_of_one_version_the_one_not_yanked_counts(server: PackageServer, tmp_path: Path) -> None:
    server.add("demo", "1.0", DEMO, yanked=True)
    server.add("demo", "1.0.0", DEMO)
    assert only_sdist(open_index(server, tmp_path)).filename == "demo-1.0.0.tar.gz"


def test_a_list_is_asked_for_once_and_serves_later_runs_offline(server: PackageServer, tmp_path: Path) -> None:
    server.add("demo", "1.0", DEMO)
    first = open_index(server, tmp_path).sdists("demo")
    assert open_index(server, tmp_path).sdists("demo") == first
    assert open_index(server, tmp_path, offline=True).sdists("demo") == first
    assert len(server.requests) == 1


def test_an_old_list_is_asked_for_again_and_used_with_a_warning_when_the_index_is_gone(
    server: PackageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "LISTING_SECONDS", 0.0)
    served = server.add("demo", "1.0", DEMO)
    first = open_index(server, tmp_path).sdists("demo")
    served.package = "gone"
    heard = Heard()
    assert open_index(server, tmp_path, heard).sdists("demo") == first
    assert heard.warnings == [f"demo: the index {server.url[7:]} has no such package: using the list of an earlier run"]


def test_an_index_that_nobody_answers_for_is_named_with_its_credentials_left_out(
    server: PackageServer, tmp_path: Path
) -> None:
    toolkit = Toolkit(Cache(tmp_path), env={"PIP_INDEX_URL": "http://me:secret@127.0.0.1:1/simple"})
    with pytest.raises(RemoteUnavailable, match=r"demo: 127\.0\.0\.1:1 does not answer: .*refused") as caught:
        PackageIndex(toolkit).sdists("demo")
    assert "secret" not in caught.value.message + caught.value.hint


def test_an_unknown_package_is_told_as_such(server: PackageServer, tmp_path: Path) -> None:
    with pytest.raises(RemoteUnavailable, match=r"nobody: the index .* has no such package"):
        open_index(server, tmp_path).sdists("nobody")


def test_a_page_that_is_no_index_is_told_as_such(server: PackageServer, tmp_path: Path) -> None:
    server.add("demo", "1.0", DEMO)
    server.files["demo"] = server.files["demo-1.0.tar.gz"]
    toolkit = Toolkit(Cache(tmp_path), env={"PIP_INDEX_URL": f"{server.url}/files/"})
    with pytest.raises(RemoteUnavailable, match="does not answer as a package index does"):
        PackageIndex(toolkit).sdists("demo")


def test_a_download_is_whole_and_tells_how_far_it_is(server: PackageServer, tmp_path: Path) -> None:
    served, heard = server.add_file("demo", "demo-1.0.tar.gz", LARGE), Heard()
    index = open_index(server, tmp_path, heard)
    index.download(only_sdist(index), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == served.data
    assert heard.amounts[-1] == (len(served.data), len(served.data))


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_drops_twice_goes_on_where_it_stopped(
    server: PackageServer, tmp_path: Path, ranges: bool
) -> None:
    served = server.add_file("demo", "demo-1.0.tar.gz", LARGE)
    served.drops, served.ranges = 2, ranges
    index = open_index(server, tmp_path)
    index.download(only_sdist(index), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == served.data
    half = len(served.data) // 2
    assert [span for path, span in server.requests if path.startswith("/files")][:2] == ["", f"bytes={half}-"]


def test_a_later_run_goes_on_where_an_interrupted_one_stopped(server: PackageServer, tmp_path: Path) -> None:
    served = server.add_file("demo", "demo-1.0.tar.gz", LARGE)
    index = open_index(server, tmp_path)
    served.drops = 99
    with pytest.raises(RemoteUnavailable, match=r"demo-1\.0\.tar\.gz"):
        index.download(only_sdist(index), tmp_path / "file")
    (partial,) = tmp_path.glob("*.partial")
    have = partial.stat().st_size
    served.drops = 0
    index.download(only_sdist(index), tmp_path / "file")
    assert server.requests[-1] == ("/files/demo-1.0.tar.gz", f"bytes={have}-")
    assert (tmp_path / "file").read_bytes() == served.data
    assert list(tmp_path.glob("*.partial")) == []


def test_a_whole_file_of_a_run_that_was_killed_is_used_and_a_wrong_one_is_not(
    server: PackageServer, tmp_path: Path
) -> None:
    served = server.add("demo", "1.0", DEMO)
    index = open_index(server, tmp_path)
    for there, asked in ((served.data, 0), (served.data[:-1] + b"?", 1)):
        (tmp_path / "file").write_bytes(there)
        index.download(only_sdist(index), tmp_path / "file")
        assert (tmp_path / "file").read_bytes() == served.data
        assert len([path for path, _ in server.requests if path.startswith("/files")]) == asked


def test_a_partial_file_longer_than_the_release_is_thrown_away(server: PackageServer, tmp_path: Path) -> None:
    served = server.add("demo", "1.0", DEMO)
    index = open_index(server, tmp_path)
    (tmp_path / f"file.{served.sha256[:16]}.partial").write_bytes(served.data + b"more")
    index.download(only_sdist(index), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == served.data


def test_a_busy_server_is_asked_again(server: PackageServer, tmp_path: Path) -> None:
    served = server.add("demo", "1.0", DEMO)
    served.busy = 2
    index = open_index(server, tmp_path)
    index.download(only_sdist(index), tmp_path / "file")
    assert len([path for path, _ in server.requests if path.startswith("/files")]) == 3


def test_wrong_bytes_are_told_with_both_digests_and_not_kept(server: PackageServer, tmp_path: Path) -> None:
    served = server.add("demo", "1.0", DEMO)
    right, served.sha256 = served.sha256, "0" * 64
    index = open_index(server, tmp_path)
    with pytest.raises(RemoteUnavailable, match=f"sha256 is {right}, should be {'0' * 64}"):
        index.download(only_sdist(index), tmp_path / "file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


def test_a_release_with_no_digest_is_refused_unless_the_lock_has_one(server: PackageServer, tmp_path: Path) -> None:
    served = server.add("demo", "1.0", DEMO)
    right, served.sha256 = served.sha256, ""
    index = open_index(server, tmp_path)
    with pytest.raises(RemoteUnavailable, match="offers no sha256"):
        index.download(only_sdist(index), tmp_path / "file")
    index.download(only_sdist(index), tmp_path / "file", right)
    assert (tmp_path / "file").read_bytes() == served.data


@pytest.mark.parametrize("status", [403, 404, 410])
def test_a_file_that_is_gone_is_told_at_once(server: PackageServer, tmp_path: Path, status: int) -> None:
    server.add("demo", "1.0", DEMO).status = status
    index = open_index(server, tmp_path)
    with pytest.raises(RemoteUnavailable, match=rf"demo-1\.0\.tar\.gz: 127\.0\.0\.1 answers {status} "):
        index.download(only_sdist(index), tmp_path / "file")
    assert len([path for path, _ in server.requests if path.startswith("/files")]) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told_as_such_and_not_as_a_bad_line(server: PackageServer, tmp_path: Path) -> None:
    served = server.add("demo", "1.0", DEMO)
    (tmp_path / f"file.{served.sha256[:16]}.partial").symlink_to("/dev/full")
    index = open_index(server, tmp_path)
    with pytest.raises(StoreFailure, match="No space left"):
        index.download(only_sdist(index), tmp_path / "file")


def test_pip_s_proxy_is_used(server: PackageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    env = {"PIP_INDEX_URL": "http://index.invalid/simple/", "PIP_PROXY": server.url, "PIP_CONFIG_FILE": os.devnull}
    with pytest.raises(RemoteUnavailable, match=r"index\.invalid has no such package"):
        PackageIndex(Toolkit(Cache(tmp_path), env=env)).sdists("demo")
    assert server.requests == [("http://index.invalid/simple/demo/", "")]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_pip_s_files_are_read_in_pip_s_order(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "xdg")}
    write(tmp_path / "xdg/pip/pip.conf", "[global]\nindex-url = http://machine/simple\n")
    assert read_settings(env).endpoint == "http://machine/simple"
    write(tmp_path / ".config/pip/pip.conf", "[global]\nindex_url = http://user/simple\ncert = /user.pem\n")
    assert (read_settings(env).endpoint, read_settings(env).bundle) == ("http://user/simple", "/user.pem")
    write(tmp_path / ".pip/pip.conf", "[install]\nindex-url = http://install/simple\n")
    assert read_settings(env).endpoint == "http://install/simple"
    assert read_settings({**env, "PIP_INDEX_URL": "http://variable/simple"}).endpoint == "http://variable/simple"
    named = write(tmp_path / "named.conf", "[install]\nindex-url = http://named/simple\n")
    assert read_settings({**env, "PIP_CONFIG_FILE": str(named)}).endpoint == "http://named/simple"
    nothing = read_settings({**env, "PIP_CONFIG_FILE": os.devnull})
    assert nothing == read_settings({"PIP_CONFIG_FILE": os.devnull})


def test_uv_s_index_counts_where_pip_names_none() -> None:
    env = {"PIP_CONFIG_FILE": os.devnull, "UV_DEFAULT_INDEX": "http://uv/simple"}
    assert read_settings(env).endpoint == "http://uv/simple"


def test_a_broken_pip_file_is_named(tmp_path: Path) -> None:
    named = write(tmp_path / "pip.conf", "index-url = http://x\n")
    with pytest.raises(RequestError, match=f"{named}: pip's configuration cannot be read"):
        read_settings({"PIP_CONFIG_FILE": str(named)})


def test_credentials_of_the_index_are_split_off_and_decoded() -> None:
    settings = read_settings({"PIP_INDEX_URL": "https://me:p%40ss@host:8443/simple", "PIP_CERT": "/ca.pem"})
    assert (settings.endpoint, settings.authority) == ("https://host:8443/simple", ("me", "p@ss"))
    assert settings.bundle == "/ca.pem"
