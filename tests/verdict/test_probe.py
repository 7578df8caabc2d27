"""A repro runs alone: on its tree, with its own caches and variables, within its time.

The lies these prevent: old byte code believed on a new tree; a cache of an earlier run that makes an unpatched tree
pass; a worker of a dead probe that holds the accelerator; a token in a log that is kept.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from patchkit.environment.open import EnvironmentRequest, open_environment
from patchkit.errors import RequestError, StoreFailure
from patchkit.source.source import FactSettings
from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.verdict import Answer, Reason
from tests.verdict.workbench import LOAD, Workbench


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def test_byte_code_of_another_tree_is_never_believed(bench: Workbench) -> None:
    """Two versions of a module with the same size and the same mtime: Python itself cannot tell them apart."""
    other = bench.tree_of({"product/__init__.py": "VALUE = 2\n"})
    same_time = """
        import os, sys
        source = os.environ["PATCHKIT_TREE"] + "/product/__init__.py"
        os.utime(source, ns=(10**18, 10**18))
    """
    for tree, value in ((bench.tree, 1), (other, 2), (bench.tree, 1)):
        evidence = bench.probe(same_time + "    import product; print('value', product.VALUE)", tree)
        assert lines(evidence.runs[0].output) == [f"value {value}"]


def test_no_probe_and_no_repeat_finds_a_cache_of_an_earlier_run(bench: Workbench) -> None:
    """The real trap: inductor's graph cache, filled by one passing run, lets the failing tree pass as well."""
    script = """
        import os, pathlib, sys
        import product
        names = "TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR TORCH_EXTENSIONS_DIR VLLM_CACHE_ROOT VLLM_CONFIG_ROOT"
        names += " XDG_CACHE_HOME XDG_CONFIG_HOME CUDA_CACHE_PATH HOME TMPDIR"
        for name in names.split():
            cache = pathlib.Path(os.environ[name]) / "compiled"
            if cache.exists():
                sys.exit(f"a cache hit in {name}")
            cache.write_text("compiled")
    """
    assert bench.ask(script, repeat=2).answer is Answer.GOOD
    assert bench.ask(script).answer is Answer.GOOD


def cut_short(toolkit: Toolkit) -> list[Path]:
    """Leave of all byte code that is kept what a full disk leaves: the head and a part of the code."""
    found = [path for path in toolkit.cache.scratch("bytecode").rglob("*.pyc") if "fractions" in path.name]
    for path in found:
        path.write_bytes(path.read_bytes()[:200])
    return found


def test_byte_code_that_a_full_disk_cut_short_is_made_anew(bench: Workbench) -> None:
    script = "import product, fractions\nprint('told')"
    assert bench.ask(script).answer is Answer.GOOD
    assert cut_short(bench.toolkit)
    for _ in range(2):
        evidence = bench.probe(script)
        assert lines(evidence.runs[0].output) == ["told"]


def test_after_a_failure_of_the_store_no_byte_code_of_that_time_is_kept(bench: Workbench) -> None:
    bench.ask("import product, fractions")
    with (
        pytest.raises(StoreFailure),
        open_environment(bench.toolkit, bench.request, bench.tree, bench.upstream.objects),
    ):
        raise StoreFailure("no space", "")
    assert cut_short(bench.toolkit) == []


def test_what_a_repro_writes_into_the_tree_is_gone_in_the_next_run(bench: Workbench) -> None:
    script = """
        import os, pathlib, sys
        import product
        assert product.VALUE == 1
        tree = pathlib.Path(os.environ["PATCHKIT_TREE"])
        assert not (tree / "stray.py").exists()
        (tree / "stray.py").write_text("")
        (tree / "product/__init__.py").write_text("VALUE = 9\\n")
    """
    assert bench.ask(script, repeat=3).answer is Answer.GOOD


def test_the_tree_gets_no_byte_code(bench: Workbench) -> None:
    evidence = bench.probe("import os, product; print(os.listdir(os.environ['PATCHKIT_TREE'] + '/product'))")
    assert lines(evidence.runs[0].output) == ["['__init__.py']"]


def test_a_time_limit_ends_the_whole_group_of_processes(bench: Workbench, tmp_path: Path) -> None:
    sign = tmp_path / "grandchild"
    script = f"""
        import subprocess, sys, time
        import product
        code = "import time, pathlib; pathlib.Path({str(sign)!r}).write_text('here'); time.sleep(60)"
        subprocess.Popen([sys.executable, "-c", code])
        while not __import__("os").path.exists({str(sign)!r}):
            time.sleep(0.01)
        print("waiting", flush=True)
        time.sleep(60)
    """
    started = time.monotonic()
    mark = bench.ask(script, timeout_seconds=2)
    assert time.monotonic() - started < 10
    assert (mark.answer, mark.reason) == (Answer.SKIP, Reason.TIMEOUT)
    assert "waiting" in mark.detail
    assert sign.exists()
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(sign).encode() in _read(path)]
    assert left == []


def test_a_daemon_that_left_the_group_does_not_outlive_the_run(bench: Workbench) -> None:
    script = """
        import subprocess, sys
        import product
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
        print(child.pid)
    """
    evidence = bench.probe(script)
    command = _read(Path("/proc") / evidence.runs[0].output.strip() / "cmdline")
    assert b"time.sleep(60)" not in command


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_probe_is_told_its_facts_and_nothing_of_the_caller(bench: Workbench) -> None:
    secret = {**os.environ, "HF_TOKEN": "hf_secret", "GITHUB_TOKEN": "gh_secret", "PYTHONPATH": "/elsewhere"}
    bench.toolkit = Toolkit(bench.toolkit.cache, env=secret)
    bench.request = EnvironmentRequest(env={"OF_THE_RECIPE": "yes"})
    bench.settings = FactSettings(arch="sm_121", pins={"deep-gemm": "2.5"})
    script = "import os, product; [print(f'{name}={value}') for name, value in os.environ.items()]"
    found = dict(line.split("=", 1) for line in lines(bench.probe(script).runs[0].output))
    told = {name: value for name, value in found.items() if name.startswith("PATCHKIT_")}
    assert Path(told.pop("PATCHKIT_TREE")).name == "tree"
    assert told.pop("PATCHKIT_LOADED")
    assert Path(told.pop("PATCHKIT_SLOT")) == Path(found["PATCHKIT_TREE"]).parent
    assert told == {
        "PATCHKIT_ARCH": "sm_121",
        "PATCHKIT_COMMIT": bench.upstream.head(),
        "PATCHKIT_PIN_DEEP_GEMM": "2.5",
        "PATCHKIT_PYTHON": "",
        "PATCHKIT_TORCH": "",
        "PATCHKIT_UPSTREAM": "vllm",
        "PATCHKIT_VERSION": "1.0",
    }
    assert found["OF_THE_RECIPE"] == "yes"
    assert not {"HF_TOKEN", "GITHUB_TOKEN"} & found.keys()
    assert "/elsewhere" not in found["PYTHONPATH"]


def test_a_repro_runs_in_an_empty_folder_outside_the_tree_and_finds_its_neighbours(bench: Workbench) -> None:
    (bench.folder / "issue").mkdir()
    (bench.folder / "issue/neighbour.py").write_text("WORD = 'hello'\n")
    evidence = bench.probe("import os, neighbour; print(neighbour.WORD, os.listdir())")
    assert lines(evidence.runs[0].output) == ["hello []"]
    assert sorted(path.name for path in (bench.folder / "issue").iterdir()) == ["neighbour.py", "repro.py"]


def test_byte_code_of_installed_packages_is_kept_and_that_of_the_tree_is_not(
    bench: Workbench, toolkit: Toolkit
) -> None:
    bench.toolkit = toolkit
    bench.probe("import product, email.mime.text")
    kept = [path.name for path in (bench.toolkit.cache.root / "bytecode").rglob("*.pyc")]
    assert [name for name in kept if name.startswith("text.")]
    assert [name for name in kept if "product" in name] == []
    assert list(bench.toolkit.cache.root.glob("worktrees/*/private/*")) == []


PYTEST = """
    import product

    def test_value():
        assert {condition}, "it is broken"
"""


@pytest.mark.parametrize(
    ("script", "answer", "reason"),
    [
        (PYTEST.format(condition="product.VALUE == 1"), Answer.GOOD, Reason.PASSED),
        (PYTEST.format(condition="product.VALUE == 2"), Answer.BAD, Reason.SIGNATURE),
        ("import product\nraise RuntimeError('it is broken')", Answer.SKIP, Reason.OTHER_FAILURE),
        ("import product", Answer.SKIP, Reason.UNDECIDED),
        ("import pytest, product\npytestmark = pytest.mark.skip\ndef test_a(): pass", Answer.SKIP, Reason.UNDECIDED),
    ],
    ids=["passes", "fails", "cannot be collected", "holds no test", "skips all"],
)
def test_a_pytest_file_answers_by_pytests_exit_code(
    bench: Workbench, script: str, answer: Answer, reason: Reason
) -> None:
    mark = bench.ask(script, name="test_repro.py")
    assert (mark.answer, mark.reason) == (answer, reason), mark.detail


def test_a_script_that_is_missing_stops_everything(bench: Workbench) -> None:
    issue = bench.issue(LOAD)
    (issue.folder / "repro.py").unlink()
    with pytest.raises(RequestError, match=r"repro\.py: the script of repro only is missing"):
        bench.run(issue)


def test_a_repro_without_network_reaches_its_own_loopback_and_no_server_outside(bench: Workbench) -> None:
    script = """
        import os, socket, sys
        import product
        with socket.create_server(("127.0.0.1", 0)) as own:
            socket.create_connection(own.getsockname()).close()
        try:
            socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 5)
        except OSError:
            sys.exit("it is broken")
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        env = {"PORT": str(server.getsockname()[1])}
        bench.request = EnvironmentRequest(env=env)
        with_network = bench.probe(script)
        bench.request = EnvironmentRequest(env=env, network="none")
        without = bench.probe(script)
    assert [one.runs[0].exit_code for one in (with_network, without)] == [0, 1]
    assert without.runs[0].found == "it is broken"
    assert without.loaded == ("product/__init__.py",)
    assert with_network.environment != without.environment


def test_a_time_limit_holds_without_network_too(bench: Workbench) -> None:
    bench.request = EnvironmentRequest(network="none")
    mark = bench.ask("import time, product\nprint('waiting', flush=True)\ntime.sleep(60)", timeout_seconds=2)
    assert (mark.reason, "waiting" in mark.detail) == (Reason.TIMEOUT, True)
