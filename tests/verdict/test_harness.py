"""The recorder names the files of the tree that were really read, in every process, and nothing else.

The lie this prevents: a repro that never imports the product and "proves" that a patch works.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from patchkit.verdict.probe import HARNESS
from tests.verdict.workbench import LOAD, Workbench

FILES = {
    "product/one.py": "ONE = 1\n",
    "product/two.py": "TWO = 2\n",
    "product/data.txt": "data\n",
    "src/kernel.cu": "// kernel\n",
    "unread.py": "",
}


@pytest.fixture
def tree(bench: Workbench) -> str:
    return bench.tree_of(FILES)


@pytest.mark.parametrize(
    ("script", "loaded"),
    [
        (LOAD, ["product/__init__.py"]),
        ("from product import one", ["product/__init__.py", "product/one.py"]),
        ("import os; open(os.environ['PATCHKIT_TREE'] + '/product/data.txt')", ["product/data.txt"]),
        ("import os; os.chdir(os.environ['PATCHKIT_TREE']); open('src/../src/kernel.cu')", ["src/kernel.cu"]),
        (
            "import os, pathlib; (pathlib.Path(os.environ['PATCHKIT_TREE']) / 'src/kernel.cu').read_text()",
            ["src/kernel.cu"],
        ),
        ("import os; os.open(os.environ['PATCHKIT_TREE'].encode() + b'/unread.py', os.O_RDONLY)", ["unread.py"]),
        ("import os; open(os.environ['PATCHKIT_TREE'] + '/product/one.py', 'w')", []),
        ("import json, email.message", []),
        ("import importlib.util; importlib.util.find_spec('unread')", []),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_a_repro_reads_is_recorded(bench: Workbench, tree: str, script: str, loaded: list[str]) -> None:
    evidence = bench.probe(script, tree)
    assert evidence.runs[0].exit_code == 0, evidence.runs[0].output
    assert list(evidence.loaded) == loaded


@pytest.mark.parametrize(
    ("script", "looked"),
    [
        ("import json", []),
        ("import os; os.listdir(os.environ['PATCHKIT_TREE'])", ["."]),
        ("import os, pathlib; list(pathlib.Path(os.environ['PATCHKIT_TREE'], 'src').iterdir())", ["src"]),
        (
            "import os\ntry: open(os.environ['PATCHKIT_TREE'] + '/absent.py')\nexcept OSError: pass",
            ["absent.py"],
        ),
    ],
)
def test_a_look_that_finds_no_file_is_a_look_only(bench: Workbench, tree: str, script: str, looked: list[str]) -> None:
    evidence = bench.probe(script, tree)
    assert evidence.loaded == ()
    assert list(evidence.looked) == looked


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_are_recorded_even_when_they_end_without_cleaning_up(bench: Workbench, tree: str, method: str) -> None:
    script = f"""
        import multiprocessing, os

        def work():
            from product import one
            os._exit(0)

        if __name__ == "__main__":
            child = multiprocessing.get_context("{method}").Process(target=work)
            child.start()
            child.join()
    """
    assert list(bench.probe(script, tree).loaded) == ["product/__init__.py", "product/one.py"]


def test_a_second_run_reads_byte_code_and_still_names_the_source(bench: Workbench, tree: str) -> None:
    script = """
        import subprocess, sys
        import product.one
        code = "import product.two as two; print(two.__cached__)"
        for _ in range(2):
            subprocess.run([sys.executable, "-c", code], check=True)
    """
    evidence = bench.probe(script, tree, repeat=2)
    assert evidence.runs[1].exit_code == 0
    assert list(evidence.loaded) == ["product/__init__.py", "product/one.py", "product/two.py"]


RUN_ONE = "import product.one"


@pytest.mark.parametrize(
    ("script", "loaded"),
    [
        ("exec(compile('', TREE + '/unread.py', 'exec'))", ["unread.py"]),  # from a cache of its own, say
        ("exec(compile('', TREE + '/never.py', 'exec')); exec('1', {})", []),  # code of a file that is not there
        (
            "import types; types.FunctionType((lambda: 0).__code__.replace(co_filename=TREE + '/unread.py'), {})()",
            ["unread.py"],
        ),
        ("import runpy; runpy.run_path(TREE + '/unread.py')", ["unread.py"]),
        ("import runpy; runpy.run_module('product.one')", ["product/__init__.py", "product/one.py"]),
        ("subprocess.run([sys.executable, '-c', RUN_ONE])", ["product/__init__.py", "product/one.py"]),
        ("subprocess.run([sys.executable, '-m', 'product.one'])", ["product/__init__.py", "product/one.py"]),
        ("subprocess.run([sys.executable, '-I', '-S', TREE + '/unread.py'])", ["unread.py"]),
        ("subprocess.run([sys.executable, 'unread.py'], cwd=TREE, env={})", ["unread.py"]),
        ("subprocess.run(['sh', TREE + '/run.sh'])", ["run.sh"]),
        ("subprocess.run('sh run.sh', shell=True, cwd=TREE)", ["run.sh"]),
        ("subprocess.run([TREE + '/run.sh'])", ["run.sh"]),
        ("os.system('sh ' + TREE + '/run.sh')", ["run.sh"]),
        ("os.posix_spawn('/bin/sh', ['sh', TREE + '/run.sh'], {}); os.wait()", ["run.sh"]),
        ("os.execv('/bin/sh', ['sh', TREE + '/run.sh'])", ["run.sh"]),
        ("subprocess.run(f'cd {TREE} && sh run.sh', shell=True)", ["run.sh"]),
        ("os.system(f'cd \"{TREE}\"; cd src; cat kernel.cu')", ["src/kernel.cu"]),
        ("subprocess.run(['echo', 'no/such/file'], cwd=TREE)", []),
    ],
)
def test_what_a_repro_executes_is_recorded(bench: Workbench, script: str, loaded: list[str]) -> None:
    tree = bench.tree_of({**FILES, "run.sh": "#!/bin/sh\nexit 0\n"})
    prelude = f"import os, subprocess, sys\nTREE, RUN_ONE = os.environ['PATCHKIT_TREE'], {RUN_ONE!r}\n"
    if "run([TREE" in script:
        prelude += "os.chmod(TREE + '/run.sh', 0o755)\n"
    evidence = bench.probe(prelude + script, tree)
    assert evidence.runs[0].exit_code == 0, evidence.runs[0].output
    assert list(evidence.loaded) == loaded


def test_byte_code_beside_its_source_counts_as_the_source(tmp_path: Path) -> None:
    """A process without PYTHONPYCACHEPREFIX keeps byte code in the tree, and opens no source the second time."""
    tree, log = tmp_path / "tree", tmp_path / "loaded"
    tree.mkdir()
    (tree / "module.py").write_text("X = 1\n")
    variables = {"PYTHONPATH": f"{HARNESS}:{tree}"}
    subprocess.run([sys.executable, "-c", "import module"], env=variables, check=True)
    watched = {**variables, "PATCHKIT_TREE": str(tree), "PATCHKIT_LOADED": str(log)}
    subprocess.run([sys.executable, "-c", "import module"], env=watched, check=True)
    assert "F module.py" in log.read_text().splitlines()


def test_byte_code_alone_counts_as_its_source(tmp_path: Path) -> None:
    tree, log = tmp_path / "tree", tmp_path / "loaded"
    tree.mkdir()
    (tree / "module.py").write_text("X = 1\n")
    variables = {"PYTHONPATH": f"{HARNESS}:{tree}", "PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode")}
    subprocess.run([sys.executable, "-c", "import module"], env=variables, check=True)
    assert list((tmp_path / "bytecode").rglob("module.*.pyc"))
    watched = {**variables, "PATCHKIT_TREE": str(tree), "PATCHKIT_LOADED": str(log)}
    subprocess.run([sys.executable, "-c", "import module"], env=watched, check=True)
    assert log.read_text() == "F module.py\n"


def test_each_file_is_named_once_by_a_process(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    log = tmp_path / "loaded"
    variables = {"PYTHONPATH": str(HARNESS), "PATCHKIT_TREE": str(tmp_path), "PATCHKIT_LOADED": str(log)}
    code = f"for _ in range(100): open({str(tmp_path / 'data')!r}).close()"
    subprocess.run([sys.executable, "-c", code], env=variables, check=True)
    assert log.read_text() == "F data\n"


def test_the_sitecustomize_of_the_environment_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.CHAINED = __file__\n")
    variables = {"PYTHONPATH": f"{HARNESS}:{tmp_path}"}
    code = "import sys; print(CHAINED, sys.modules['sitecustomize'].__file__)"
    done = subprocess.run([sys.executable, "-c", code], env=variables, check=True, capture_output=True, text=True)
    assert done.stdout.split() == [str(tmp_path / "sitecustomize.py")] * 2


def test_a_record_that_cannot_be_written_does_not_reach_the_program(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("X = 1\n")
    variables = {
        "PYTHONPATH": f"{HARNESS}:{tmp_path}",
        "PATCHKIT_TREE": str(tmp_path),
        "PATCHKIT_LOADED": str(tmp_path / "no/such/folder/loaded"),
    }
    code = "import module; print(module.X)"
    done = subprocess.run([sys.executable, "-c", code], env=variables, check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1\n", "")
