"""A registry on this machine whose answers a test can spoil; well-behaved ones are real, in tests/contract."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class MisbehavingRegistry:
    """Answers what it was given for a path below team/image, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                outer.asked.append((self.path, dict(self.headers)))
                outer.answers.get(path, lambda handler: handler.send_error(404))(self)

            def log_message(self, format: str, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"

    def give(self, path: str, body: bytes, status: int = 200, **headers: str) -> None:
        self.answers[f"/v2/team/image{path}"] = answer_with(body, status, **headers)


def answer_with(body: bytes, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@contextmanager
def serving() -> Iterator[MisbehavingRegistry]:
    """Run a registry as long as the block."""
    registry = MisbehavingRegistry()
    thread = threading.Thread(target=registry.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield registry
    finally:
        registry.server.shutdown()
        registry.server.server_close()
        thread.join()
