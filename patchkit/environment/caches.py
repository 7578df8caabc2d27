"""The variables of a probe: private cache roots, what may be inherited, and nothing else.

Compilers and loggers keep caches that do not know which tree they came from: after one passing run of a patched tree,
inductor's shared graph cache lets the unpatched tree pass too, and a `.pyc` is believed when size and mtime agree. So
every probe starts with empty roots, and what is not on the list below is not inherited, tokens least of all.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.tools.cache import ensure_folder, remove_path, storage_errors, write_atomically

REMOVED = "removed-"
LONGEST_TMP = 24  # a socket's path has room for 108 bytes; ZeroMQ, gloo and ray append up to 80 of their own

PRIVATE_ROOTS = {
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "TRITON_HOME": "home",
    "TORCH_EXTENSIONS_DIR": "extensions",
    "TORCH_HOME": "torch",
    "VLLM_CACHE_ROOT": "vllm",
    "VLLM_CONFIG_ROOT": "vllm-config",
    "XDG_CACHE_HOME": "cache",
    "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "data",
    "XDG_STATE_HOME": "state",
    "CUDA_CACHE_PATH": "cuda",
    "ASCEND_CACHE_PATH": "ascend",
    "ASCEND_WORK_PATH": "ascend-work",
    "NUMBA_CACHE_DIR": "numba",
    "PYTHONPYCACHEPREFIX": "bytecode",
    "HOME": "home",
    "HF_HOME": "huggingface",
}

FIXED = {
    "PYTHONNOUSERSITE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUNBUFFERED": "1",  # a probe that is killed has told what it had to tell
    "PYTHONFAULTHANDLER": "1",
    "PYTHONUTF8": "1",
}

RESERVED = {*PRIVATE_ROOTS, "TMPDIR", "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE"} - {"HF_HOME", "TORCH_HOME"}

INHERITED = re.compile(
    r"PATH|LANG|LANGUAGE|LC_[A-Z]+|TZ|USER|LOGNAME|LD_LIBRARY_PATH"
    r"|CUDA_(VISIBLE_DEVICES|DEVICE_ORDER|HOME|PATH)|NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES)"
    r"|ROCR_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES|HIP_PATH|ROCM_(PATH|HOME)|ZE_AFFINITY_MASK|ONEAPI_DEVICE_SELECTOR"
    r"|ASCEND_[A-Z_]+|SOC_VERSION"
    r"|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|(?i:https?_proxy|all_proxy|no_proxy)"
)
SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY")  # whatever the list above lets through

MODEL_CACHES = ("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "MODELSCOPE_CACHE", "TORCH_HOME", "VLLM_ASSETS_CACHE")


@dataclass(frozen=True)
class PrivateRoots:
    """The cache roots of one probe: `folder` in the store, `temporary` with a short path."""

    folder: Path
    temporary: Path

    def variables(self) -> dict[str, str]:
        """Return the variables that point programs at the roots."""
        roots = {name: str(self.folder / root) for name, root in PRIVATE_ROOTS.items()}
        return {**roots, "TMPDIR": str(self.temporary)}

    def renew(self, keep_bytecode: bool) -> None:
        """Empty the roots, so that a run finds nothing of the one before. Raises `StoreFailure`."""
        kept = {"bytecode"} if keep_bytecode else set()
        with storage_errors(self.folder):
            ensure_folder(self.folder.parent, 0o700)
            ensure_folder(self.folder, 0o700)
            for root in {*PRIVATE_ROOTS.values()} - kept:
                _make_empty(self.folder / root)
            _make_empty(self.temporary)

    def share_bytecode(self, libraries: Sequence[Path], shared: Path) -> None:
        """Keep the byte code of installed packages in a folder that all probes of this environment use.

        They are the same for every tree, and compiling torch and transformers anew costs a probe many seconds.
        """
        with storage_errors(shared):
            for library in libraries:
                inside = library.relative_to("/")
                (shared / inside).mkdir(parents=True, exist_ok=True)
                link = self.folder / "bytecode" / inside
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(shared / inside)


@contextlib.contextmanager
def make_roots(slot: Path, caller: Mapping[str, str]) -> Iterator[PrivateRoots]:
    """Make private roots for one probe in a slot that is held, and remove them afterwards.

    A probe's own folder names are never used again: a worker that outlived its probe cannot write into another's.
    """
    note = slot / "temporary"
    _remove_left_overs(slot, note)
    with storage_errors(slot):
        roots = PrivateRoots(
            slot / "private" / secrets.token_hex(4), Path(tempfile.mkdtemp(prefix="pk", dir=_short(caller)))
        )
        write_atomically(note, str(roots.temporary).encode(), durable=False)
    try:
        roots.renew(keep_bytecode=False)
        yield roots
    finally:
        _remove_left_overs(slot, note)


def build_variables(
    caller: Mapping[str, str], extra: Mapping[str, str], model_caches: Sequence[str], roots: PrivateRoots
) -> dict[str, str]:
    """Return the whole environment of a probe, but for PYTHONPATH: what it inherits, the recipe's own, the roots.

    Raises `RequestError` when the recipe sets what must be private, or names a model cache nobody knows.
    """
    if taken := sorted(name for name in extra if name in RESERVED or name.startswith("PATCHKIT_")):
        raise RequestError(
            f"environment: env sets {', '.join(taken)}, which patchkit sets itself for each probe",
            "take it out; folders with models that probes may share go into `model-caches`",
        )
    inherited = {name: value for name, value in caller.items() if _passes(name, value)}
    models = _model_variables(caller, model_caches)
    return {**inherited, **FIXED, **roots.variables(), **models, **extra}


def _passes(name: str, value: str) -> bool:
    """Return whether a probe may inherit a variable; a proxy's URL only without a password in it."""
    if SECRET.search(name) or not INHERITED.fullmatch(name):
        return False
    return not (name.lower().endswith("_proxy") and "@" in value)


def _model_variables(caller: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return variables for the model caches that the recipe shares: `HF_HOME` as the caller has it, or `HF_HOME=/path`.

    Hubs are told to be offline, so that nothing is written there; the recipe's `env` can say otherwise.
    """
    found = {}
    for entry in names:
        name, _, path = entry.partition("=")
        if name not in MODEL_CACHES:
            raise RequestError(f"environment: {name} is no model cache", f"known: {', '.join(MODEL_CACHES)}")
        if value := path or caller.get(name, ""):
            found[name] = str(Path(value).expanduser())
    if found:
        found |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_TOKEN_PATH": os.devnull}
    return found


def _short(caller: Mapping[str, str]) -> str:
    """Return the system's folder for temporary files: the caller's, unless its path is too long for sockets."""
    wanted = caller.get("TMPDIR", "")
    usable = wanted and len(wanted) <= LONGEST_TMP and os.access(wanted, os.W_OK | os.X_OK)
    return wanted if usable else "/tmp"  # noqa: S108 - mkdtemp makes a private folder in it


def _make_empty(folder: Path) -> None:
    """Make a folder that is there and holds nothing; most of them a run never used, and they cost nothing here."""
    ensure_folder(folder, 0o700)
    for path in folder.iterdir():
        remove_path(path)


def _remove_left_overs(slot: Path, note: Path) -> None:
    """Remove the roots of the slot's last probe, whether it ended or was killed; the verdict need not wait for it."""
    with contextlib.suppress(OSError):
        temporary = Path(note.read_text())
        if temporary.name.startswith("pk"):
            remove_path(temporary)
        note.unlink()
    with contextlib.suppress(FileNotFoundError):
        (slot / "private").rename(slot / f"{REMOVED}{secrets.token_hex(4)}")
        threading.Thread(target=_remove_all, args=(slot,), name="remove private roots").start()


def _remove_all(slot: Path) -> None:
    """Remove what lies in the slot under names of removed roots, those too that a killed patchkit left."""
    for path in slot.glob(f"{REMOVED}*"):
        remove_path(path)
