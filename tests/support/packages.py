"""A package index on loopback, with small sdists made here; real HTTP, nothing mocked.

    with serve_index() as index:
        index.add("demo", "1.0", {"demo/__init__.py": "x = 1\\n"})
        toolkit = Toolkit(Cache(tmp_path), env=index.env)        # pip's variables name this index
        index.files["demo-1.0.tar.gz"].sha256 = "0" * 64          # and so lie: wrong digest, dropped lines, 404 …

`index.requests` tells what was asked for, as (path, Range header).
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BUILT = 1_600_000_000  # the mtime of every PKG-INFO: 2020-09-13 12:26:40 UTC
JSON_TYPE = "application/vnd.pypi.simple.v1+json"
NO_HEADERS: Mapping[str, str] = {}


def tar_member(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    """Return one member for `make_archive`; fields are those of `TarInfo` (type, linkname, mode …)."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), BUILT
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def make_archive(members: Sequence[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """Return a .tar.gz of the members; equal members give equal bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0)


def make_sdist(package: str, version: str, files: Mapping[str, str]) -> bytes:
    """Return an sdist as build back ends make them: one top folder, PKG-INFO, files; text with #! is executable."""
    top = f"{package}-{version}"
    text = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    members = [tar_member(top, type=tarfile.DIRTYPE, mode=0o755), tar_member(f"{top}/PKG-INFO", text.encode())]
    for path, content in files.items():
        mode = 0o755 if content.startswith("#!") else 0o644
        members.append(tar_member(f"{top}/{path}", content.encode(), mode=mode, mtime=BUILT - 60))
    return make_archive(members)


@dataclass
class ServedFile:
    """A file on the index. `sha256` '' offers none; so many answers end half way (`drops`) or are 503 (`busy`)."""

    package: str
    data: bytes
    sha256: str
    yanked: bool = False
    status: int = 200
    drops: int = 0
    ranges: bool = True
    busy: int = 0


class PackageServer:
    """What the index holds. Change it at any time."""

    def __init__(self) -> None:
        self.files: dict[str, ServedFile] = {}
        self.requests: list[tuple[str, str]] = []
        self.url = ""

    @property
    def env(self) -> dict[str, str]:
        """Return the variables that make this the index of pip, and of patchkit."""
        return {"PIP_INDEX_URL": f"{self.url}/simple/", "PIP_CONFIG_FILE": os.devnull}

    def add(self, package: str, version: str, files: Mapping[str, str], yanked: bool = False) -> ServedFile:
        """Publish an sdist of these files."""
        return self.add_file(package, f"{package}-{version}.tar.gz", make_sdist(package, version, files), yanked)

    def add_file(self, package: str, filename: str, data: bytes, yanked: bool = False) -> ServedFile:
        """Publish any bytes as a file of a package."""
        served = ServedFile(package, data, hashlib.sha256(data).hexdigest(), yanked)
        self.files[filename] = served
        return served

    def page(self, package: str) -> bytes:
        """Return the package's page of the simple API (JSON)."""
        files = [
            {
                "filename": name,
                "url": f"{self.url}/files/{name}",
                "hashes": {"sha256": served.sha256} if served.sha256 else {},
                "yanked": served.yanked,
                "size": len(served.data),
            }
            for name, served in self.files.items()
            if served.package == package
        ]
        return json.dumps({"meta": {"api-version": "1.1"}, "name": package, "files": files}).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    index: PackageServer

    def do_GET(self) -> None:
        self.index.requests.append((self.path, self.headers.get("Range", "")))
        kind, _, name = self.path.strip("/").partition("/")
        if kind == "simple" and any(served.package == name for served in self.index.files.values()):
            self.answer(200, self.index.page(name), {"Content-Type": JSON_TYPE})
        elif kind == "files" and name in self.index.files:
            self.answer_file(self.index.files[name])
        else:
            self.answer(404)

    def answer_file(self, served: ServedFile) -> None:
        served.busy, served.drops = served.busy - 1, served.drops - 1
        start = int(self.headers.get("Range", "bytes=0-")[6:-1]) if served.ranges else 0
        if served.busy >= 0:
            self.answer(503)
        elif served.status != 200:
            self.answer(served.status)
        elif start >= len(served.data):
            self.answer(416)
        else:
            span = {"Content-Range": f"bytes {start}-{len(served.data) - 1}/{len(served.data)}"} if start else {}
            headers = {"Content-Type": "application/octet-stream", **span}
            self.answer(206 if start else 200, served.data[start:], headers, drop=served.drops >= 0)

    def answer(
        self, status: int, data: bytes = b"", headers: Mapping[str, str] = NO_HEADERS, drop: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if drop else data)
        self.close_connection = self.close_connection or drop

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up: they do so on purpose here."""


@contextlib.contextmanager
def serve_index() -> Iterator[PackageServer]:
    """Serve an empty index on a free port of loopback until the block ends."""
    index = PackageServer()
    handler = type("Handler", (_Handler,), {"index": index})
    with _Server(("127.0.0.1", 0), handler) as server:
        index.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()
