"""A probe inherits what is on a short list, and every cache of it is its own.

The lies these prevent: an unpatched tree that passes because a patched one filled a shared cache; a token in a log.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from patchkit.environment.caches import PRIVATE_ROOTS, build_variables, make_roots
from patchkit.errors import RequestError


@pytest.fixture
def slot(tmp_path: Path) -> Path:
    path = tmp_path / "slot"
    path.mkdir()
    return path


def variables_of(slot: Path, caller: dict[str, str], **extra: str) -> dict[str, str]:
    with make_roots(slot, caller) as roots:
        return build_variables(caller, extra, (), roots)


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "PIP_INDEX_URL",
        "PYTHONSTARTUP",
        "LD_PRELOAD",
        "ASCEND_TOKEN",
    ],
)
def test_a_variable_that_is_not_on_the_list_is_not_inherited(slot: Path, name: str) -> None:
    assert name not in variables_of(slot, {name: "value", "PATH": "/bin"})


@pytest.mark.parametrize(
    "name", ["PATH", "LC_ALL", "CUDA_VISIBLE_DEVICES", "ASCEND_HOME_PATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE"]
)
def test_what_hardware_and_locale_need_is_inherited(slot: Path, name: str) -> None:
    assert variables_of(slot, {name: "value"})[name] == "value"


def test_a_proxy_passes_unless_a_password_is_in_it(slot: Path) -> None:
    assert variables_of(slot, {"HTTPS_PROXY": "http://proxy:3128"})["HTTPS_PROXY"] == "http://proxy:3128"
    assert "https_proxy" not in variables_of(slot, {"https_proxy": "http://me:secret@proxy:3128"})


def test_every_root_is_a_folder_of_this_probe_even_where_the_caller_has_one(slot: Path) -> None:
    caller = dict.fromkeys(PRIVATE_ROOTS, "/shared")
    with make_roots(slot, caller) as roots:
        variables = build_variables(caller, {}, (), roots)
        for name in PRIVATE_ROOTS:
            assert Path(variables[name]).is_dir()
            assert slot in Path(variables[name]).parents
    with make_roots(slot, caller) as others:
        again = build_variables(caller, {}, (), others)
        assert all(again[name] != variables[name] for name in PRIVATE_ROOTS)


def test_the_folder_for_temporary_files_is_short_enough_for_sockets_and_removed(slot: Path, tmp_path: Path) -> None:
    with make_roots(slot, {"TMPDIR": str(tmp_path)}) as roots:
        temporary = Path(roots.variables()["TMPDIR"])
        assert len(str(temporary)) <= 40
        (temporary / "socket").touch()
    assert not temporary.exists()
    assert list((slot).glob("private/*")) == []


def test_roots_of_a_killed_probe_are_removed_by_the_next(slot: Path) -> None:
    dead = make_roots(slot, {})
    left = dead.__enter__()  # as if the process had been killed: nothing is cleaned up
    with make_roots(slot, {}):
        assert not left.temporary.exists()
        assert not left.folder.exists()


def test_renewing_empties_all_roots(slot: Path) -> None:
    with make_roots(slot, {}) as roots:
        variables = roots.variables()
        for path in map(Path, variables.values()):
            (path / "left").touch()
        roots.renew(keep_bytecode=False)
        assert [name for name, path in variables.items() if list(Path(path).iterdir())] == []


def test_renewing_follows_no_link_that_a_probe_left_in_place_of_its_roots(slot: Path, tmp_path: Path) -> None:
    (tmp_path / "mine/home").mkdir(parents=True)
    (tmp_path / "mine/home/kept").write_text("mine")
    for above in (False, True):
        with make_roots(slot, {}) as roots:
            place = roots.folder.parent if above else roots.folder
            shutil.rmtree(place)
            place.symlink_to(tmp_path / "mine")
            roots.renew(keep_bytecode=False)
            assert (roots.folder / "home").is_dir()
            assert not roots.folder.is_symlink()
        assert (tmp_path / "mine/home/kept").read_text() == "mine"


def test_roots_that_a_probe_locked_are_removed(slot: Path) -> None:
    with make_roots(slot, {}) as roots:
        (roots.folder / "home/a/b").mkdir(parents=True)
        for folder in ("home/a/b", "home/a", "home", "."):
            (roots.folder / folder).chmod(0)
        roots.temporary.chmod(0)
    assert not roots.folder.exists()
    assert not roots.temporary.exists()


@pytest.mark.parametrize("name", ["TORCHINDUCTOR_CACHE_DIR", "HOME", "PYTHONPATH", "PATCHKIT_TREE"])
def test_a_recipe_cannot_share_what_must_be_private(slot: Path, name: str) -> None:
    with pytest.raises(RequestError, match=name):
        variables_of(slot, {}, **{name: "/shared"})


def test_model_caches_are_shared_only_when_named_and_never_their_token(slot: Path) -> None:
    caller = {"HF_HOME": "/models/hf", "HF_HUB_CACHE": "/elsewhere"}
    with make_roots(slot, caller) as roots:
        assert build_variables(caller, {}, (), roots)["HF_HOME"] == str(roots.folder / "huggingface")
        shared = build_variables(caller, {}, ("HF_HOME", "MODELSCOPE_CACHE=/models/ms"), roots)
    assert shared["HF_HOME"] == "/models/hf"
    assert shared["MODELSCOPE_CACHE"] == "/models/ms"
    assert shared["HF_HUB_OFFLINE"] == "1"
    assert shared["HF_TOKEN_PATH"] == "/dev/null"
    assert "HF_HUB_CACHE" not in shared


def test_a_compile_cache_is_no_model_cache(slot: Path) -> None:
    with make_roots(slot, {}) as roots, pytest.raises(RequestError, match="TRITON_CACHE_DIR is no model cache"):
        build_variables({}, {}, ("TRITON_CACHE_DIR=/shared",), roots)
