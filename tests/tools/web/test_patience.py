"""A server that drips, or that never stops, must not hold patchkit for ever."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from patchkit.tools.web import patience
from patchkit.tools.web.patience import impatient, read_document, read_pieces

Body = Callable[[], Iterator[bytes]]


@contextmanager
def serve(body: Body, length: int | None = None, encoding: str = "") -> Iterator[str]:
    """Serve one body, piece by piece, at every path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            if length is not None:
                self.send_header("Content-Length", str(length))
            if encoding:
                self.send_header("Content-Encoding", encoding)
            self.end_headers()
            try:
                for piece in body():
                    self.wfile.write(piece)
                    self.wfile.flush()
            except OSError:
                return

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


def drip() -> Iterator[bytes]:
    for _ in range(100):
        time.sleep(0.1)
        yield b"x"


def test_a_body_comes_whole_streamed_or_not() -> None:
    def body() -> Iterator[bytes]:
        return (b"x" * 1000 for _ in range(300))

    with serve(body, 300_000) as url, impatient(requests.Session()) as session:
        assert session.get(url, timeout=5).content == b"x" * 300_000
        with session.get(url, stream=True, timeout=5) as response:
            assert b"".join(read_pieces(response, 1 << 16)) == b"x" * 300_000


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_drips_is_left(monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    monkeypatch.setattr(patience, "SLOW_SECONDS", 0.5)
    started = time.monotonic()
    with (
        serve(drip, 100) as url,
        impatient(requests.Session()) as session,
        pytest.raises(requests.ConnectionError, match="bytes in 0 s"),
    ):
        read_document(session.get(url, stream=stream, timeout=5))
    assert time.monotonic() - started < 5


def test_a_document_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "DOCUMENT_BYTES", 1_000_000)
    with (
        serve(lambda: itertools.repeat(b"x" * 10_000)) as url,
        impatient(requests.Session()) as session,
        pytest.raises(requests.ConnectionError, match="more than 0 MiB"),
    ):
        session.get(url, timeout=5)


def test_a_line_that_drops_is_told() -> None:
    with (
        serve(lambda: iter([b"half"]), 100) as url,
        impatient(requests.Session()) as session,
        pytest.raises(requests.ConnectionError),
    ):
        session.get(url, timeout=5)
