"""Images in a registry: the OCI distribution API, reading only.

Everything is named by its sha256 and checked against it. Blobs are kept in the store; one whose download broke off is
resumed where it stopped.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from patchkit.errors import RemoteUnavailable, RequestError, ToolMissing
from patchkit.tools.cache import digest_file, storage_errors
from patchkit.tools.git.client import redact
from patchkit.tools.process import run_process
from patchkit.tools.toolkit import Toolkit
from patchkit.tools.web.patience import impatient, read_document, read_pieces

DEFAULT_HOST = "docker.io"
DEFAULT_HOST_API = "registry-1.docker.io"
DEFAULT_HOST_CREDENTIALS = "https://index.docker.io/v1/"  # the key under which docker login keeps that host's
CHUNK_BYTES = 1 << 20
TIMEOUT_SECONDS = (10, 60)  # to connect; between two bytes
MANIFEST_KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)

_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    r"(?:(?P<host>localhost(?::\d+)?|\[[0-9a-fA-F:]+\](?::\d+)?|[A-Za-z0-9.-]*[.:][A-Za-z0-9.:-]*)/)?"
    rf"(?P<repository>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_ASKED = re.compile(r"sha256:[0-9a-f]{64}|[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_SIGNED = re.compile(r"\?[^\s'\")>]+")  # the query of a URL: a registry signs where it redirects to
_LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(:\d+)?")


@dataclass(frozen=True)
class Reference:
    """An image's name: host/repository:tag or host/repository@digest."""

    host: str
    repository: str
    tag: str
    digest: str  # empty unless given

    @property
    def familiar(self) -> str:
        """Return the name as people write it, without the default host."""
        return f"{self.untagged}:{self.tag}"

    @property
    def untagged(self) -> str:
        """Return the repository's name as people write it."""
        default = self.host == DEFAULT_HOST
        return self.repository.removeprefix("library/") if default else f"{self.host}/{self.repository}"

    @property
    def full(self) -> str:
        """Return the name with its host, as containerd writes it."""
        return f"{self.host}/{self.repository}:{self.tag}"

    @property
    def api(self) -> str:
        """Return the URL of the repository's API; plain HTTP on this machine only."""
        host = DEFAULT_HOST_API if self.host == DEFAULT_HOST else self.host
        scheme = "http" if _LOOPBACK.fullmatch(self.host) else "https"
        return f"{scheme}://{host}/v2/{self.repository}"


def parse_reference(text: str) -> Reference:
    """Read an image's name as docker does. Raises `RequestError`."""
    found = _REFERENCE.fullmatch(text) if len(text) <= 512 else None
    if found is None:
        raise RequestError(f"{text!r}: not the name of an image", "like host/folder/name:tag, in lower case")
    host, repository = found["host"] or DEFAULT_HOST, found["repository"]
    if host == DEFAULT_HOST and "/" not in repository:
        repository = f"library/{repository}"
    return Reference(host, repository, found["tag"] or "latest", found["digest"] or "")


class Registry:
    """One repository of a registry, with the credentials that `docker login` left."""

    def __init__(self, toolkit: Toolkit, reference: Reference) -> None:
        """Prepare to talk to the registry of an image; nothing is sent yet."""
        self._toolkit, self._reference = toolkit, reference
        self._authorization = ""

    def read_manifest(self, asked: str) -> tuple[str, dict[str, Any]]:
        """Return digest and content of a manifest or index, by tag or digest. Raises `RemoteUnavailable`."""
        if not _ASKED.fullmatch(asked):
            raise RemoteUnavailable(f"{self._name}: {asked!r} names no manifest")
        kept = self._toolkit.cache.folder("registry-manifests", asked.removeprefix("sha256:"))
        if asked.startswith("sha256:") and (kept / "manifest.json").exists():
            return asked, dict(json.loads((kept / "manifest.json").read_bytes()))
        with self._get(f"/manifests/{asked}", {"Accept": ", ".join(MANIFEST_KINDS)}) as response:
            body = read_document(response)
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        promised = asked if asked.startswith("sha256:") else response.headers.get("Docker-Content-Digest", digest)
        if promised != digest:
            raise RemoteUnavailable(f"{self._name}: the registry sent {digest}, not the {promised} it was asked for")

        def keep(folder: Path) -> None:
            (folder / "manifest.json").write_bytes(body)

        self._toolkit.cache.make("registry-manifests", digest.removeprefix("sha256:"), keep)
        return digest, self._parse(body)

    def _parse(self, body: bytes) -> dict[str, Any]:
        try:
            return dict(json.loads(body))
        except (ValueError, TypeError, RecursionError) as error:
            raise RemoteUnavailable(f"{self._name}: the registry sent no manifest: {error}") from error

    def download_blob(self, digest: str, most_bytes: int) -> Path:
        """Return the file of a blob, fetched unless the store has it; it may have `most_bytes`, and not one more.

        Raises `RemoteUnavailable`, `StoreFailure`.
        """
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
            raise RemoteUnavailable(f"{self._name}: {digest!r} is no sha256 digest")
        if not isinstance(most_bytes, int):
            raise RemoteUnavailable(f"{self._name}: the manifest says that a blob has {most_bytes!r} bytes")
        key = digest.removeprefix("sha256:")

        def build(folder: Path) -> None:
            partial = self._toolkit.cache.scratch("registry-partial") / key
            with storage_errors(self._toolkit.cache.root):
                self._fetch(digest, partial, most_bytes)
                if digest_file(partial) != key:
                    partial.unlink()
                    raise RemoteUnavailable(f"{self._name}: the bytes sent for {digest} are others", "try once more")
                partial.replace(folder / "blob")

        return self._toolkit.cache.make("registry-blobs", key, build) / "blob"

    @property
    def _name(self) -> str:
        return self._reference.familiar

    def _fetch(self, digest: str, partial: Path, most_bytes: int) -> None:
        """Append what is missing of a blob to its partial file; one that grows beyond `most_bytes` is removed."""
        have = partial.stat().st_size if partial.exists() else 0
        if shutil.disk_usage(partial.parent).free < most_bytes - have:
            raise OSError(errno.ENOSPC, f"no room for a blob of {most_bytes / 1e9:.1f} GB")
        headers = {"Range": f"bytes={have}-"} if have else {}
        with self._get(f"/blobs/{digest}", headers) as response:
            if response.status_code == 416:  # nothing is missing
                return
            resumed = response.status_code == 206
            done = have if resumed else 0
            with partial.open("ab" if resumed else "wb") as sink:
                for chunk in read_pieces(response, CHUNK_BYTES):
                    done += len(chunk)
                    if done > most_bytes:
                        partial.unlink()
                        raise RemoteUnavailable(f"{self._name}: more than {most_bytes} bytes are sent for {digest}")
                    sink.write(chunk)
                    self._toolkit.progress.advance(f"{self._name} {digest[7:19]}", done, most_bytes)

    @contextlib.contextmanager
    def _get(self, path: str, headers: Mapping[str, str]) -> Iterator[requests.Response]:
        """Get a path of the repository, with a token where the registry asks for one."""
        if self._toolkit.offline:
            raise RemoteUnavailable(f"{self._name}: not in the store, and --offline forbids to fetch it")
        try:
            with self._connect() as session, self._send(session, path, headers) as response:
                if response.status_code >= 400 and response.status_code != 416:
                    raise RemoteUnavailable(*self._refusal(response))
                if encoding := response.headers.get("Content-Encoding"):  # not asked for; it can grow without bounds
                    raise RemoteUnavailable(f"{self._name}: the registry sends what was not asked for: {encoding}")
                yield response
        except requests.RequestException as error:
            hint = "is the host right? Behind a proxy with its own certificate, set PATCHKIT_CA_BUNDLE"
            told = _SIGNED.sub("?…", redact(str(error)))
            raise RemoteUnavailable(f"{self._name}: {self._reference.host} does not answer: {told}", hint) from None

    def _connect(self) -> requests.Session:
        session = impatient(requests.Session())
        session.auth = lambda request: request  # else what ~/.netrc has for the host goes in place of the token
        bundle = self._toolkit.env.get("PATCHKIT_CA_BUNDLE") or self._toolkit.env.get("SSL_CERT_FILE")
        if bundle:
            session.verify = bundle
        return session

    def _send(self, session: requests.Session, path: str, headers: Mapping[str, str]) -> requests.Response:
        """Send a request; when the registry asks who it is, answer and send it again."""
        response = self._send_once(session, path, headers)
        if response.status_code == 401:
            response.close()
            self._authorization = self._answer(session, response.headers.get("WWW-Authenticate", ""))
            response = self._send_once(session, path, headers)
        return response

    def _send_once(self, session: requests.Session, path: str, headers: Mapping[str, str]) -> requests.Response:
        identity = {"Authorization": self._authorization} if self._authorization else {}
        sent = {**headers, **identity, "Accept-Encoding": "identity"}
        return session.get(self._reference.api + path, headers=sent, stream=True, timeout=TIMEOUT_SECONDS)

    def _refusal(self, response: requests.Response) -> tuple[str, str]:
        told = f"{self._name}: {self._reference.host} answers {response.status_code} {response.reason}"
        if response.status_code == 404:
            return told, "there is no such image, tag or digest"
        if response.status_code in {401, 403}:
            return told, f"run: docker login {self._reference.host}"
        return told, "try again later"

    def _answer(self, session: requests.Session, challenge: str) -> str:
        """Return the Authorization header that answers a challenge; empty when there is none."""
        scheme, _, rest = challenge.partition(" ")
        user = self._credentials()
        basic = f"Basic {base64.b64encode(':'.join(user).encode()).decode()}" if user else ""
        if scheme.lower() != "bearer":
            return basic
        fields = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        if "realm" not in fields:
            raise RemoteUnavailable(f"{self._name}: {self._reference.host} asks for a token and does not say where")
        if not fields["realm"].startswith(("https://", self._reference.api.partition("//")[0])):
            raise RemoteUnavailable(f"{self._name}: {self._reference.host} wants the password sent unencrypted")
        query = {"service": fields.get("service", ""), "scope": f"repository:{self._reference.repository}:pull"}
        headers = {"Authorization": basic} if basic else {}
        response = session.get(fields["realm"], params=query, headers=headers, timeout=TIMEOUT_SECONDS)
        if response.status_code != 200:
            raise RemoteUnavailable(*self._refusal(response))
        document = self._parse(response.content)
        token = document.get("token") or document.get("access_token")
        if not isinstance(token, str) or not re.fullmatch(r"[!-~]+", token):  # an error would tell what is in a header
            raise RemoteUnavailable(f"{self._name}: {self._reference.host} gives no token")
        return f"Bearer {token}"

    def _credentials(self) -> tuple[str, str] | None:
        """Return user and password for the host from docker's config.json, or from the helper that it names."""
        host = DEFAULT_HOST_CREDENTIALS if self._reference.host == DEFAULT_HOST else self._reference.host
        config = _docker_config(self._toolkit.env)
        helper = _part(config, "credHelpers").get(host) or config.get("credsStore")
        if isinstance(helper, str) and (found := _ask_helper(helper, host)):
            return found
        kept = _part(_part(config, "auths"), host).get("auth") or ""
        try:
            user, colon, password = base64.b64decode(kept).decode("utf-8", "replace").partition(":")
        except (ValueError, TypeError) as error:
            told = f"the credentials for {host} in docker's config.json are not what docker login writes"
            raise RequestError(told, f"run: docker login {self._reference.host}") from error
        return (user, password) if colon else None


def _part(document: Any, name: str) -> dict[str, Any]:
    """Return an object inside another; empty when there is none."""
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def _docker_config(env: Mapping[str, str]) -> dict[str, Any]:
    folder = Path(env["DOCKER_CONFIG"]) if env.get("DOCKER_CONFIG") else Path(env.get("HOME", "/")) / ".docker"
    try:
        return dict(json.loads((folder / "config.json").read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


def _ask_helper(helper: str, host: str) -> tuple[str, str] | None:
    """Ask a credential helper; one that is missing or knows nothing is no reason to stop: the image may be public."""
    if not re.fullmatch(r"[A-Za-z0-9._-]+", helper):
        return None
    try:
        answer = run_process([f"docker-credential-{helper}", "get"], input_bytes=host.encode(), timeout_seconds=30)
        document = json.loads(answer.stdout) if answer.exit_code == 0 else {}
    except (ToolMissing, ValueError):
        return None
    user, secret = (document.get(name) if isinstance(document, dict) else None for name in ("Username", "Secret"))
    return (user, secret) if isinstance(user, str) and isinstance(secret, str) else None
