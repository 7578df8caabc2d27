"""A venv is built once for each content of its requirements, and a build that was killed does not count."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from patchkit.environment import venv
from patchkit.environment.local import find_interpreter
from patchkit.environment.open import EnvironmentRequest, environment_id, open_environment
from patchkit.environment.venv import make_venv, venv_id
from patchkit.errors import BuildFailed, InfrastructureFailure, RequestError, ToolMissing
from patchkit.tools.cache import Cache
from patchkit.tools.git.objects import Repository
from patchkit.tools.toolkit import Toolkit


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    path = tmp_path / "empty.txt"
    path.write_text("# nothing: the standard library is enough\n")
    return path


def build(root: Path, requirements: Path) -> None:
    toolkit = Toolkit(Cache(root), env=dict(os.environ))
    python = make_venv(toolkit, find_interpreter(toolkit, None), requirements)
    assert python.exists()


def test_two_processes_build_one_venv_once(toolkit: Toolkit, empty: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=build, args=(toolkit.cache.root, empty)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    (folder,) = (toolkit.cache.root / "environments").iterdir()
    built = (folder / "complete.json").stat().st_mtime_ns
    python = make_venv(toolkit, find_interpreter(toolkit, None), empty)
    assert (folder / "complete.json").stat().st_mtime_ns == built
    answer = subprocess.run([python, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == str(folder / "venv")
    # the same entry, as a killed build leaves it
    (folder / "complete.json").unlink()
    (folder / "venv/rubbish").touch()
    make_venv(toolkit, find_interpreter(toolkit, None), empty)
    assert (folder / "complete.json").exists()
    assert not (folder / "venv/rubbish").exists()


def test_the_id_follows_every_file_that_is_included(toolkit: Toolkit, tmp_path: Path) -> None:
    base = find_interpreter(toolkit, None)
    (tmp_path / "top.txt").write_text("-r sub/inner.txt\n-c limits.txt\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/inner.txt").write_text("one\n")
    (tmp_path / "limits.txt").write_text("one==1\n")
    seen = {venv_id(base, tmp_path / "top.txt")}
    (tmp_path / "sub/inner.txt").write_text("two\n")
    seen.add(venv_id(base, tmp_path / "top.txt"))
    (tmp_path / "limits.txt").write_text("one==2\n")
    seen.add(venv_id(base, tmp_path / "top.txt"))
    assert len(seen) == 3
    (tmp_path / "limits.txt").unlink()
    with pytest.raises(RequestError, match=r"limits\.txt"):
        venv_id(base, tmp_path / "top.txt")


def test_requirements_that_pip_refuses_fail_with_its_words(toolkit: Toolkit, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("./no-such-folder\n")
    with pytest.raises(BuildFailed, match="no-such-folder") as caught:
        make_venv(toolkit, find_interpreter(toolkit, None), tmp_path / "bad.txt")
    log = Path(caught.value.hint.removeprefix("the log is "))
    assert "no-such-folder" in log.read_text()
    assert not (log.parent / "venv").exists()


def test_an_index_that_does_not_answer_is_infrastructure(toolkit: Toolkit, tmp_path: Path) -> None:
    (tmp_path / "far.txt").write_text("some-package==1\n")
    nowhere = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",  # the discard port: refused at once
        "PIP_RETRIES": "1",
        "PIP_CONFIG_FILE": os.devnull,
    }
    clean = {name: value for name, value in toolkit.env.items() if not name.startswith("PIP_")}
    offline = Toolkit(toolkit.cache, env={**clean, **nowhere})
    with pytest.raises(InfrastructureFailure, match="some-package"):
        make_venv(offline, find_interpreter(offline, None), tmp_path / "far.txt")


def test_an_environment_has_an_id_before_it_is_built(toolkit: Toolkit, empty: Path) -> None:
    ids = {
        environment_id(toolkit, EnvironmentRequest()),
        environment_id(toolkit, EnvironmentRequest(requirements=empty)),
        environment_id(toolkit, EnvironmentRequest(env={"A": "1"})),
        environment_id(toolkit, EnvironmentRequest(network="none")),
        environment_id(toolkit, EnvironmentRequest(python=sys.executable, env={"A": "2"})),
    }
    assert len(ids) == 5
    assert environment_id(toolkit, EnvironmentRequest(python=sys.executable)) in ids
    assert not (toolkit.cache.root / "environments").exists()


def test_an_interpreter_that_is_not_there_is_a_missing_tool(toolkit: Toolkit) -> None:
    with pytest.raises(ToolMissing, match="no-such-python"):
        environment_id(toolkit, EnvironmentRequest(python="no-such-python"))


def test_a_program_that_is_no_python_is_refused(toolkit: Toolkit) -> None:
    with pytest.raises(RequestError, match="does not answer as a Python interpreter"):
        environment_id(toolkit, EnvironmentRequest(python="/bin/true"))


def test_a_store_from_which_python_cannot_import_is_refused(tmp_path: Path) -> None:
    toolkit = Toolkit(Cache(tmp_path / "a:b"))
    opened = open_environment(toolkit, EnvironmentRequest(), "0" * 40, Repository(tmp_path))
    with pytest.raises(RequestError, match="Python imports nothing"), opened:
        pass


BACKEND = """
import os
def get_requires_for_build_wheel(*_): return []
def prepare_metadata_for_build_wheel(*_): raise SystemExit("seen: " + " ".join(sorted(os.environ)))
build_wheel = prepare_metadata_for_build_wheel
"""


def test_a_package_that_is_built_sees_no_token_and_messages_show_no_password(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/backend.py").write_text(BACKEND)
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (tmp_path / "pkg/pyproject.toml").write_text(build + '[project]\nname = "p"\nversion = "1"\n')
    (tmp_path / "some.txt").write_text("--no-build-isolation\n./pkg\n".replace("--no-build-isolation\n", ""))
    secrets = {"GITHUB_TOKEN": "gh", "HF_TOKEN": "hf", "AWS_SECRET_ACCESS_KEY": "aws", "HARMLESS": "1"}
    toolkit = Toolkit(Cache(tmp_path / "store"), env={**os.environ, **secrets})
    with pytest.raises(BuildFailed):
        make_venv(toolkit, find_interpreter(toolkit, None), tmp_path / "some.txt")
    (log,) = (tmp_path / "store").rglob("pip.log")
    seen = next(line for line in log.read_text().splitlines() if "seen: " in line).split()
    assert "HARMLESS" in seen
    assert not secrets.keys() - {"HARMLESS"} & set(seen)
    failure = venv._failure("ERROR: no such thing at https://me:hidden@host/simple", tmp_path / "some.txt", log)
    assert "hidden" not in str(failure)
    assert "https://host/simple" in str(failure)
