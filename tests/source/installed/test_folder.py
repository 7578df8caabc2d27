"""What is installed in a folder: found by name, read whole, and refused where its files are not its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.errors import RequestError
from patchkit.source.installed.folder import find_info, peek_version, read_installed
from tests.support.wheels import FILES, install, make_wheel


@pytest.fixture
def site(tmp_path: Path) -> Path:
    install(make_wheel(tmp_path), tmp_path / "site")
    return tmp_path / "site"


def read(site: Path) -> dict[str, bytes]:
    info = find_info(site, "vllm")
    assert info is not None
    return dict(read_installed(site, info).contents)


def test_the_text_files_of_the_package_are_read_and_nothing_else(site: Path) -> None:
    assert read(site) == {path: text.encode() for path, text in FILES.items() if not path.endswith(".so")}


def test_a_name_is_compared_as_packaging_tools_do(site: Path, tmp_path: Path) -> None:
    install(make_wheel(tmp_path, {"a/b.py": ""}, "Some_Thing", "1"), site)
    found = find_info(site, "some-thing")
    assert found is not None
    assert (found.name, peek_version(site, "some.thing")) == ("Some_Thing-1.dist-info", "1")
    assert find_info(site, "thing") is None
    assert peek_version(site, "thing") is None


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda site: (site / "vllm/x.py").write_text("mine\n"), "not the files of vllm 0.26.0: vllm/x.py"),
        (lambda site: (site / "vllm/x.py").unlink(), "not the files of vllm 0.26.0: vllm/x.py"),
        (lambda site: (site / "vllm-0.26.0.dist-info/RECORD").unlink(), "has no RECORD"),
        (lambda site: (site / "vllm-0.25.0.dist-info").mkdir(), "more than once"),
        (lambda site: (site / "vllm-0.26.0.dist-info/METADATA").write_text("Name: vllm\nVersion: x y\n"), "PEP 440"),
    ],
)
def test_what_is_not_as_it_was_installed_is_refused(site: Path, spoil: object, told: str) -> None:
    assert callable(spoil)
    spoil(site)
    with pytest.raises(RequestError, match=told):
        read(site)


@pytest.mark.parametrize("outside", [True, False])
def test_a_link_is_not_followed(site: Path, tmp_path: Path, outside: bool) -> None:
    target = (tmp_path if outside else site) / "elsewhere"
    (site / "vllm/sub").rename(target)
    (site / "vllm/sub").symlink_to(target)
    with pytest.raises(RequestError, match="is a link out of" if outside else "is a link to"):
        read(site)


def test_an_editable_install_is_told_with_its_checkout(site: Path) -> None:
    document = {"url": "file:///src/vllm", "dir_info": {"editable": True}}
    (site / "vllm-0.26.0.dist-info/direct_url.json").write_text(json.dumps(document))
    with pytest.raises(RequestError, match="editable install of /src/vllm") as caught:
        read(site)
    assert "/src/vllm" in caught.value.hint


def test_an_editable_install_of_the_old_kind_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "vllm.egg-link").write_text("/src/vllm\n.")
    with pytest.raises(RequestError, match="editable install of /src/vllm"):
        find_info(tmp_path, "vllm")


def test_an_install_from_a_file_is_not_an_editable_one(site: Path) -> None:
    (site / "vllm-0.26.0.dist-info/direct_url.json").write_text('{"url": "file:///x.whl", "archive_info": {}}')
    assert read(site)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is no folder"):
        find_info(tmp_path / "nowhere", "vllm")
