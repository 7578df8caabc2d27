"""What an environment's site-packages really hold: versions, and the architectures of compiled extensions.

DeepGEMM compiles its kernels when they are first used, so its extension carries no machine code for a GPU: the `sm_35`
to `sm_120` in its strings are the CUDA runtime's table of names and say nothing. What counts there are the kernels that
it knows to generate, `deep_gemm/impls/sm120_….cuh`, by name. Extensions with machine code carry fat binaries, whose
entries name their architecture (compressed or not).
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.utils import canonicalize_name

from patchkit.errors import RequestError

PACKAGES = ("torch", "vllm", "deep-gemm", "flashinfer-python", "flashinfer", "triton")
DEEP_GEMM_FOLDERS = ("deep_gemm", "vllm/third_party/deep_gemm", "deep_gemm_cpp")
KERNEL = re.compile(rb"deep_gemm/impls/sm(\d{2,3})_[a-z0-9_]+")
HEADER = re.compile(r"sm(\d{2,3})_\w+\.cuh")

FATBIN_MAGIC = b"\x50\xed\x55\xba"  # 0xBA55ED50, little-endian
FATBIN = struct.Struct("<4sHHQ")  # magic, version, bytes of this header, bytes of the entries
ENTRY = struct.Struct("<HHIQIIHHI")  # kind, version, bytes of this header, bytes of content, …, architecture last
PTX, MACHINE_CODE = 1, 2
ELF_MAGIC = b"\x7fELF\x02\x01\x01"  # a 64-bit, little-endian ELF file
ELF_HEADER_BYTES = 64
CUDA_MACHINE = 190  # EM_CUDA
WIDE_FLAGS_SINCE = 8  # the ABI version from which the architecture lies in the second byte of e_flags, not the first


@dataclass(frozen=True)
class Extension:
    """One compiled extension. `machine_code` and `ptx` are architectures (sm_90) that it carries.

    `generates` are those whose kernels it names to compile at run time. `evidence` says how sure that is.
    """

    file: str
    machine_code: tuple[str, ...]
    ptx: tuple[str, ...]
    generates: tuple[str, ...]
    evidence: str


@dataclass(frozen=True)
class Installed:
    """What was found. A package that is not there has no version."""

    versions: dict[str, str]
    deep_gemm: tuple[Extension, ...]
    headers: tuple[str, ...]  # architectures that DeepGEMM's kernel sources lie there for

    def find_families(self) -> frozenset[int]:
        """Return the major architectures (9, 10, 12) that the installed DeepGEMM has kernels for in any form."""
        named = [arch for one in self.deep_gemm for arch in (*one.machine_code, *one.generates)]
        return frozenset(int(re.sub(r"\D", "", arch)) // 10 for arch in (*named, *self.headers))


def read_installed(site_packages: Path) -> Installed:
    """Read the facts of a site-packages folder; nothing is imported or run.

    Raises `RequestError` where it is no folder.
    """
    if not site_packages.is_dir():
        raise RequestError(f"{site_packages}: no such folder", "python -c 'import site; print(site.getsitepackages())'")
    folders = [site_packages / name for name in DEEP_GEMM_FOLDERS if (site_packages / name).is_dir()]
    loose = set(site_packages.glob("deep_gemm*.so")) | set(site_packages.glob("vllm/_deep_gemm*.so"))
    files = sorted({file for folder in folders for file in folder.rglob("*.so")} | loose)
    headers = {found[1] for folder in folders for file in folder.rglob("*.cuh") if (found := HEADER.match(file.name))}
    return Installed(
        versions=dict(_read_versions(site_packages)),
        deep_gemm=tuple(read_extension(file, str(file.relative_to(site_packages))) for file in files),
        headers=tuple(f"sm_{number}" for number in sorted(headers, key=int)),
    )


def _read_versions(site_packages: Path) -> Iterator[tuple[str, str]]:
    for metadata in sorted(site_packages.glob("*.dist-info/METADATA")):
        told = HeaderParser().parsestr(metadata.read_text(encoding="utf-8", errors="replace"), headersonly=True)
        name = canonicalize_name(told.get("Name", ""))
        if name in PACKAGES:
            yield str(name), told.get("Version", "")


def read_extension(file: Path, name: str) -> Extension:
    """Read which architectures an extension carries; `name` is what it is called in the answer."""
    with file.open("rb") as opened:
        if not file.stat().st_size:
            return Extension(name, (), (), (), "an empty file")
        with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            entries = set(_read_fatbins(data)) | {(MACHINE_CODE, arch) for arch in _read_cubins(data)}
            generated = {int(found[1]) for found in KERNEL.finditer(data)}
    code = _names(arch for kind, arch in entries if kind == MACHINE_CODE)
    ptx = _names(arch for kind, arch in entries if kind == PTX)
    return Extension(name, code, ptx, _names(generated), _judge(bool(entries), bool(generated)))


def _judge(has_entries: bool, has_names: bool) -> str:
    if has_entries:
        return "sure: entries of its fat binaries name their architecture"
    if has_names:
        return "likely: it names the kernels that it compiles at run time; whether they compile needs the hardware"
    return "unknown: neither machine code nor names of kernels"


def _names(architectures: Iterator[int] | set[int]) -> tuple[str, ...]:
    return tuple(f"sm_{number}" for number in sorted(set(architectures)))


def _read_fatbins(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Yield kind and architecture (90, 121) of every entry of every fat binary."""
    start = data.find(FATBIN_MAGIC)
    while start >= 0:
        if start + FATBIN.size <= len(data):
            _, _, header, size = FATBIN.unpack_from(data, start)
            yield from _read_entries(data, start + header, min(start + header + size, len(data)))
        start = data.find(FATBIN_MAGIC, start + 4)


def _read_entries(data: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int]]:
    while at + ENTRY.size <= end:
        kind, _, header, size, *_, arch = ENTRY.unpack_from(data, at)
        if kind not in (PTX, MACHINE_CODE) or header < ENTRY.size or not 10 <= arch <= 999:
            return  # not a fat binary, or of a form that is not known
        yield kind, arch
        at += header + size


def _read_cubins(data: mmap.mmap) -> Iterator[int]:
    """Yield the architecture of every CUDA ELF file that lies in the data as it is, from its e_flags."""
    start = data.find(ELF_MAGIC)
    while start >= 0:
        header = data[start : start + ELF_HEADER_BYTES]
        if len(header) == ELF_HEADER_BYTES and int.from_bytes(header[18:20], "little") == CUDA_MACHINE:
            yield header[49] if header[8] >= WIDE_FLAGS_SINCE else header[48]
        start = data.find(ELF_MAGIC, start + 4)
