"""Which folders hold a user's compiled graphs, and that nothing else is ever emptied."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.environment.installed.compile_caches import CompileCache, empty_compile_cache, find_compile_caches
from patchkit.errors import RequestError


def test_variables_decide_and_else_the_defaults_of_torch_and_vllm(tmp_path: Path) -> None:
    default = {cache.name: str(cache.path) for cache in find_compile_caches({"HOME": "/home/me"})}
    assert default["vLLM"] == "/home/me/.cache/vllm/torch_compile_cache"
    assert "/torchinductor_" in default["torch inductor"]
    named = {"TORCHINDUCTOR_CACHE_DIR": "/a", "VLLM_CACHE_ROOT": "/b", "XDG_CACHE_HOME": "/c"}
    assert [str(cache.path) for cache in find_compile_caches(named)] == ["/a", "/b/torch_compile_cache"]
    del named["VLLM_CACHE_ROOT"]
    assert str(find_compile_caches(named)[1].path) == "/c/vllm/torch_compile_cache"


def test_a_cache_is_emptied_and_its_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "cache/fxgraph/ab").mkdir(parents=True)
    (tmp_path / "cache/fxgraph/ab/graph").write_text("x")
    (tmp_path / "cache/link").symlink_to(tmp_path)
    cache = CompileCache("torch", tmp_path / "cache")
    assert cache.holds
    empty_compile_cache(cache, {"HOME": str(tmp_path / "home")})
    assert (list(cache.path.iterdir()), cache.holds, tmp_path.exists()) == ([], False, True)
    empty_compile_cache(CompileCache("torch", tmp_path / "nowhere"), {})


@pytest.mark.parametrize("place", ["home", "above", "link", "here"])
def test_a_folder_that_is_more_than_a_cache_is_not_emptied(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "users/me/precious").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "users")
    monkeypatch.chdir(tmp_path)
    places = {"home": "users/me", "above": "users", "link": "link", "here": "."}
    with pytest.raises(RequestError, match="is not emptied"):
        empty_compile_cache(CompileCache("torch", tmp_path / places[place]), {"HOME": str(tmp_path / "users/me")})
    assert (tmp_path / "users/me/precious").exists()
