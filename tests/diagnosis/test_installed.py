"""What an environment holds is read from its files: fat binaries, ELF headers, names of kernels; never from strings."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from patchkit.diagnosis.installed import read_extension, read_installed
from patchkit.errors import RequestError

PTX, MACHINE_CODE = 1, 2
# The CUDA runtime's table of names, which every extension that is linked with it carries.
RUNTIME_TABLE = b"sm_35\0sm_50\0sm_90\0sm_100\0sm_120\0sm_121\0"


def entry(kind: int, arch: int, content: bytes = b"\1" * 24) -> bytes:
    """One entry of a fat binary, as nvcc writes it: a header of 64 bytes, then the content (compressed or not)."""
    return struct.pack("<HHIQIIHHI", kind, 0x101, 64, len(content), 0, 0, 0, 1, arch).ljust(64, b"\0") + content


def fatbin(*entries: bytes) -> bytes:
    content = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(content)) + content


def cubin(flags: int, abi: int, machine: int = 190) -> bytes:
    header = b"\x7fELF\x02\x01\x01\x33" + bytes([abi]) + b"\0" * 7
    return header + struct.pack("<HHIQQQI", 2, machine, 1, 0, 0, 0, flags).ljust(48, b"\0")


def extension(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "_C.so"
    path.write_bytes(b"\x7fELF\x02\x01\x01\x03" + b"\0" * 56 + RUNTIME_TABLE + content)
    return path


def test_the_entries_of_fat_binaries_name_their_architecture(tmp_path: Path) -> None:
    content = fatbin(entry(MACHINE_CODE, 90), entry(MACHINE_CODE, 121), entry(PTX, 80)) + b"\7" * 100
    found = read_extension(extension(tmp_path, content + fatbin(entry(MACHINE_CODE, 100))), "_C.so")
    assert found.machine_code == ("sm_90", "sm_100", "sm_121")
    assert found.ptx == ("sm_80",)
    assert found.evidence.startswith("sure")


def test_names_of_architectures_in_strings_are_no_evidence(tmp_path: Path) -> None:
    found = read_extension(extension(tmp_path, b""), "_C.so")
    assert (found.machine_code, found.ptx, found.generates) == ((), (), ())
    assert found.evidence.startswith("unknown")


def test_kernels_that_are_compiled_at_run_time_are_found_by_name(tmp_path: Path) -> None:
    names = b"#include <deep_gemm/impls/sm90_bf16_gemm.cuh>\0#include <deep_gemm/impls/sm100_bf16_gemm.cuh>\0"
    found = read_extension(extension(tmp_path, names + b"deep_gemm/impls/smxx_layout.cuh\0"), "_C.so")
    assert (found.machine_code, found.generates) == ((), ("sm_90", "sm_100"))
    assert found.evidence.startswith("likely")


@pytest.mark.parametrize(("flags", "abi", "arch"), [(0x5A055A, 7, "sm_90"), (0x06007902, 8, "sm_121")])
def test_machine_code_that_lies_there_as_it_is_is_read_from_its_flags(
    tmp_path: Path, flags: int, abi: int, arch: str
) -> None:
    content = cubin(flags, abi) + cubin(0x50, 7, machine=62)
    assert read_extension(extension(tmp_path, content), "_C.so").machine_code == (arch,)


@pytest.mark.parametrize("cut", range(0, 200, 7))
def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path, cut: int) -> None:
    content = fatbin(entry(MACHINE_CODE, 90), entry(MACHINE_CODE, 100))
    found = read_extension(extension(tmp_path, content[:cut]), "_C.so")
    assert set(found.machine_code) <= {"sm_90", "sm_100"}


def test_a_magic_number_by_chance_is_no_fat_binary(tmp_path: Path) -> None:
    content = struct.pack("<I", 0xBA55ED50) + b"\xff" * 400 + struct.pack("<I", 0xBA55ED50) + b"\0" * 400
    assert read_extension(extension(tmp_path, content), "_C.so").machine_code == ()


def test_an_empty_file_carries_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.so").touch()
    assert read_extension(tmp_path / "empty.so", "empty.so").evidence == "an empty file"


def site(tmp_path: Path, kernels: tuple[int, ...]) -> Path:
    """A site-packages with vLLM, torch and a DeepGEMM that names kernels for these architectures."""
    for name, version in (("vllm", "0.33.0"), ("torch", "2.14.0"), ("flashinfer_python", "0.7.2"), ("numpy", "2.4")):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\nversion: 9\n")
    folder = tmp_path / "vllm/third_party/deep_gemm/include/deep_gemm/impls"
    folder.mkdir(parents=True)
    names = b"\0".join(b"deep_gemm/impls/sm%d_bf16_gemm.cuh" % number for number in kernels)
    extension(tmp_path / "vllm/third_party/deep_gemm", names)
    for number in kernels:
        (folder / f"sm{number}_bf16_gemm.cuh").touch()
    return tmp_path


def test_versions_come_from_the_metadata(tmp_path: Path) -> None:
    versions = read_installed(site(tmp_path, ())).versions
    assert versions == {"vllm": "0.33.0", "torch": "2.14.0", "flashinfer-python": "0.7.2"}


def test_the_families_are_those_that_the_installed_deep_gemm_has_kernels_for(tmp_path: Path) -> None:
    installed = read_installed(site(tmp_path, (90, 100, 120)))
    assert installed.find_families() == {9, 10, 12}
    assert installed.headers == ("sm_90", "sm_100", "sm_120")
    assert [one.file for one in installed.deep_gemm] == ["vllm/third_party/deep_gemm/_C.so"]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no such folder"):
        read_installed(tmp_path / "nothing")
