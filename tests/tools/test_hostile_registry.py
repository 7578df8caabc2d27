"""A registry that means harm gets no secret, fills no disk and no memory, and ends in one clear error."""

from __future__ import annotations

import base64
import contextlib
import errno
import gzip
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from patchkit.errors import PatchkitError, RemoteUnavailable, RequestError, StoreFailure
from patchkit.image.base import open_base
from patchkit.tools.cache import Cache
from patchkit.tools.registry import Registry, parse_reference
from patchkit.tools.toolkit import Toolkit
from patchkit.tools.web.patience import DOCUMENT_BYTES
from tests.support.registry import MisbehavingRegistry, answer_with, digest, serving

BLOB = bytes(range(256)) * 100
MANIFEST = b'{"config": {}, "layers": []}'
BASIC = f"Basic {base64.b64encode(b'ada:s3cret').decode()}"


@pytest.fixture
def remote() -> Iterator[MisbehavingRegistry]:
    with serving() as registry:
        yield registry


@pytest.fixture
def other() -> Iterator[MisbehavingRegistry]:
    with serving() as registry:
        yield registry


def connect(remote: MisbehavingRegistry, tmp_path: Path) -> Registry:
    log_in(tmp_path, remote.host)
    return Registry(toolkit_of(tmp_path), parse_reference(f"{remote.host}/team/image:1"))


def toolkit_of(tmp_path: Path) -> Toolkit:
    return Toolkit(Cache(tmp_path / "store"), env={"HOME": str(tmp_path)})


def log_in(tmp_path: Path, host: str) -> None:
    (tmp_path / ".docker").mkdir(exist_ok=True)
    auth = {"auths": {host: {"auth": BASIC.removeprefix("Basic ")}}}
    (tmp_path / ".docker" / "config.json").write_text(json.dumps(auth))


def redirect_to(url: str, status: int = 307) -> dict[str, str]:
    return {"Location": url}


def challenge(remote: MisbehavingRegistry, path: str, value: str) -> None:
    """Let a path answer once with a challenge to whoever has no Authorization yet, and for ever to the others too."""
    remote.give(path, b"", 401, WWW_Authenticate=value)


def test_credentials_do_not_follow_a_redirect_to_another_host(
    remote: MisbehavingRegistry, other: MisbehavingRegistry, tmp_path: Path
) -> None:
    other.give("/stolen", MANIFEST)
    elsewhere = answer_with(b"", 307, Location=f"http://{other.host}/v2/team/image/stolen")

    def once_known(handler: BaseHTTPRequestHandler) -> None:
        known = handler.headers.get("Authorization") == BASIC
        (elsewhere if known else answer_with(b"", 401, WWW_Authenticate='Basic realm="x"'))(handler)

    remote.answers["/v2/team/image/manifests/1"] = once_known
    connect(remote, tmp_path).read_manifest("1")
    assert [headers.get("Authorization") for _, headers in remote.asked] == [None, BASIC]
    assert [headers.get("Authorization") for _, headers in other.asked] == [None]


def test_a_registry_that_never_lets_in_is_asked_twice_and_no_more(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    challenge(remote, "/manifests/1", 'Basic realm="x"')
    with pytest.raises(RemoteUnavailable, match="401"):
        connect(remote, tmp_path).read_manifest("1")
    assert len(remote.asked) == 2


def test_a_token_server_that_asks_for_a_token_is_asked_once(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    challenge(remote, "/manifests/1", f'Bearer realm="http://{remote.host}/v2/team/image/token"')
    challenge(remote, "/token", f'Bearer realm="http://{remote.host}/v2/team/image/token"')
    with pytest.raises(RemoteUnavailable, match="401"):
        connect(remote, tmp_path).read_manifest("1")
    assert len(remote.asked) == 2


def test_redirects_that_never_end_are_told(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    remote.give("/manifests/1", b"", 307, Location=f"http://{remote.host}/v2/team/image/manifests/1")
    with pytest.raises(RemoteUnavailable, match="redirects"):
        connect(remote, tmp_path).read_manifest("1")
    assert len(remote.asked) < 50


@pytest.mark.parametrize("location", ["file:///etc/passwd", "gopher://x/", "http://", "//", "http://[::1"])
def test_a_redirect_to_what_is_no_web_page_reads_nothing(
    remote: MisbehavingRegistry, tmp_path: Path, location: str
) -> None:
    remote.give("/manifests/1", b"", 307, Location=location)
    with pytest.raises(RemoteUnavailable):
        connect(remote, tmp_path).read_manifest("1")


@pytest.mark.parametrize("realm", ["http://127.0.0.1:9/token", "file:///etc/passwd", "ftp://x"])
def test_a_password_is_never_sent_unencrypted_for_an_encrypted_registry(
    tmp_path: Path, realm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(tmp_path, "registry.example.org")
    registry = Registry(toolkit_of(tmp_path), parse_reference("registry.example.org/team/image:1"))
    with pytest.raises(RemoteUnavailable, match="unencrypted"):
        registry._answer(registry._connect(), f'Bearer realm="{realm}",service="s"')


@pytest.mark.parametrize("token", ['"a\\nb"', '"tök"', "7", "null", '""', '"t0p s3cret"'])
def test_a_token_that_is_none_is_not_sent_and_not_told(remote: MisbehavingRegistry, tmp_path: Path, token: str) -> None:
    challenge(remote, "/manifests/1", f'Bearer realm="http://{remote.host}/v2/team/image/token"')
    remote.give("/token", f'{{"token": {token}}}'.encode())
    with pytest.raises(RemoteUnavailable, match="gives no token") as caught:
        connect(remote, tmp_path).read_manifest("1")
    assert "s3cret" not in str(caught.value)


def test_what_a_signed_url_is_signed_with_is_not_told(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    signed = "http://127.0.0.1:9/blob?X-Signature=t0ps3cret&user=ada"
    remote.give(f"/blobs/{digest(BLOB)}", b"", 307, Location=signed)
    with pytest.raises(RemoteUnavailable, match="does not answer") as caught:
        connect(remote, tmp_path).download_blob(digest(BLOB), len(BLOB))
    assert "s3cret" not in caught.value.message
    assert caught.value.__cause__ is None  # nor by -v


def test_netrc_does_not_stand_in_for_the_token(
    remote: MisbehavingRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text(f"machine {remote.host.partition(':')[0]} login eve password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    challenge(remote, "/manifests/1", 'Basic realm="x"')
    with pytest.raises(RemoteUnavailable, match="401"):
        connect(remote, tmp_path).read_manifest("1")
    assert [headers.get("Authorization") for _, headers in remote.asked] == [None, BASIC]


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(bytes(1 << 16))


def test_a_blob_without_end_is_left_at_its_size_and_nothing_of_it_is_kept(
    remote: MisbehavingRegistry, tmp_path: Path
) -> None:
    remote.answers[f"/v2/team/image/blobs/{digest(BLOB)}"] = endless
    with pytest.raises(RemoteUnavailable, match=f"more than {len(BLOB)} bytes are sent"):
        connect(remote, tmp_path).download_blob(digest(BLOB), len(BLOB))
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file() and path.stat().st_size] == []


def test_a_manifest_without_end_is_left(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    remote.answers["/v2/team/image/manifests/1"] = endless
    with pytest.raises(RemoteUnavailable, match=f"more than {DOCUMENT_BYTES >> 20} MiB"):
        connect(remote, tmp_path).read_manifest("1")


def test_a_blob_that_no_disk_has_room_for_is_not_begun(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    remote.answers[f"/v2/team/image/blobs/{digest(BLOB)}"] = endless
    with pytest.raises(StoreFailure, match="no room for a blob of 1000000000\\.0 GB") as caught:
        connect(remote, tmp_path).download_blob(digest(BLOB), 10**18)
    assert "free space" in caught.value.hint
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.ENOSPC
    assert remote.asked == []


def test_an_answer_compressed_unasked_is_not_unpacked(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(50_000_000), 9)
    remote.give("/manifests/1", bomb, Content_Encoding="gzip")
    with pytest.raises(RemoteUnavailable, match="not asked for"):
        connect(remote, tmp_path).read_manifest("1")


@pytest.mark.parametrize(
    "answer", ["[]", "7", "null", "[" * 100_000, '{"a": ' * 100_000, "\ud800", '"' + "9" * 5000, "9" * 5000]
)
def test_what_is_no_manifest_is_told(remote: MisbehavingRegistry, tmp_path: Path, answer: str) -> None:
    remote.give("/manifests/1", answer.encode("utf-8", "surrogatepass"))
    with pytest.raises(RemoteUnavailable, match="sent no"):
        open_base(toolkit_of(tmp_path), f"{remote.host}/team/image:1", tmp_path)


@pytest.mark.parametrize(
    "manifest",
    [
        {"manifests": 7},
        {"manifests": [{"digest": 7}]},
        {"manifests": [{"digest": {}}]},
        {"manifests": [{"digest": "sha256:x", "platform": 7}]},
        {"manifests": [{"digest": "../../../etc/passwd"}]},
        {"config": [], "layers": []},
        {"config": {"digest": 7}, "layers": []},
        {"config": {"digest": "sha256:../x"}, "layers": []},
    ],
)
def test_a_manifest_of_another_shape_is_told(remote: MisbehavingRegistry, tmp_path: Path, manifest: object) -> None:
    remote.give("/manifests/1", json.dumps(manifest).encode())
    with pytest.raises(RemoteUnavailable):
        open_base(toolkit_of(tmp_path), f"{remote.host}/team/image:1", tmp_path)


@pytest.mark.parametrize("size", [None, "9", -1, 1.5, 0])
def test_a_layer_whose_size_lies_is_told(remote: MisbehavingRegistry, tmp_path: Path, size: object) -> None:
    config = json.dumps({"rootfs": {"diff_ids": [digest(BLOB)]}}).encode()
    layer = {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest(BLOB), "size": size}
    manifest = {"config": {"digest": digest(config)}, "layers": [layer]}
    remote.give("/manifests/1", json.dumps(manifest).encode())
    remote.give(f"/blobs/{digest(config)}", config)
    remote.give(f"/blobs/{digest(BLOB)}", BLOB)
    with pytest.raises(RemoteUnavailable, match="bytes"):
        open_base(toolkit_of(tmp_path), f"{remote.host}/team/image:1", tmp_path)


@pytest.mark.parametrize(
    "config",
    [
        "no JSON",
        "[]",
        "null",
        '{"auths": null}',
        '{"auths": []}',
        '{"auths": {"HOST": 7}}',
        '{"auths": {"HOST": {"auth": null}}}',
        '{"credsStore": 7, "credHelpers": "x"}',
        '{"credsStore": "../../bin/sh"}',
        "[" * 100_000,
    ],
)
def test_a_docker_config_of_another_shape_means_nobody_is_logged_in(
    remote: MisbehavingRegistry, tmp_path: Path, config: str
) -> None:
    registry = connect(remote, tmp_path)
    (tmp_path / ".docker" / "config.json").write_text(config.replace("HOST", remote.host))
    challenge(remote, "/manifests/1", 'Basic realm="x"')
    with pytest.raises(RemoteUnavailable, match="401") as caught:
        registry.read_manifest("1")
    assert "docker login" in caught.value.hint


@pytest.mark.parametrize("auth", ['"a"', "7", '["x"]'])
def test_credentials_that_docker_did_not_write_are_told_and_not_shown(
    remote: MisbehavingRegistry, tmp_path: Path, auth: str
) -> None:
    registry = connect(remote, tmp_path)
    (tmp_path / ".docker" / "config.json").write_text(f'{{"auths": {{"{remote.host}": {{"auth": {auth}}}}}}}')
    challenge(remote, "/manifests/1", 'Basic realm="x"')
    with pytest.raises(RequestError, match="not what docker login writes"):
        registry.read_manifest("1")


@pytest.mark.parametrize("prints", ["", "no JSON", "[]", '{"Secret": "s3cret"}', '{"Username": 1, "Secret": 2}'])
def test_a_helper_that_says_something_else_means_nobody_is_logged_in(
    remote: MisbehavingRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prints: str
) -> None:
    registry = connect(remote, tmp_path)
    helper = tmp_path / "docker-credential-odd"
    helper.write_text(f"#!/bin/sh\necho '{prints}'\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / ".docker" / "config.json").write_text('{"credsStore": "odd"}')
    challenge(remote, "/manifests/1", 'Basic realm="x"')
    with pytest.raises(RemoteUnavailable, match="401") as caught:
        registry.read_manifest("1")
    assert "s3cret" not in str(caught.value)


def test_no_error_tells_the_password(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    registry = connect(remote, tmp_path)
    spoiled = [
        answer_with(b"", 500),
        answer_with(b"", 403),
        answer_with(b"", 307, Location="http://127.0.0.1:9/"),
        answer_with(b"x", 200),
        endless,
    ]
    for spoil in spoiled:

        def once_known(handler: BaseHTTPRequestHandler, spoil: object = spoil) -> None:
            known = handler.headers.get("Authorization") == BASIC
            (spoil if known else answer_with(b"", 401, WWW_Authenticate='Basic realm="x"'))(handler)  # type: ignore[operator]

        remote.answers["/v2/team/image/manifests/1"] = once_known
        with pytest.raises(PatchkitError) as caught:
            registry.read_manifest("1")
        told = caught.value.message + caught.value.hint
        assert "s3cret" not in told
        assert BASIC.removeprefix("Basic ") not in told
