"""Small wheels made here, and what pip would make of them in a site-packages folder (checked against real pip)."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

TAG = "py3-none-any"
FILES = {
    "vllm/__init__.py": "__version__ = '0.26.0'\n",
    "vllm/x.py": "one = 1\ntwo = 2\nthree = 3\n",
    "vllm/sub/y.py": "def f():\n    return 1\n",
    "vllm/configs/a.json": "{}\n",
    "vllm/_C.abi3.so": "\x7fELF no text",
}


def row(path: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}"


def metadata_of(name: str, version: str) -> dict[str, str]:
    info = f"{name}-{version}.dist-info"
    return {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: s\n\nVersion: prose\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: {TAG}\n",
        f"{info}/top_level.txt": f"{name}\n",
    }


def make_wheel(
    folder: Path, files: Mapping[str, str] = FILES, name: str = "vllm", version: str = "0.26.0", tag: str = TAG
) -> Path:
    """Write a wheel as build tools do: RECORD last, deflated."""
    info = f"{name}-{version}.dist-info"
    contents = {path: text.encode() for path, text in {**files, **metadata_of(name, version)}.items()}
    record = "".join(f"{row(path, data)}\n" for path, data in contents.items()) + f"{info}/RECORD,,\n"
    path = folder / f"{name}-{version}-{tag}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in {**contents, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(zipfile.ZipInfo(member, (2026, 1, 2, 3, 4, 6)), data, zipfile.ZIP_DEFLATED)
    return path


def install(wheel: Path, site: Path, caches: tuple[str, ...] = ()) -> Path:
    """Lay a wheel out as pip does: files, INSTALLER, byte code listed without digest; return the dist-info folder."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
        info = site / next(name for name in archive.namelist() if name.endswith("/RECORD")).partition("/")[0]
    record = (info / "RECORD").read_text()
    (info / "INSTALLER").write_text("pip\n")
    lines = [line for line in record.splitlines() if not line.startswith(f"{info.name}/RECORD")]
    lines.append(row(f"{info.name}/INSTALLER", b"pip\n"))
    for cache in caches:
        (site / cache).parent.mkdir(exist_ok=True)
        (site / cache).write_bytes(b"byte code")
        lines.append(f"{cache},,")
    lines += ["../../../bin/vllm,sha256=abc,3", f"{info.name}/RECORD,,"]
    (info / "RECORD").write_text("\r\n".join(lines) + "\r\n", newline="")
    return info


def snapshot(site: Path) -> dict[str, tuple[str, int, int]]:
    """Return everything below a folder: digest, mode and mtime of each file."""
    found = {}
    for path in sorted(site.rglob("*")):
        if path.is_file() and not path.is_symlink():
            info = path.stat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(site))] = (digest, info.st_mode, info.st_mtime_ns)
        else:
            found[str(path.relative_to(site))] = ("", path.lstat().st_mode, 0)
    return found
