"""A kept folder holds exactly the tree that was asked for, whatever happened before: other trees, probes, kill -9.

The lie this prevents: a verdict from a folder in which some files are of another tree.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchkit.environment import pool
from patchkit.environment.pool import Slot, hold_slot
from patchkit.errors import BuildFailed
from patchkit.tools.cache import Cache
from patchkit.tools.git.objects import Entry, Repository
from tests.environment.test_folder import content_of
from tests.support.repositories import GitRepository

OLD = {"pkg/a.py": "x = 1\n", "pkg/same.py": "same\n", "gone/b.py": "b\n"}
NEW = {"pkg/a.py": "x = 2\n", "pkg/same.py": "same\n", "fresh/c.py": "c\n"}


class Upstream:
    """Two trees in one repository."""

    def __init__(self, path: Path) -> None:
        self.git = GitRepository(path)
        self.objects = self.git.objects
        self.old = self.git.tree_of(self.git.commit(OLD))
        self.new = self.git.tree_of(self.git.commit({**NEW, "gone/b.py": None}))


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "upstream")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "store")


def test_switching_writes_only_what_differs(upstream: Upstream, cache: Cache) -> None:
    with hold_slot(cache, upstream.objects, upstream.old) as slot:
        root, before = slot.root, (slot.root / "pkg/same.py").stat()
        assert content_of(root) == OLD
    with hold_slot(cache, upstream.objects, upstream.new) as slot:
        assert slot.root == root
        assert content_of(root) == NEW
        after = (root / "pkg/same.py").stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def spoil(root: Path) -> None:
    """Do to a tree all that a repro might do."""
    stamp = (root / "pkg/a.py").stat()
    (root / "pkg/a.py").write_text("x = 9\n")  # the same size …
    os.utime(root / "pkg/a.py", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # … and the same mtime
    (root / "pkg/same.py").unlink()
    (root / "pkg/stray.py").write_text("")
    (root / "empty").mkdir()
    (root / "pkg/__pycache__").mkdir()
    (root / "pkg/__pycache__/a.cpython-311.pyc").write_bytes(b"")


def test_what_a_probe_did_to_the_tree_does_not_reach_the_next(upstream: Upstream, cache: Cache) -> None:
    with hold_slot(cache, upstream.objects, upstream.old) as slot:
        spoil(slot.root)
        assert slot.restore()
        assert content_of(slot.root) == OLD
        assert not slot.restore()
        spoil(slot.root)
    with hold_slot(cache, upstream.objects, upstream.old) as slot:
        assert content_of(slot.root) == OLD
        spoil(slot.root)
    with hold_slot(cache, upstream.objects, upstream.new) as slot:
        assert content_of(slot.root) == NEW


def test_a_folder_that_a_probe_turned_into_a_link_is_not_followed(
    upstream: Upstream, cache: Cache, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("mine")
    with hold_slot(cache, upstream.objects, upstream.old) as slot:
        for path in (slot.root / "pkg").iterdir():
            path.unlink()
        (slot.root / "pkg").rmdir()
        (slot.root / "pkg").symlink_to(outside)
    with hold_slot(cache, upstream.objects, upstream.new) as slot:
        assert content_of(slot.root) == NEW
    assert content_of(outside) == {"a.py": "mine"}


def test_links_and_submodules_survive_switching(upstream: Upstream, cache: Cache) -> None:
    git = upstream.git
    special = {"link": git.symlink("pkg/a.py"), "sub/module": Entry(0o160000, "1" * 40)}
    both = git.tree_of(git.commit(special))
    without = git.tree_of(git.commit({"link": None, "sub/module": None}))
    for tree, expected in ((both, {"link": "-> pkg/a.py", "sub/module": "/"}), (without, {})) * 2:
        with hold_slot(cache, upstream.objects, tree) as slot:
            assert content_of(slot.root) == {**NEW, **expected}
            assert not slot.restore()


def test_a_tree_that_cannot_be_written_leaves_the_slot_as_it_was(upstream: Upstream, cache: Cache) -> None:
    bad = upstream.git.tree_of(upstream.git.commit({"link": upstream.git.symlink("../../outside")}))
    with hold_slot(cache, upstream.objects, upstream.old) as slot:
        root = slot.root
    with pytest.raises(BuildFailed, match="leaves the tree"), hold_slot(cache, upstream.objects, bad):
        pass
    assert content_of(root) == OLD


def test_a_slot_left_by_a_killed_switch_is_compared_file_by_file(upstream: Upstream, cache: Cache) -> None:
    with hold_slot(cache, upstream.objects, upstream.old) as slot:
        root = slot.root
    script = f"""
        import os, signal
        from pathlib import Path
        from patchkit.environment import folder, pool
        from patchkit.tools.cache import Cache
        from patchkit.tools.git.objects import Repository

        written = folder._write_entry
        def write_then_die(*arguments):
            written(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)
        folder._write_entry = write_then_die
        with pool.hold_slot(Cache(Path({str(cache.root)!r})), Repository(Path({str(upstream.objects.path)!r})),
                            {upstream.new!r}):
            pass
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert content_of(root) not in (OLD, NEW)  # the mixture that nobody may ever see
    with hold_slot(cache, upstream.objects, upstream.old) as slot:
        assert slot.root == root
        assert content_of(root) == OLD


def test_a_note_from_before_a_restart_is_not_believed(upstream: Upstream, cache: Cache) -> None:
    with hold_slot(cache, upstream.objects, upstream.old) as slot:
        note, victim = slot.path / "state", slot.root / "pkg/a.py"
    head, _, body = note.read_text().partition("\n")
    victim.write_text("\0" * 6)  # what a power cut leaves: the size is right
    stamps = json.loads(body)
    info = victim.stat()
    stamps["stamps"]["pkg/a.py"] = [info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]
    note.write_text(json.dumps({**json.loads(head), "boot": "earlier"}) + "\n" + json.dumps(stamps))
    with hold_slot(cache, upstream.objects, upstream.old) as slot:
        assert content_of(slot.root) == OLD


def test_the_slot_that_has_the_tree_is_preferred_then_the_nearest(upstream: Upstream, cache: Cache) -> None:
    near = upstream.git.tree_of(upstream.git.commit({"pkg/a.py": "x = 3\n"}))
    with (
        hold_slot(cache, upstream.objects, upstream.old) as first,
        hold_slot(cache, upstream.objects, upstream.new) as second,
    ):
        assert first.root != second.root
    with hold_slot(cache, upstream.objects, upstream.new) as slot:
        assert slot.root == second.root
    with hold_slot(cache, upstream.objects, near) as slot:
        assert slot.root == second.root
    with hold_slot(cache, upstream.objects, upstream.old) as slot:
        assert slot.root == first.root


def test_two_repositories_of_one_name_do_not_share_a_slot(tmp_path: Path, cache: Cache) -> None:
    one, two = Upstream(tmp_path / "a/upstream.git"), Upstream(tmp_path / "b/upstream.git")
    with hold_slot(cache, one.objects, one.old) as slot:
        first = slot.root
    with hold_slot(cache, two.objects, two.old) as slot:
        assert slot.root != first


def hold_and_look(root: Path, repository: Path, tree: str, content: dict[str, str], rounds: int) -> None:
    for _ in range(rounds):
        with hold_slot(Cache(root), Repository(repository), tree) as slot:
            assert content_of(slot.root) == content


def test_processes_and_threads_on_one_pool_see_their_own_tree(upstream: Upstream, cache: Cache) -> None:
    wishes = [(upstream.old, OLD), (upstream.new, NEW)]
    spawn = multiprocessing.get_context("spawn")
    processes = [
        spawn.Process(target=hold_and_look, args=(cache.root, upstream.objects.path, tree, content, 25))
        for tree, content in wishes
    ]
    for process in processes:
        process.start()
    failures: list[BaseException] = []

    def work(tree: str, content: dict[str, str]) -> None:
        try:
            hold_and_look(cache.root, upstream.objects.path, tree, content, 25)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=wish) for wish in wishes]
    for thread in threads:
        thread.start()
    for worker in (*threads, *processes):
        worker.join()
    assert failures == []
    assert [process.exitcode for process in processes] == [0, 0]
    assert len(list((cache.root / "worktrees").iterdir())) <= 4


@pytest.fixture
def held(upstream: Upstream, cache: Cache) -> Iterator[Slot]:
    with hold_slot(cache, upstream.objects, upstream.old) as slot:
        yield slot


def test_a_folder_without_permission_is_opened_up_again(held: Slot) -> None:
    (held.root / "pkg/a.py").chmod(0)
    (held.root / "pkg").chmod(0)
    assert held.restore()
    assert content_of(held.root) == OLD


@pytest.mark.parametrize("left", ["nothing", "a link", "a file", "a locked folder"])
def test_a_tree_that_a_probe_took_away_is_written_anew_and_nothing_else_is_touched(
    left: str, upstream: Upstream, cache: Cache, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.py").write_text("mine")
    with hold_slot(cache, upstream.objects, upstream.old) as slot:
        for run in ("one", "two"):  # between two runs, and before the next probe
            shutil.rmtree(slot.root)
            if left == "a link":
                slot.root.symlink_to(outside)
            elif left == "a file":
                slot.root.write_text("")
            elif left == "a locked folder":
                slot.root.mkdir(mode=0)
            if run == "one":
                assert slot.restore()
                assert content_of(slot.root) == OLD
    with hold_slot(cache, upstream.objects, upstream.new) as slot:
        assert content_of(slot.root) == NEW
    assert content_of(outside) == {"mine.py": "mine"}


def test_a_probe_that_outlived_its_patchkit_is_ended_before_its_tree_is_switched(
    upstream: Upstream, cache: Cache
) -> None:
    with contextlib.suppress(InterruptedError), hold_slot(cache, upstream.objects, upstream.old) as slot:
        place = slot.path
        raise InterruptedError  # kill -9 leaves the same behind: the note that somebody works here
    code = "import time; time.sleep(60)"
    env = {**os.environ, "PATCHKIT_SLOT": str(place)}
    other = {**os.environ, "PATCHKIT_SLOT": f"{place}0"}
    with (
        subprocess.Popen([sys.executable, "-c", code], env=env, start_new_session=True) as orphan,
        subprocess.Popen([sys.executable, "-c", code], env=other) as stranger,
    ):
        with hold_slot(cache, upstream.objects, upstream.new):
            assert orphan.wait(5) == -signal.SIGKILL
        assert stranger.poll() is None
        stranger.kill()


def test_a_slot_that_was_given_back_is_looked_through_for_no_processes(
    upstream: Upstream, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(pool, "end_marked", asked.append)
    for tree in (upstream.old, upstream.new):
        with hold_slot(cache, upstream.objects, tree) as slot:
            assert (slot.path / "held").exists()
        assert not (slot.path / "held").exists()
    assert asked == []
