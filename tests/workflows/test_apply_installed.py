"""`apply --to-site-packages` and `--to-wheel`: whole or not at all, told file by file, and taken back exactly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from patchkit.errors import RequestError, StoreFailure
from patchkit.source.installed.record import agrees, parse_record
from patchkit.stack.outcome import Outcome
from tests.support.disks import small_disk
from tests.support.installs import CACHES, CREATE, DELETE, EDIT, NATIVE, TEST, Bench
from tests.support.wheels import install, make_wheel, snapshot


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_files_are_edited_made_and_removed_and_record_agrees_with_them(bench: Bench) -> None:
    assert bench.states(bench.apply()) == ["applied"]
    assert (bench.site / "vllm/x.py").read_text() == "one = 1\ntwo = 22\nthree = 3\n"
    assert (bench.site / "vllm/new/deep/z.py").read_text() == "z = 1\n"
    assert not (bench.site / "vllm/sub/y.py").exists()
    rows = {row.path: row for row in parse_record((bench.site / "vllm-0.26.0.dist-info/RECORD").read_bytes(), "")}
    there = {path for path, (_, mode, _) in snapshot(bench.site).items() if not mode & 0o40000}
    assert there <= set(rows)
    assert set(rows) - there == {*CACHES, "../../../bin/vllm"}
    assert all(agrees(rows[path], (bench.site / path).read_bytes()) for path in there)


def test_stale_byte_code_goes_and_other_modules_keep_theirs(bench: Bench) -> None:
    bench.write(EDIT)
    bench.apply()
    assert [(bench.site / path).exists() for path in CACHES] == [False, True]


def test_a_second_apply_says_so_and_changes_no_byte(bench: Bench) -> None:
    bench.apply()
    before = snapshot(bench.site)
    assert bench.states(bench.apply()) == ["already-applied"]
    assert snapshot(bench.site) == before


def test_revert_restores_bytes_modes_times_and_byte_code(bench: Bench) -> None:
    (bench.site / "vllm/x.py").chmod(0o640)
    before = snapshot(bench.site)
    bench.apply()
    for name in ("vllm/__pycache__/x.cpython-312.pyc", "vllm/new/deep/__pycache__/z.cpython-312.pyc"):
        (bench.site / name).parent.mkdir(exist_ok=True)
        (bench.site / name).write_bytes(b"byte code of the patched file")
    assert bench.states(bench.apply(revert=True)) == ["reverted"]
    assert snapshot(bench.site) == before


def test_a_second_revert_is_told_to_do_nothing(bench: Bench) -> None:
    before = snapshot(bench.site)
    assert bench.states(bench.apply(revert=True)) == ["nothing-to-revert"]
    bench.apply()
    bench.apply(revert=True)
    assert bench.states(bench.apply(revert=True)) == ["nothing-to-revert"]
    assert snapshot(bench.site) == before


def test_another_series_replaces_the_first_and_revert_still_goes_back_to_the_beginning(bench: Bench) -> None:
    before = snapshot(bench.site)
    bench.apply()
    bench.write(EDIT.replace("22", "23"))
    assert bench.states(bench.apply()) == ["applied"]
    assert (bench.site / "vllm/x.py").read_text() == "one = 1\ntwo = 23\nthree = 3\n"
    assert (bench.site / "vllm/sub/y.py").exists()
    assert not (bench.site / "vllm/new").exists()
    bench.write(DELETE)
    bench.apply()
    assert (bench.site / "vllm/x.py").read_text() == "one = 1\ntwo = 2\nthree = 3\n"
    assert bench.states(bench.apply(revert=True)) == ["reverted"]
    assert snapshot(bench.site) == before


@pytest.mark.parametrize("revert", [True, False])
@pytest.mark.parametrize("path", ["vllm/x.py", "vllm/new/deep/z.py", "vllm-0.26.0.dist-info/RECORD"])
def test_a_file_that_was_changed_since_is_left_alone(bench: Bench, path: str, revert: bool) -> None:
    bench.apply()
    file = bench.site / path
    file.write_bytes(file.read_bytes() + b"mine,,\r\n")
    before = snapshot(bench.site)
    with pytest.raises(RequestError, match=r"not the files of|changed since|mine"):
        bench.apply(revert=revert)
    assert snapshot(bench.site) == before


def test_a_file_that_the_package_does_not_carry_is_told_and_the_rest_is_applied(bench: Bench) -> None:
    bench.write(EDIT + TEST)
    (one,) = bench.apply().distributions
    assert [(left.patch, left.file, left.outcome) for left in one.left_out] == [
        ("x.patch", "tests/test_x.py", "not-in-package")
    ]
    assert one.result is not None
    assert one.result.records[0].detail == "1 hunk in 1 file; not in the package: tests/test_x.py"
    assert one.files == ("vllm/x.py",)


def test_a_patch_of_tests_alone_changes_nothing_and_says_why(bench: Bench) -> None:
    bench.write(TEST)
    before = snapshot(bench.site)
    (one,) = bench.apply().distributions
    assert one.state.value == "nothing-to-change"
    assert one.result is not None
    record = one.result.records[0]
    assert (record.outcome, record.detail) == (Outcome.NOT_APPLICABLE, "not in the package: tests/test_x.py")
    assert snapshot(bench.site) == before


def test_a_patch_with_native_files_is_not_applied_by_half(bench: Bench) -> None:
    bench.write(EDIT + NATIVE)
    before = snapshot(bench.site)
    report = bench.apply()
    (one,) = report.distributions
    assert (report.stands, one.state.value) == (False, "does-not-stand")
    assert one.result is not None
    assert one.result.records[0].outcome is Outcome.REVIEW
    assert one.result.records[0].detail.startswith("needs a native build: csrc/k.cu")
    assert snapshot(bench.site) == before
    bench.write(EDIT + NATIVE, series='{file: x.patch, exclude: ["csrc/**"]}')
    assert bench.states(bench.apply()) == ["applied"]


@pytest.mark.parametrize("prefix", ["/usr/lib/python3/dist-packages/", "a/opt/venv/lib/python3.12/site-packages/"])
def test_a_diff_between_installed_files_finds_them(bench: Bench, prefix: str) -> None:
    bench.write(EDIT.replace("a/vllm", f"{prefix}vllm").replace("b/vllm", f"{prefix}vllm"))
    assert bench.states(bench.apply()) == ["applied"]


def test_a_conflict_is_told_and_nothing_is_written(bench: Bench) -> None:
    bench.write(EDIT.replace("two", "zwei"))
    before = snapshot(bench.site)
    report = bench.apply()
    assert (report.stands, bench.states(report)) == (False, ["does-not-stand"])
    assert snapshot(bench.site) == before


def test_a_dry_run_writes_nothing(bench: Bench) -> None:
    before = snapshot(bench.site)
    assert bench.states(bench.apply(dry_run=True)) == ["would-change"]
    assert snapshot(bench.site) == before
    bench.apply()
    before = snapshot(bench.site)
    assert bench.states(bench.apply(revert=True, dry_run=True)) == ["would-change"]
    assert snapshot(bench.site) == before


def test_the_installed_version_decides_the_conditions_and_the_installed_torch_too(bench: Bench) -> None:
    bench.write(EDIT, series='{file: x.patch, when: "vllm < 0.26"}')
    (one,) = bench.apply().distributions
    assert one.result is not None
    assert one.result.records[0].detail == "vllm 0.26.0 is not < 0.26"
    install(make_wheel(bench.folder, {"torch/a.py": ""}, "torch", "2.13.0+cpu"), bench.site)
    bench.write(EDIT, series='{file: x.patch, when: "vllm == 0.26.0 and torch >= 2.13"}')
    assert bench.states(bench.apply()) == ["applied"]


def test_a_file_that_a_cache_shares_is_replaced_and_not_written_into(bench: Bench) -> None:
    shared = bench.folder / "cache.py"
    shared.hardlink_to(bench.site / "vllm/x.py")
    bench.apply()
    assert shared.read_text() == "one = 1\ntwo = 2\nthree = 3\n"


@pytest.fixture
def pair(bench: Bench) -> Bench:
    """Two upstreams with a patch each."""
    install(make_wheel(bench.folder, {"torch/a.py": "a = 1\n"}, "torch", "2.13.0+cpu"), bench.site)
    folder = bench.folder / "patches/theirs"
    folder.mkdir(parents=True)
    (folder / "patch.yaml").write_text("format: 1\ntitle: t\nupstream: torch\nchange:\n  - {rewrite: r.yaml}\n")
    (folder / "r.yaml").write_text('- {file: torch/a.py, match: "a = 1", replace: "a = 2"}\n')
    upstream = "vllm: {package: vllm, ref: v0.26.0}, torch: {wheel: torch, ref: v2.13.0}"
    bench.write(EDIT, upstream, "{file: x.patch}, theirs")
    return bench


def test_all_distributions_are_patched_and_taken_back(pair: Bench) -> None:
    before = snapshot(pair.site)
    assert pair.states(pair.apply()) == ["applied", "applied"]
    assert (pair.site / "torch/a.py").read_text() == "a = 2\n"
    assert pair.states(pair.apply(revert=True)) == ["reverted", "reverted"]
    assert snapshot(pair.site) == before


def test_when_one_distribution_cannot_be_patched_none_is(pair: Bench) -> None:
    (pair.folder / "patches/theirs/r.yaml").write_text('- {file: torch/a.py, match: "b = 1", replace: "b = 2"}\n')
    before = snapshot(pair.site)
    assert pair.states(pair.apply()) == ["would-change", "does-not-stand"]
    assert snapshot(pair.site) == before


def test_when_something_cannot_be_laid_out_nothing_is_changed(pair: Bench) -> None:
    (pair.site / "torch/.a.py.patchkit").mkdir()
    before = snapshot(pair.site)
    with pytest.raises(StoreFailure):
        pair.apply()
    assert snapshot(pair.site) == before


def test_a_full_disk_leaves_everything_as_it_was(bench: Bench, tmp_path: Path) -> None:
    large = "".join(f"+# {number}\n" for number in range(30_000))
    bench.write(EDIT + f"--- /dev/null\n+++ b/vllm/large.py\n@@ -0,0 +1,30000 @@\n{large}")
    with small_disk(tmp_path / "disk", 128) as disk:
        bench.site = disk / "site"
        install(bench.wheel, bench.site, CACHES)
        before = snapshot(bench.site)
        with pytest.raises(StoreFailure, match="No space left"):
            bench.apply()
        assert snapshot(bench.site) == before


def test_pip_checks_and_removes_what_was_patched(bench: Bench, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(tmp_path / "venv/bin/python"), "--no-input"]
    subprocess.run([*pip, "install", "-q", "--no-index", "--no-deps", str(bench.wheel)], check=True)
    bench.site = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    assert bench.states(bench.apply()) == ["applied"]
    assert (bench.site / "vllm/new/deep/z.py").exists()
    subprocess.run([*pip, "check"], check=True, capture_output=True)
    subprocess.run([*pip, "uninstall", "-q", "-y", "vllm"], check=True)
    assert [path.name for path in bench.site.glob("*vllm*")] == []


def test_what_is_not_installed_is_told(pair: Bench, tmp_path: Path) -> None:
    for path in pair.site.glob("torch*.dist-info/*"):
        path.unlink()
    next(pair.site.glob("torch*.dist-info")).rmdir()
    with pytest.raises(RequestError, match="torch is not installed there"):
        pair.apply()
    (tmp_path / "empty").mkdir()
    pair.site = tmp_path / "empty"
    with pytest.raises(RequestError, match="vllm, torch are not installed there"):
        pair.apply()
    pair.recipe.write_text(pair.recipe.read_text().partition("series:")[0])
    with pytest.raises(RequestError, match="the series is empty"):
        pair.apply()


def test_compile_caches_are_told_and_emptied_only_when_asked(bench: Bench) -> None:
    graphs = bench.folder / "home/.cache/vllm/torch_compile_cache"
    inductor = bench.folder / "inductor"
    for folder in (graphs, inductor):
        (folder / "hash").mkdir(parents=True)
    bench.toolkit.env["TORCHINDUCTOR_CACHE_DIR"] = str(inductor)  # type: ignore[index]
    bench.toolkit.env.pop("VLLM_CACHE_ROOT", None)  # type: ignore[attr-defined]
    bench.toolkit.env.pop("XDG_CACHE_HOME", None)  # type: ignore[attr-defined]
    report = bench.apply()
    assert ({cache.path for cache in report.caches}, report.emptied) == ({graphs, inductor}, False)
    assert (graphs / "hash").exists()
    assert bench.apply(empty_caches=True).emptied
    assert list(graphs.iterdir()) == list(inductor.iterdir()) == []
    assert bench.apply().caches == ()


STRIDE = 3  # of the points at which it is killed: every one takes a process
KILLED = dedent("""
    import os, signal, sys
    from pathlib import Path
    from tests.support.installs import Bench

    folder, at, revert = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "revert"
    bench = Bench(folder)
    site, count = str(bench.site), 0

    def watch(event, arguments):
        global count
        if event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.utime", "os.chmod") or (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE
        ):
            if str(arguments[0]).startswith(site):
                count += 1
                if count == at:
                    os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    bench.apply(revert=revert)
    print("whole")
""")


def kill_at(folder: Path, number: int, revert: bool) -> bool:
    """Run an apply that is killed before its n-th change below the folder; return whether it was."""
    command = [sys.executable, "-c", KILLED, str(folder), str(number), "revert" if revert else "apply"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == -9 or done.stdout == "whole\n", done.stderr
    return done.returncode == -9


@pytest.mark.parametrize("revert", [False, True], ids=["apply", "revert"])
def test_whenever_it_is_killed_the_next_run_ends_it(tmp_path: Path, revert: bool) -> None:
    reached, number = 0, 1
    while True:
        folder = tmp_path / str(number)
        bench = Bench(folder)
        pristine = snapshot(bench.site)
        if revert:
            bench.apply()
        if not kill_at(folder, number, revert):
            break
        reached += 1
        half = bench.apply(revert=number % 2 == 0)
        assert bench.states(half)[0] in {"applied", "already-applied", "reverted", "nothing-to-revert"}
        assert bench.states(bench.apply()) in (["applied"], ["already-applied"])
        assert (bench.site / "vllm/x.py").read_text() == "one = 1\ntwo = 22\nthree = 3\n"
        bench.apply(revert=True)
        assert snapshot(bench.site) == pristine
        number += STRIDE
    assert reached >= 10


def test_the_journal_names_the_series(bench: Bench) -> None:
    bench.apply()
    journal = json.loads((bench.site / "vllm-0.26.0.dist-info/patchkit/journal.json").read_bytes())
    assert (journal["recipe"], journal["label"]) == ("r", "vllm 0.26.0")
    assert [one["patch"] for one in journal["series"]] == ["x.patch"]
    assert set(journal["after"]) == {"vllm/x.py", "vllm/new/deep/z.py", "vllm/sub/y.py"}


def test_a_wheel_gets_the_series_once(bench: Bench) -> None:
    bench.write(EDIT + CREATE)
    (one,) = bench.pack(bench.folder).distributions
    assert one.state.value == "applied"
    assert one.written is not None
    data = one.written.read_bytes()
    (again,) = bench.pack(bench.folder).distributions
    assert (again.state.value, again.written, one.written.read_bytes()) == ("already-applied", one.written, data)
    bench.wheel = one.written
    with pytest.raises(RequestError, match="was patched by patchkit already"):
        bench.pack(bench.folder)


def test_a_wheel_of_something_else_is_refused(bench: Bench) -> None:
    bench.wheel = make_wheel(bench.folder, {"torch/a.py": ""}, "torch", "2.13.0")
    with pytest.raises(RequestError, match="torch is no upstream of"):
        bench.pack(bench.folder)


def test_no_wheel_is_written_when_a_patch_does_not_stand_or_nothing_changes(bench: Bench) -> None:
    out = bench.folder / "out"
    out.mkdir()
    for diff, state in ((EDIT.replace("two", "zwei"), "does-not-stand"), (TEST, "nothing-to-change")):
        bench.write(diff)
        assert bench.states(bench.pack(out)) == [state]
    bench.write(EDIT)
    assert bench.states(bench.pack(out, dry_run=True)) == ["would-change"]
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("entry", ["{pull: 7}", "{revert: 0123abc}", "{cherry-pick: 0123abc}"])
def test_what_only_upstreams_history_holds_names_the_way_to_a_diff(bench: Bench, entry: str) -> None:
    bench.write("", series=entry)
    report = bench.apply()
    assert not report.stands
    assert report.distributions[0].result is not None
    (record,) = report.distributions[0].result.records
    assert record.outcome is Outcome.BROKEN
    assert "`patchkit export --source git` makes a diff of it" in record.detail
    assert "(--source git)" not in record.detail
