"""A forge on this machine: git repositories over plain HTTP, and the part of GitHub's REST API that tells of pulls.

The keys and types of its answers are those of GitHub's OpenAPI description (`pulls/get`); values are the test's.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.repositories import GitRepository


def pull_document(number: int, head: str, url: str, **changes: Any) -> dict[str, Any]:
    """Return what `GET /repos/{owner}/{repo}/pulls/{number}` answers; an open one unless changed."""
    person = {"login": "ada", "id": 1, "node_id": "U_1", "type": "User", "url": f"{url}/users/ada", "site_admin": False}
    ref = {"label": "ada:work", "ref": "work", "sha": head, "user": person}
    document = {
        "url": f"{url}/api/v3/repos/team/product/pulls/{number}",
        "id": 100 + number,
        "node_id": f"PR_{number}",
        "html_url": f"{url}/team/product/pull/{number}",
        "number": number,
        "state": "open",
        "locked": False,
        "title": f"Pull request {number}",
        "user": person,
        "body": None,
        "merged_at": None,
        "merge_commit_sha": "e" * 40,  # of an open one: the commit with which the server tried the merge
        "head": ref,
        "base": {**ref, "label": "team:main", "ref": "main"},
        "draft": False,
        "merged": False,
        "mergeable": True,
        "commits": 1,
        "additions": 1,
        "deletions": 0,
        "changed_files": 1,
    }
    return {**document, **changes}


class Told:
    """Progress that keeps what people would see."""

    def __init__(self) -> None:
        self.warnings: list[tuple[str, str]] = []

    def step(self, message: str) -> None: ...

    def advance(self, message: str, done: int, total: int | None) -> None: ...

    def warn(self, message: str, hint: str = "") -> None:
        self.warnings.append((message, hint))


class Forge:
    """Serves `team/product`; `pulls` are the API's answers by number, `files` other documents by path."""

    def __init__(self, folder: Path) -> None:
        self.upstream = GitRepository(folder / "team/product.git")
        self.pulls: dict[int, dict[str, Any] | int] = {}
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []  # path, Authorization
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                outer.asked.append((self.path, self.headers.get("Authorization", "")))
                status, body = outer.answer(folder, path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Type", "application/json" if path.startswith("/api/") else "text/plain")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def git(self) -> str:
        """Bring what dumb HTTP needs up to date, and return the repository's URL."""
        subprocess.run(["git", "--git-dir", str(self.upstream.path), "update-server-info"], check=True)
        return f"{self.url}/team/product.git"

    @property
    def env(self) -> dict[str, str]:
        return {"GITHUB_SERVER_URL": self.url, "GITHUB_API_URL": f"{self.url}/api/v3"}

    def pull(self, number: int, head: str, **changes: Any) -> None:
        """Open a pull request, or change it: its ref, and what the API says of it."""
        self.upstream.ref(f"refs/pull/{number}/head", head)
        self.pulls[number] = pull_document(number, self.upstream.find(head), self.url, **changes)

    def answer(self, folder: Path, path: str) -> tuple[int, bytes]:
        if path in self.files:
            return 200, self.files[path]
        if path.startswith("/api/v3/repos/team/product/pulls/"):
            found = self.pulls.get(int(path.rpartition("/")[2]), 404)
            if isinstance(found, int):
                return found, json.dumps({"message": "no", "status": str(found)}).encode()
            return 200, json.dumps(found).encode()
        file = folder / path.lstrip("/")
        return (200, file.read_bytes()) if file.is_file() else (404, b"")


@contextmanager
def serving(folder: Path) -> Iterator[Forge]:
    """Run a forge as long as the block."""
    forge = Forge(folder)
    thread = threading.Thread(target=forge.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield forge
    finally:
        forge.server.shutdown()
        thread.join()
        forge.server.server_close()
