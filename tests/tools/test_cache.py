"""The store must never hold half an entry, and two processes must not build the same one twice."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from patchkit.errors import StoreFailure
from patchkit.tools.cache import (
    Cache,
    digest_of,
    ensure_folder,
    measure_store,
    prune_store,
    remove_path,
    storage_errors,
    write_atomically,
)


def test_an_entry_is_built_once_by_many_threads(tmp_path: Path) -> None:
    cache, built = Cache(tmp_path), []

    def build(folder: Path) -> None:
        built.append(folder)
        time.sleep(0.05)
        (folder / "whole").touch()

    threads = [threading.Thread(target=lambda: cache.make("kind", "key", build)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert (cache.folder("kind", "key") / "whole").exists()


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "half").touch()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Cache(tmp_path).make("kind", "key", build)
    assert not (tmp_path / "kind").exists()
    assert list((tmp_path / "partial").iterdir()) == []


def test_equal_values_have_equal_digests_whatever_their_order() -> None:
    assert digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": "1"})


def test_a_file_that_cannot_be_written_is_told_and_the_old_one_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreFailure, match="folder"):
        write_atomically(tmp_path / "folder", b"data")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_lock_that_another_holds_times_out(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    with cache.lock("name"), pytest.raises(TimeoutError), cache.lock("name", timeout_seconds=0.05):
        pass


def test_a_record_that_does_not_parse_counts_as_absent(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.write_record("verdicts", "key", {"answer": "good"})
    assert cache.read_record("verdicts", "key") == {"answer": "good"}
    (tmp_path / "verdicts" / "key.json").write_text("{")
    assert cache.read_record("verdicts", "key") is None


def test_prune_removes_what_is_old_and_keeps_what_is_held(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for key in ("old", "held", "new"):
        cache.make("kind", key, lambda folder: (folder / "file").write_text("x" * 5000) and None)
    for key in ("old", "held"):
        os.utime(cache.folder("kind", key), (0, 0))
    with cache.lock("kind-held"):
        freed = prune_store(cache, ["kind"], 30, time.time())
    assert freed[0].size_bytes >= 5000
    assert sorted(path.name for path in (tmp_path / "kind").iterdir()) == ["held", "new"]
    assert measure_store(cache)[0].kind == "kind"


def test_entries_from_the_future_are_new_and_go_when_all_go(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.write_record("kind", "one", {})
    now = time.time() - 90 * 86_400  # the clock was set back by a quarter
    assert prune_store(cache, ["kind"], 30, now)[0].entries == 0
    assert prune_store(cache, ["kind"], 0, now)[0].entries == 1


def test_not_all_is_removed_while_others_use_the_store(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.write_record("kind", "one", {})
    with cache.in_use():
        with pytest.raises(TimeoutError):
            prune_store(cache, ["kind"], 0, time.time() + 1)
        with cache.in_use():
            assert prune_store(cache, ["kind"], 1, time.time())[0].entries == 0
    assert prune_store(cache, ["kind"], 0, time.time() + 1)[0].entries == 1


def test_who_comes_while_the_store_is_pruned_waits(tmp_path: Path) -> None:
    cache, came = Cache(tmp_path), []

    def come() -> None:
        with cache.in_use():
            came.append(True)

    with cache.in_use(alone=True):
        thread = threading.Thread(target=come)
        thread.start()
        thread.join(0.2)
        assert not came
    thread.join()
    assert came


def test_a_store_that_cannot_be_written_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with Cache(tmp_path / "file" / "store").in_use():
        pass


def test_what_is_used_is_not_old(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for _ in range(2):
        folder = cache.make("kind", "key", lambda folder: (folder / "whole").touch())
        os.utime(folder, (0, 0))
    cache.make("kind", "key", lambda folder: None)
    assert prune_store(cache, ["kind"], 30, time.time())[0].entries == 0


def test_what_a_killed_process_left_half_made_is_swept_by_whoever_makes_something_later(tmp_path: Path) -> None:
    script = """
import os, sys, pathlib
from patchkit.tools.cache import Cache
def build(folder):
    (folder / "half").write_text("x" * 5000)
    os.kill(os.getpid(), 9)
Cache(pathlib.Path(sys.argv[1])).make("kind", sys.argv[2], build)
"""
    for key in ("yesterday", "now"):
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path), key], check=False)
        assert done.returncode == -9
    first, second = (tmp_path / "partial").iterdir()
    os.utime(first, (time.time() - 86_401,) * 2)
    Cache(tmp_path).make("kind", "yesterday", lambda folder: (folder / "whole").touch())
    assert list((tmp_path / "partial").iterdir()) == [second]
    assert (second / "half").exists()
    assert [path.name for path in (tmp_path / "kind" / "yesterday").iterdir()] == ["whole"]


def test_a_folder_that_became_a_link_is_made_anew_and_what_it_pointed_to_is_kept(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("mine")
    place = tmp_path / "place"
    for spoil in (
        lambda: place.symlink_to(elsewhere),
        lambda: place.write_text(""),
        lambda: place.symlink_to("nowhere"),
    ):
        spoil()
        ensure_folder(place)
        assert not place.is_symlink()
        assert list(place.iterdir()) == []
        place.rmdir()
    assert (elsewhere / "kept").read_text() == "mine"


def test_locked_folders_are_removed_and_links_are_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    place = tmp_path / "place"
    (place / "a/b").mkdir(parents=True)
    (place / "a/b/file").write_text("")
    (place / "a/link").symlink_to(kept)
    for folder in ("a/b", "a", "."):
        (place / folder).chmod(0)
    remove_path(place)
    assert not place.exists()
    assert kept.stat().st_mode & 0o700 == 0o700
    remove_path(place)  # what is not there is no error


def test_two_that_prune_at_once_do_not_trip_over_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    cache.write_record("kind", "one", {})
    real = Path.glob

    def gone_meanwhile(self: Path, pattern: str) -> list[Path]:
        found = list(real(self, pattern))
        for path in found:
            path.unlink()
        return found

    monkeypatch.setattr(Path, "glob", gone_meanwhile)
    assert prune_store(cache, ["kind"], 0, 1e12)[0].entries == 0


@pytest.mark.parametrize("place", ["file/a.txt", "folder"], ids=["below a file", "a folder"])
def test_a_wrong_place_is_named_as_it_was_given_and_not_told_as_a_full_disk(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreFailure) as caught:
        write_atomically(tmp_path / place, b"x")
    assert caught.value.message.startswith(str(tmp_path / place.split("/", maxsplit=1)[0]))
    assert "free space" not in caught.value.hint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_full_disk_is_told_as_one(tmp_path: Path) -> None:
    with pytest.raises(StoreFailure, match="No space left") as caught, storage_errors(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert "free space" in caught.value.hint


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, b"all of it")
    reader.join()
    assert got == [b"all of it"]
    assert pipe.is_fifo()
    with pytest.raises(StoreFailure):
        write_atomically(tmp_path, b"")


def test_a_store_whose_path_is_no_text_is_refused() -> None:
    with pytest.raises(StoreFailure, match="is no UTF-8"):
        Cache(Path(os.fsdecode(b"/tmp/b\xff")))
    assert Cache(Path("/tmp/ünï code"))
