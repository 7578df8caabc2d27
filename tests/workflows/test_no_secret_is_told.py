"""Credentials in a recipe's URL reach the server, and nothing else: not the store, an image, a report or a message."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.workflows.worlds import World, grow, make_world

WORD = "s3cr3t-w0rd"
BASIC = f"Basic {base64.b64encode(f'ada:{WORD}'.encode()).decode()}"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Serve the upstream over HTTP to Ada only, and name her and her password in the recipe."""
    world = make_world(tmp_path / "world")
    world.upstream.commit({"vllm/__init__.py": "", "engine.txt": "c\ntop\ngood\nbottom\n"})
    grow(world, ["good"] * 4 + ["fault"] * 4)
    subprocess.run(["git", "-C", str(world.upstream.path), "update-server-info"], check=True)

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(world.folder))  # type: ignore[arg-type]

        def do_GET(self) -> None:
            if self.headers.get("Authorization") == BASIC:
                super().do_GET()
                return
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    url = f"http://ada:{WORD}@127.0.0.1:{server.server_port}/upstream.git"
    world.recipe.write_text(world.recipe.read_text().replace(world.upstream.url, url))
    yield world
    server.shutdown()
    server.server_close()
    thread.join()


def run(world: World, store: Path, *arguments: str) -> str:
    """Run a verb on the recipe and return all that it said."""
    environment = {**os.environ, "PATCHKIT_CACHE": str(store), "no_proxy": "127.0.0.1"}
    command = [sys.executable, "-m", "patchkit", "-v", arguments[0], str(world.recipe), *arguments[1:]]
    done = subprocess.run(command, env=environment, cwd=store.parent, capture_output=True, text=True, check=False)
    return f"{done.returncode}\n{done.stdout}{done.stderr}"


def where_it_is_told(folder: Path) -> list[str]:
    needles = (WORD.encode(), BASIC.removeprefix("Basic ").encode())
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [str(path) for path in files if any(needle in path.read_bytes() for needle in needles)]


def test_no_verb_writes_or_says_the_password(world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    verbs = [
        ["lock"],
        ["apply", "--at", "v1.2.0", "--to", str(out / "tree")],
        ["status", "--against", "v1.2.0", "--json"],
        ["repro", "--at", "v1.2.0", "--json"],
        ["build", "--at", "v1.2.0", "--engine", "oci", "--output", str(out / "image.tar")],
        ["bisect", "--issue", "fault", "--good", "v1.0.0", "--bad", "main", "--json"],
        ["watch", "--since", "v1.0.0", "--html", str(out / "r.html"), "--junit", str(out / "r.xml"), "--json"],
    ]
    for arguments in verbs:
        said = run(world, out / "store", *arguments)
        assert said.startswith("0\n"), said
        assert WORD not in said, arguments
    assert (out / "image.tar").is_file()
    assert WORD not in world.recipe.with_name("recipe.lock").read_text()
    assert where_it_is_told(out) == []


def test_no_error_says_the_password(world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    world.recipe.write_text(world.recipe.read_text().replace("upstream.git", "missing.git"))
    for arguments in (["lock"], ["build", "--engine", "oci"], ["watch", "--since", "v1.0.0"]):
        said = run(world, out / "store", *arguments)
        assert said.startswith("128\n"), said
        assert WORD not in said, arguments
    assert where_it_is_told(out) == []
