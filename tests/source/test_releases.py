"""A release imported by two machines, or by two processes, or after a kill, is one and the same commit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from patchkit.errors import RemoteUnavailable, StoreFailure
from patchkit.source.releases import ReleaseStore
from patchkit.tools.cache import Cache
from patchkit.tools.index import Sdist
from patchkit.tools.toolkit import Toolkit
from tests.support.disks import small_disk
from tests.support.packages import BUILT, PackageServer, make_archive, serve_index, tar_member

ROOT = Path(__file__).parents[2]
FILES = {"demo/__init__.py": "x = 1\n", "run.sh": "#!/bin/sh\n", 'odd "name"\\\n': "", "ü.txt": "ü"}
DEMO_COMMIT = "644f7b4772c6ba4d39e2161883957245d77cd7af"  # of FILES, on every machine


@pytest.fixture(scope="module")
def server() -> Iterator[PackageServer]:
    with serve_index() as server:
        server.add("demo", "1.0", FILES)
        yield server


def open_store(server: PackageServer, root: Path) -> ReleaseStore:
    return ReleaseStore(Toolkit(Cache(root), env=server.env), "demo")


def listed(store: ReleaseStore, version: str) -> Sdist:
    return next(sdist for sdist in store.index.sdists("demo") if sdist.version == version)


def take(server: PackageServer, root: Path, version: str = "1.0") -> str:
    store = open_store(server, root)
    return store.take(listed(store, version)).commit


def test_a_release_is_a_parentless_commit_with_the_date_of_its_pkg_info(server: PackageServer, tmp_path: Path) -> None:
    store = open_store(server, tmp_path)
    release = store.take(listed(store, "1.0"))
    record = store.repository.read_commit(release.commit)
    assert release.commit == DEMO_COMMIT
    assert (record.parents, record.commit_time, record.subject) == ((), BUILT, "demo 1.0")
    assert record.author == ("patchkit", "patchkit@localhost")
    assert store.repository.tags() == {"v1.0": release.commit}
    assert release.sha256 == server.files["demo-1.0.tar.gz"].sha256


def test_its_tree_holds_what_the_sdist_holds(server: PackageServer, tmp_path: Path) -> None:
    store = open_store(server, tmp_path)
    tree = store.repository.read_commit(take(server, tmp_path)).tree
    entries = dict(store.repository.walk(tree))
    assert set(entries) == {*FILES, "PKG-INFO"}
    assert {path: store.repository.read(tree, path) for path in FILES} == {
        path: text.encode() for path, text in FILES.items()
    }
    assert [path for path, entry in entries.items() if entry.mode == 0o100755] == ["run.sh"]


def test_the_sdist_is_not_kept_and_a_second_run_asks_nobody(server: PackageServer, tmp_path: Path) -> None:
    commit = take(server, tmp_path)
    asked = len(server.requests)
    again = open_store(server, tmp_path).find("1.0")
    assert again is not None
    assert (again.commit, len(server.requests)) == (commit, asked)
    assert list((tmp_path / "downloads").iterdir()) == []


def test_a_release_without_pkg_info_has_the_date_of_its_newest_file(server: PackageServer, tmp_path: Path) -> None:
    members = [tar_member("demo-3.0/a", b"", mtime=50), tar_member("demo-3.0/lib/PKG-INFO", b"", mtime=70)]
    server.add_file("demo", "demo-3.0.tar.gz", make_archive(members))
    store = open_store(server, tmp_path)
    assert store.repository.read_commit(take(server, tmp_path, "3.0")).commit_time == 70


def test_links_become_what_they_link_to(server: PackageServer, tmp_path: Path) -> None:
    members = [
        tar_member("demo-4.0/a", b"text"),
        tar_member("demo-4.0/soft", type=b"2", linkname="a"),
        tar_member("demo-4.0/hard", type=b"1", linkname="demo-4.0/a", mode=0o755),
    ]
    server.add_file("demo", "demo-4.0.tar.gz", make_archive(members))
    store = open_store(server, tmp_path)
    entries = dict(store.repository.walk(store.repository.read_commit(take(server, tmp_path, "4.0")).tree))
    assert (entries["soft"].mode, store.repository.read_blob(entries["soft"].blob)) == (0o120000, b"a")
    assert (entries["hard"].mode, entries["hard"].blob) == (0o100755, entries["a"].blob)


def test_a_hostile_archive_leaves_no_release_behind(server: PackageServer, tmp_path: Path) -> None:
    members = [tar_member(f"demo-5.0/{number}", b"x") for number in range(300)]
    server.add_file("demo", "demo-5.0.tar.gz", make_archive([*members, tar_member("demo-5.0/../../evil", b"x")]))
    with pytest.raises(RemoteUnavailable, match=r"has a part '\.\.'"):
        take(server, tmp_path, "5.0")
    store = open_store(server, tmp_path)
    assert (store.all(), store.repository.tags(), list((tmp_path / "downloads").iterdir())) == ((), {}, [])
    assert take(server, tmp_path) == DEMO_COMMIT
    assert list(store.repository.path.glob("fast_import_crash_*")) == []


def test_two_processes_that_want_one_release_download_it_once(server: PackageServer, tmp_path: Path) -> None:
    server.requests.clear()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(take_from, [server.env] * 2, [tmp_path] * 2))
    assert found == [DEMO_COMMIT] * 2
    assert len([path for path, _ in server.requests if path.startswith("/files")]) == 1


def take_from(env: dict[str, str], root: Path) -> str:
    store = ReleaseStore(Toolkit(Cache(root), env=env), "demo")
    return store.take(listed(store, "1.0")).commit


KILLED = """
import os, sys
from pathlib import Path
from patchkit.source import releases
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit

def stuck(members):
    for number, member in enumerate(members):
        yield member
        if number == 2:
            print("half", flush=True)
            sys.stdin.read()

read = releases.read_archive
releases.read_archive = lambda path: stuck(read(path))
store = releases.ReleaseStore(Toolkit(Cache(Path(sys.argv[1])), env=dict(os.environ)), "demo")
store.take(next(one for one in store.index.sdists("demo") if one.version == "1.0"))
"""


def test_an_import_that_is_killed_half_way_is_as_if_it_never_was(server: PackageServer, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, **server.env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"half\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    store = open_store(server, tmp_path)
    assert (store.find("1.0"), store.repository.tags()) == (None, {})
    assert take(server, tmp_path) == DEMO_COMMIT


def test_a_release_whose_objects_are_gone_is_taken_again(server: PackageServer, tmp_path: Path) -> None:
    take(server, tmp_path)
    repository = tmp_path / "releases" / "demo.git"
    for path in (repository / "objects").glob("*/*"):
        path.unlink()
    assert open_store(server, tmp_path).find("1.0") is None
    assert take(server, tmp_path) == DEMO_COMMIT


def test_a_full_disk_stops_the_import_and_space_cures_it(server: PackageServer, tmp_path: Path) -> None:
    large = "".join(f"{number * 7919 % 100_003}\n" for number in range(200_000))
    server.add("demo", "6.0", {f"{number}.txt": f"{number}\n{large}" for number in range(5)})
    with small_disk(tmp_path / "disk", 4000) as disk:
        with pytest.raises(StoreFailure, match=r"[Oo]ut of diskspace|No space left"):
            take(server, disk, "6.0")
        assert open_store(server, disk).all() == ()
        assert take(server, disk) == DEMO_COMMIT
