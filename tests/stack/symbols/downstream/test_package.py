"""A package on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.errors import RequestError
from patchkit.stack.symbols.downstream.package import read_downstream
from patchkit.stack.symbols.downstream.use import Kind


def package(tmp_path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "plugin"


def test_all_files_are_read_and_named_from_beside_the_folder(tmp_path: Path) -> None:
    folder = package(
        tmp_path,
        {
            "plugin/__init__.py": "",
            "plugin/deep/a.py": "from vllm import x\nfrom ..b import y\n",
            "plugin/.cache/b.py": "from vllm import hidden\n",
            "plugin/bad.py": "from vllm import (\n",
            "plugin/data.txt": "import vllm",
        },
    )
    found = read_downstream(folder, "vllm")
    assert [(use.symbol, use.file, use.line) for use in found.uses] == [("vllm.x", "plugin/deep/a.py", 1)]
    assert found.files == 3
    assert [complaint.partition(":")[0] for complaint in found.unreadable] == ["plugin/bad.py"]


def test_groups_of_entry_points_are_found_in_both_files(tmp_path: Path) -> None:
    setup = 'setup(entry_points={"vllm.general_plugins": ["a = p:f"], "other": []})\n'
    project = '[project.entry-points."vllm.platform_plugins"]\na = "p:f"\n'
    folder = package(tmp_path, {"plugin/a.py": "import vllm\n", "setup.py": setup, "pyproject.toml": project})
    found = [use for use in read_downstream(folder, "vllm").uses if use.kind is Kind.PLUGIN]
    assert [(use.symbol, use.file, use.line) for use in found] == [
        ("vllm.general_plugins", "setup.py", 1),
        ("vllm.platform_plugins", "pyproject.toml", 1),
    ]
    (tmp_path / "pyproject.toml").write_text("no [toml")
    (tmp_path / "setup.py").write_text("no python (")
    assert [use.kind for use in read_downstream(folder, "vllm").uses] == [Kind.IMPORT]


def test_a_folder_that_uses_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no file of it uses vllm"):
        read_downstream(package(tmp_path, {"plugin/a.py": "x = 1\n"}), "vllm")
    with pytest.raises(RequestError, match="is no folder"):
        read_downstream(tmp_path / "nothing", "vllm")
