"""One document over HTTP: what is wrong is told with the URL, without its password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from patchkit.tools.web.download import fetch_document
from tests.support.forge import Forge, serving


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    with serving(tmp_path / "forge") as forge:
        yield forge


def test_a_document_is_what_the_server_sends(forge: Forge, toolkit: Toolkit) -> None:
    forge.files["/team/product/pull/7.diff"] = b"diff\xff\n"
    assert fetch_document(toolkit, f"{forge.url}/team/product/pull/7.diff") == b"diff\xff\n"


def test_a_refusal_is_told_without_the_password(forge: Forge, toolkit: Toolkit) -> None:
    url = forge.url.replace("http://", "http://me:secret@")
    with pytest.raises(RemoteUnavailable, match="answers 404") as caught:
        fetch_document(toolkit, f"{url}/nix.diff")
    assert "secret" not in caught.value.message + caught.value.hint


def test_a_server_that_is_not_there_is_told(toolkit: Toolkit) -> None:
    with pytest.raises(RemoteUnavailable, match="does not answer"):
        fetch_document(toolkit, "http://127.0.0.1:9/x.diff")


def test_offline_nothing_is_fetched(forge: Forge, tmp_path: Path) -> None:
    with pytest.raises(RemoteUnavailable, match="offline"):
        fetch_document(Toolkit(Cache(tmp_path / "store"), offline=True), f"{forge.url}/x.diff")
    assert forge.asked == []


@pytest.mark.parametrize("url", ["ftp://example.org/x", "http:///x", "file:///etc/passwd"])
def test_other_protocols_are_refused(toolkit: Toolkit, url: str) -> None:
    with pytest.raises(RequestError, match="is no http"):
        fetch_document(toolkit, url)
