from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.tools.cache import Cache
from patchkit.tools.registry import Registry, parse_reference
from patchkit.tools.toolkit import Toolkit
from tests.support.registry import MisbehavingRegistry, digest, serving

BLOB = bytes(range(256)) * 10_000  # more than two of the chunks that are written at once
MANIFEST = json.dumps({"config": {}, "layers": []}).encode()


@pytest.fixture
def remote() -> Iterator[MisbehavingRegistry]:
    with serving() as registry:
        yield registry


def connect(remote: MisbehavingRegistry, tmp_path: Path, offline: bool = False, **env: str) -> Registry:
    toolkit = Toolkit(Cache(tmp_path / "store"), env={"HOME": str(tmp_path), **env}, offline=offline)
    return Registry(toolkit, parse_reference(f"{remote.host}/team/image:1"))


@pytest.mark.parametrize(
    ("text", "full", "familiar"),
    [
        ("ubuntu", "docker.io/library/ubuntu:latest", "ubuntu:latest"),
        ("vllm/vllm-openai:v0.26.0", "docker.io/vllm/vllm-openai:v0.26.0", "vllm/vllm-openai:v0.26.0"),
        ("localhost:5000/a/b:1", "localhost:5000/a/b:1", "localhost:5000/a/b:1"),
        ("ghcr.io/o/n", "ghcr.io/o/n:latest", "ghcr.io/o/n:latest"),
        ("[::1]:5000/x:1", "[::1]:5000/x:1", "[::1]:5000/x:1"),
    ],
)
def test_names_are_read_as_docker_reads_them(text: str, full: str, familiar: str) -> None:
    reference = parse_reference(text)
    assert (reference.full, reference.familiar) == (full, familiar)


@pytest.mark.parametrize("text", ["", "UPPER", "a b", "-x", "a/../b", "a:b:c", "x@sha256:12", "x" * 600, "a:\n"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="not the name of an image"):
        parse_reference(text)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost:5000/a", "http://localhost:5000/v2/a"),
        ("127.0.0.1/a", "http://127.0.0.1/v2/a"),
        ("localhost.example.org/a", "https://localhost.example.org/v2/a"),
        ("127.0.0.1.example.org/a", "https://127.0.0.1.example.org/v2/a"),
        ("ghcr.io/a", "https://ghcr.io/v2/a"),
    ],
)
def test_plain_http_is_for_this_machine_only(text: str, url: str) -> None:
    assert parse_reference(text).api == url


def test_a_manifest_with_other_bytes_than_asked_for_is_refused(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    asked = digest(b"something else")
    remote.give(f"/manifests/{asked}", MANIFEST)
    with pytest.raises(RemoteUnavailable, match=asked):
        connect(remote, tmp_path).read_manifest(asked)


def test_a_tag_whose_digest_header_lies_is_refused(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    remote.give("/manifests/1", MANIFEST, Docker_Content_Digest=digest(b"other"))
    with pytest.raises(RemoteUnavailable, match="not the"):
        connect(remote, tmp_path).read_manifest("1")


def test_a_blob_with_other_bytes_is_refused_and_not_kept(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    remote.give(f"/blobs/{digest(BLOB)}", BLOB[:-1] + b"x")
    with pytest.raises(RemoteUnavailable, match="are others"):
        connect(remote, tmp_path).download_blob(digest(BLOB), len(BLOB))
    remote.give(f"/blobs/{digest(BLOB)}", BLOB)
    assert connect(remote, tmp_path).download_blob(digest(BLOB), len(BLOB)).read_bytes() == BLOB


def test_a_download_that_broke_off_is_resumed(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    def break_off(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(BLOB)))
        handler.end_headers()
        handler.wfile.write(BLOB[:1_500_000])

    def resume(handler: BaseHTTPRequestHandler) -> None:
        start = int((handler.headers.get("Range") or "bytes=0-")[6:-1])
        handler.send_response(206)
        handler.send_header("Content-Length", str(len(BLOB) - start))
        handler.end_headers()
        handler.wfile.write(BLOB[start:])

    path = f"/v2/team/image/blobs/{digest(BLOB)}"
    remote.answers[path] = break_off
    with pytest.raises(RemoteUnavailable, match="does not answer"):
        connect(remote, tmp_path).download_blob(digest(BLOB), len(BLOB))
    remote.answers[path] = resume
    assert connect(remote, tmp_path).download_blob(digest(BLOB), len(BLOB)).read_bytes() == BLOB
    assert int(remote.asked[-1][1]["Range"][6:-1]) > 0


def test_what_the_store_has_is_not_fetched_again_even_offline(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    remote.give(f"/blobs/{digest(BLOB)}", BLOB)
    remote.give("/manifests/1", MANIFEST)
    online = connect(remote, tmp_path)
    online.download_blob(digest(BLOB), len(BLOB))
    online.read_manifest("1")
    offline = connect(remote, tmp_path, offline=True)
    assert offline.download_blob(digest(BLOB), len(BLOB)).read_bytes() == BLOB
    assert offline.read_manifest(digest(MANIFEST))[1] == json.loads(MANIFEST)
    with pytest.raises(RemoteUnavailable, match="offline"):
        offline.read_manifest("1")
    assert len(remote.asked) == 2


def ask_for_token(remote: MisbehavingRegistry) -> None:
    """Let the registry want a token that its token server gives to Ada only."""

    def challenge(handler: BaseHTTPRequestHandler) -> None:
        if handler.headers.get("Authorization") == "Bearer t0ken":
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(MANIFEST)))
            handler.end_headers()
            handler.wfile.write(MANIFEST)
            return
        handler.send_response(401)
        realm = f'Bearer realm="http://{remote.host}/token",service="s",scope="repository:team/image:pull"'
        handler.send_header("WWW-Authenticate", realm)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def token(handler: BaseHTTPRequestHandler) -> None:
        expected = f"Basic {base64.b64encode(b'ada:secret').decode()}"
        known = handler.headers.get("Authorization") == expected
        body = b'{"token": "t0ken"}' if known else b"{}"
        handler.send_response(200 if known else 401)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    remote.answers |= {"/v2/team/image/manifests/1": challenge, "/token": token}


def test_a_token_is_asked_for_with_the_credentials_of_docker_login(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    ask_for_token(remote)
    (tmp_path / ".docker").mkdir()
    auth = {"auths": {remote.host: {"auth": base64.b64encode(b"ada:secret").decode()}}}
    (tmp_path / ".docker" / "config.json").write_text(json.dumps(auth))
    assert connect(remote, tmp_path).read_manifest("1")[0] == digest(MANIFEST)
    assert "scope=repository%3Ateam%2Fimage%3Apull" in remote.asked[1][0]


def test_a_credential_helper_is_asked_where_docker_names_one(
    remote: MisbehavingRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_for_token(remote)
    helper = tmp_path / "docker-credential-test"
    helper.write_text('#!/bin/sh\necho \'{"Username": "ada", "Secret": "secret"}\'\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "config.json").write_text(json.dumps({"credsStore": "test"}))
    registry = connect(remote, tmp_path, DOCKER_CONFIG=str(tmp_path))
    assert registry.read_manifest("1")[0] == digest(MANIFEST)


def test_no_credentials_end_in_a_hint_to_log_in(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    ask_for_token(remote)
    with pytest.raises(RemoteUnavailable, match="401") as caught:
        connect(remote, tmp_path).read_manifest("1")
    assert f"docker login {remote.host}" in caught.value.hint


def test_a_missing_image_is_told(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    with pytest.raises(RemoteUnavailable, match=r"team/image:1.*404") as caught:
        connect(remote, tmp_path).read_manifest("1")
    assert "no such image" in caught.value.hint


def test_a_registry_that_nobody_runs_is_told(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    remote.host = "127.0.0.1:9"
    with pytest.raises(RemoteUnavailable, match="does not answer"):
        connect(remote, tmp_path).read_manifest("1")


def test_a_digest_that_is_a_path_is_refused(remote: MisbehavingRegistry, tmp_path: Path) -> None:
    with pytest.raises(RemoteUnavailable, match="no sha256 digest"):
        connect(remote, tmp_path).download_blob("sha256:../../escape", 9)
    assert remote.asked == []
