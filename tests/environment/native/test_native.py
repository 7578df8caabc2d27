"""Compiled files serve exactly the trees that they were made from; a probe never runs on those of another key."""

from __future__ import annotations

import dataclasses
import functools
import http.server
import os
import shutil
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchkit.environment.local import Interpreter, find_interpreter
from patchkit.environment.native import NativeRequest, make_native
from patchkit.environment.open import EnvironmentRequest, open_environment
from patchkit.errors import BuildFailed, InfrastructureFailure
from patchkit.recipe.model.native import NativeSpec
from patchkit.source.commit import Commit
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from tests.support.repositories import GitRepository

BUILD = ("sh", "-c", "echo run >> $COUNT; tr a-z A-Z < csrc/core.c > pkg/core.so")


@dataclasses.dataclass
class Bench:
    """A product with one native input, and a build that counts its runs."""

    toolkit: Toolkit
    git: GitRepository
    count: Path
    interpreter: Interpreter

    def spec(self, **more: object) -> NativeSpec:
        given = {"build": BUILD, "env": {"COUNT": str(self.count)}, **more}
        return NativeSpec.model_validate({name: value for name, value in given.items() if value is not None})

    def commit(self, **files: str | None) -> str:
        return self.git.commit({name.replace("__", "/").replace("_DOT_", "."): text for name, text in files.items()})

    def request(self, commit: str, spec: NativeSpec, patched: str | None = None, **more: str) -> NativeRequest:
        base = self.git.tree_of(commit)
        named = Commit("vllm", commit, base, commit, "a commit", 0, "1.0")
        return NativeRequest(spec, named, "sm_121", self.git.objects, base, patched or base, **more)

    @property
    def builds(self) -> int:
        return len(self.count.read_text().split()) if self.count.exists() else 0


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    toolkit = Toolkit(Cache(tmp_path / "store"), env=dict(os.environ))
    return Bench(toolkit, GitRepository(tmp_path / "git"), tmp_path / "count", find_interpreter(toolkit, None))


def files(core: str = "core one\n", engine: str = "x = 1\n") -> dict[str, str]:
    return {"csrc/core.c": core, "pkg/__init__.py": engine}


def test_trees_that_differ_in_python_only_share_one_build(bench: Bench) -> None:
    one, two = bench.git.commit(files()), bench.git.commit(files(engine="x = 2\n"))
    first = make_native(bench.toolkit, bench.request(one, bench.spec()), bench.interpreter)
    second = make_native(bench.toolkit, bench.request(two, bench.spec()), bench.interpreter)
    assert first.key == second.key
    assert (first.made, second.made, bench.builds) == (True, False, 1)
    assert first.files["pkg/core.so"].read_text() == "CORE ONE\n"


def test_a_patch_to_a_native_input_is_built_and_the_unpatched_build_is_not_used_for_it(bench: Bench) -> None:
    commit = bench.git.commit(files())
    patched = bench.git.tree_of(bench.git.commit(files(core="core patched\n")))
    plain = make_native(bench.toolkit, bench.request(commit, bench.spec()), bench.interpreter)
    with_patch = make_native(bench.toolkit, bench.request(commit, bench.spec(), patched), bench.interpreter)
    assert plain.key != with_patch.key
    assert with_patch.files["pkg/core.so"].read_text() == "CORE PATCHED\n"


@pytest.mark.parametrize("change", [{"torch": "9"}, {"arch": "sm_90"}, {"env": {"COUNT": "/dev/null"}}])
def test_torch_architecture_and_the_builds_variables_are_part_of_the_key(
    bench: Bench, change: dict[str, object]
) -> None:
    request, interpreter = bench.request(bench.git.commit(files()), bench.spec()), bench.interpreter
    before = make_native(bench.toolkit, request, interpreter).key
    if "torch" in change:
        interpreter = dataclasses.replace(interpreter, packages={**interpreter.packages, "torch": "9"})
    elif "arch" in change:
        request = dataclasses.replace(request, arch="sm_90")
    else:
        request = dataclasses.replace(request, spec=bench.spec(**change))
    assert make_native(bench.toolkit, request, interpreter).key != before


def test_a_failed_build_is_of_this_commit_and_keeps_its_log(bench: Bench) -> None:
    spec = bench.spec(build=("sh", "-c", "echo nvcc: no such arch; exit 3"))
    with pytest.raises(BuildFailed, match=r"exit 3\): nvcc: no such arch") as caught:
        make_native(bench.toolkit, bench.request(bench.git.commit(files()), spec), bench.interpreter)
    log = Path(caught.value.hint.removeprefix("the log is "))
    assert log.read_text() == "nvcc: no such arch\n"
    assert not list(bench.toolkit.cache.scratch("partial").iterdir())


def test_a_build_that_makes_nothing_or_takes_too_long_is_a_failed_build(bench: Bench) -> None:
    commit = bench.git.commit(files())
    with pytest.raises(BuildFailed, match=r"made none of \*\*/\*\.so"):
        make_native(bench.toolkit, bench.request(commit, bench.spec(build=("true",))), bench.interpreter)
    slow = bench.spec(build=("sleep", "30"), timeout_seconds=1)
    with pytest.raises(BuildFailed, match="took too long"):
        make_native(bench.toolkit, bench.request(commit, slow), bench.interpreter)


def test_secrets_do_not_reach_a_build(bench: Bench) -> None:
    toolkit = dataclasses.replace(bench.toolkit, env={**bench.toolkit.env, "GITHUB_TOKEN": "s3cret"})
    spec = bench.spec(build=("sh", "-c", "env > pkg/core.so"))
    native = make_native(toolkit, bench.request(bench.git.commit(files()), spec), bench.interpreter)
    told = native.files["pkg/core.so"].read_text()
    assert "s3cret" not in told
    assert "TORCH_CUDA_ARCH_LIST=12.1\n" in told


def wheel(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_the_wheel_of_the_commit_serves_while_the_series_leaves_native_inputs_alone(
    bench: Bench, tmp_path: Path
) -> None:
    commit = bench.git.commit(files())
    wheel(tmp_path / f"{commit}.whl", {"pkg/core.so": "from the wheel", "pkg/__init__.py": "not wanted"})
    spec = bench.spec(wheel=f"{tmp_path}/{{commit}}.whl")
    native = make_native(bench.toolkit, bench.request(commit, spec), bench.interpreter)
    assert {name: path.read_text() for name, path in native.files.items()} == {"pkg/core.so": "from the wheel"}
    assert (native.origin, bench.builds) == (f"wheel of {commit}", 0)
    patched = bench.git.tree_of(bench.git.commit(files(core="core patched\n")))
    assert make_native(bench.toolkit, bench.request(commit, spec, patched), bench.interpreter).origin == "build"
    alone = bench.spec(wheel=f"{tmp_path}/{{commit}}.whl", build=None)
    with pytest.raises(BuildFailed, match=r"changes native inputs \(csrc/\*\*\)"):
        make_native(bench.toolkit, bench.request(commit, alone, patched), bench.interpreter)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"../evil.so": "x"}, "can be unpacked"),
        ({"/evil.so": "x"}, "can be unpacked"),
        ({"pkg/a.py": "x"}, "holds none of"),
    ],
)
def test_a_wheel_that_leaves_its_folder_or_lacks_the_files_is_refused(
    bench: Bench, tmp_path: Path, members: dict[str, str], message: str
) -> None:
    spec = bench.spec(wheel=str(wheel(tmp_path / "a.whl", members)), build=None)
    with pytest.raises(BuildFailed, match=message):
        make_native(bench.toolkit, bench.request(bench.git.commit(files()), spec), bench.interpreter)
    assert not list(tmp_path.rglob("evil.so"))


def test_a_file_that_is_no_wheel_or_not_there_is_a_skip(bench: Bench, tmp_path: Path) -> None:
    commit = bench.git.commit(files())
    (tmp_path / "a.whl").write_text("no zip")
    for place, message in ((tmp_path / "a.whl", "can be unpacked"), (tmp_path / "b.whl", "there is no such wheel")):
        with pytest.raises(BuildFailed, match=message):
            make_native(
                bench.toolkit, bench.request(commit, bench.spec(wheel=str(place), build=None)), bench.interpreter
            )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}", folder
        served.shutdown()


def test_wheels_come_over_http_and_a_missing_one_is_a_skip(bench: Bench, server: tuple[str, Path]) -> None:
    address, folder = server
    commit, other = bench.git.commit(files()), bench.git.commit(files(core="two\n"))
    wheel(folder / f"{commit}.whl", {"pkg/core.so": "over http"})
    spec = bench.spec(wheel=address + "/{commit}.whl", build=None)
    native = make_native(bench.toolkit, bench.request(commit, spec), bench.interpreter)
    assert native.files["pkg/core.so"].read_text() == "over http"
    with pytest.raises(BuildFailed, match="404"):
        make_native(bench.toolkit, bench.request(other, spec), bench.interpreter)
    nobody = bench.spec(wheel="http://127.0.0.1:1/{commit}.whl", build=None)
    with pytest.raises(InfrastructureFailure, match="does not answer"):
        make_native(bench.toolkit, bench.request(commit, nobody), bench.interpreter)


def test_what_is_installed_serves_the_trees_whose_inputs_it_was_built_from(bench: Bench, tmp_path: Path) -> None:
    library = tmp_path / "site-packages"
    (library / "pkg").mkdir(parents=True)
    (library / "pkg/__init__.py").write_text("")
    (library / "pkg/core.so").write_text("installed")
    interpreter = dataclasses.replace(bench.interpreter, libraries=(library,))
    built, same = bench.git.commit(files()), bench.git.commit(files(engine="x = 3\n"))
    other = bench.git.commit(files(core="other\n"))
    spec = bench.spec(installed=built, build=None)
    request = bench.request(same, spec, built_from=bench.git.tree_of(built))
    native = make_native(bench.toolkit, request, interpreter)
    assert {name: path.read_text() for name, path in native.files.items()} == {"pkg/core.so": "installed"}
    with pytest.raises(BuildFailed, match=r"differ from those of the installed build \(csrc/\*\*\)"):
        make_native(bench.toolkit, bench.request(other, spec, built_from=bench.git.tree_of(built)), interpreter)


def test_a_build_whose_files_changed_is_not_used_and_is_made_anew(bench: Bench) -> None:
    request = bench.request(bench.git.commit(files()), bench.spec())
    native = make_native(bench.toolkit, request, bench.interpreter)
    native.files["pkg/core.so"].write_text("tampered with")
    with pytest.raises(InfrastructureFailure, match="is not what was built"):
        make_native(bench.toolkit, request, bench.interpreter)
    assert make_native(bench.toolkit, request, bench.interpreter).files["pkg/core.so"].read_text() == "CORE ONE\n"
    assert bench.builds == 2


def test_a_probe_finds_the_files_of_its_own_key_at_every_run_and_nothing_stays(bench: Bench) -> None:
    commits = [
        bench.git.commit(files(core=f"core {word}\n", engine=f"x = '{word}'\n")) for word in ("one", "two", "one")
    ]
    for commit, word in zip(commits, ("ONE", "TWO", "ONE"), strict=True):
        request = bench.request(commit, bench.spec())
        asked = EnvironmentRequest(native=request)
        with open_environment(bench.toolkit, asked, request.tree, bench.git.objects) as environment:
            link = environment.tree / "pkg/core.so"
            assert link.read_text() == f"CORE {word}\n"
            link.unlink()
            link.write_text("of another tree")
            environment.renew()
            assert link.is_symlink()
            assert link.read_text() == f"CORE {word}\n"
        assert not link.exists()
    assert bench.builds == 2


def test_a_tree_that_has_such_a_file_itself_is_refused(bench: Bench) -> None:
    request = bench.request(
        bench.git.commit(files() | {"pkg/own.so": "text"}), bench.spec(build=("cp", "pkg/own.so", "pkg/b.so"))
    )
    native = make_native(bench.toolkit, request, bench.interpreter)
    assert set(native.files) == {"pkg/b.so"}
    spec = bench.spec(build=None, wheel=str(wheel(bench.count.parent / "w.whl", {"pkg/own.so": "x"})))
    request = dataclasses.replace(request, spec=spec)
    with (
        pytest.raises(BuildFailed, match="the tree has this file itself"),
        open_environment(bench.toolkit, EnvironmentRequest(native=request), request.tree, bench.git.objects),
    ):
        pass


@pytest.mark.contract
def test_a_real_compiler_makes_what_a_real_process_loads(bench: Bench) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    source = "int answer(void) {{ return {}; }}\n"
    spec = bench.spec(build=("cc", "-shared", "-fPIC", "-o", "pkg/core.so", "csrc/core.c"))
    for number in (41, 42):
        request = bench.request(bench.git.commit(files(core=source.format(number))), spec)
        asked = EnvironmentRequest(native=request)
        with open_environment(bench.toolkit, asked, request.tree, bench.git.objects) as environment:
            script = (
                "import ctypes, pathlib, pkg; p = pathlib.Path(pkg.__file__).with_name('core.so'); "
                "print(ctypes.CDLL(str(p)).answer())"
            )
            done = subprocess.run(
                [str(environment.python), "-c", script],
                env=dict(environment.variables),
                capture_output=True,
                text=True,
                check=True,
            )
            assert done.stdout == f"{number}\n"


def test_a_wheel_with_a_spoiled_member_is_a_skip(bench: Bench, tmp_path: Path) -> None:
    place = tmp_path / "a.whl"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pkg/core.so", "compiled " * 500)
    content = bytearray(place.read_bytes())
    content[60:80] = b"\xff" * 20  # inside the packed bytes
    place.write_bytes(content)
    spec = bench.spec(wheel=str(place), build=None)
    with pytest.raises(BuildFailed, match="is no wheel that can be unpacked"):
        make_native(bench.toolkit, bench.request(bench.git.commit(files()), spec), bench.interpreter)
