"""Where compiled graphs of a user lie: caches that may hold what was compiled before a patch, or with it.

torch: `torch._inductor.runtime.cache_dir_utils.default_cache_dir`; vLLM: `VLLM_CACHE_ROOT` in `vllm/envs.py` with
`torch_compile_cache` below it (`vllm/compilation/backends.py`).
"""

from __future__ import annotations

import getpass
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.tools.cache import remove_path, storage_errors


@dataclass(frozen=True)
class CompileCache:
    """A cache folder of this user."""

    name: str
    path: Path

    @property
    def holds(self) -> bool:
        """Return whether there is anything in it."""
        return self.path.is_dir() and any(self.path.iterdir())


def find_compile_caches(env: Mapping[str, str]) -> tuple[CompileCache, ...]:
    """Return the caches of compiled graphs that torch and vLLM use with these variables, whether they exist or not."""
    inductor = env.get("TORCHINDUCTOR_CACHE_DIR") or f"{tempfile.gettempdir()}/torchinductor_{_user()}"
    home = env.get("HOME") or str(Path.home())
    root = env.get("VLLM_CACHE_ROOT") or f"{env.get('XDG_CACHE_HOME') or f'{home}/.cache'}/vllm"
    return (
        CompileCache("torch inductor", Path(inductor).expanduser()),
        CompileCache("vLLM", Path(root).expanduser() / "torch_compile_cache"),
    )


def empty_compile_cache(cache: CompileCache, env: Mapping[str, str]) -> None:
    """Remove what is in a cache; the folder stays. A link in its place is not followed.

    Raises `RequestError` for a folder that is no cache whatever the variable says: the home folder, one above it.
    """
    place, home = cache.path.resolve(), Path(env.get("HOME") or Path.home()).resolve()
    if cache.path.is_symlink() or place in {home, *home.parents} or place == Path.cwd():
        hint = "remove by hand what is in it, or point the variable at a folder of its own"
        raise RequestError(f"{cache.path}: is not emptied: it is a link, or holds more than a cache", hint)
    with storage_errors(cache.path):
        for path in cache.path.iterdir() if cache.path.is_dir() else ():
            remove_path(path)


def _user() -> str:
    """Return the user's name as torch writes it into the folder's name."""
    try:
        return re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    except (KeyError, OSError):
        return f"uid_{os.getuid()}"
