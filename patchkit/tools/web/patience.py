"""How long an answer over HTTP is waited for, and how much of it is taken.

A time-out between two bytes is not enough: a server that sends one byte a second would be waited for until the disk is
full or the year is over.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from typing import Any

import requests
from urllib3.exceptions import HTTPError

SLOW_BYTES, SLOW_SECONDS = 10_000, 60.0  # less than this in so long is a dead line
DOCUMENT_BYTES = 64 << 20  # of a list of releases or a manifest; the longest real ones have 3 MB


def read_pieces(response: requests.Response, piece_bytes: int) -> Iterator[bytes]:
    """Yield the body of a streamed answer as it comes, in pieces of at most so many bytes.

    Raises `requests.ConnectionError` when the line drops or is slower than `SLOW_BYTES` in `SLOW_SECONDS`.
    """
    began, got = time.monotonic(), 0
    while True:
        try:
            piece = response.raw.read1(piece_bytes, decode_content=True)
        except HTTPError as error:
            raise requests.ConnectionError(error) from error
        if not piece:
            return
        got += len(piece)
        if (now := time.monotonic()) - began > SLOW_SECONDS:
            if got < SLOW_BYTES:
                raise requests.ConnectionError(f"{got} bytes in {SLOW_SECONDS:.0f} s")
            began, got = now, 0
        yield piece


def read_document(response: requests.Response) -> bytes:
    """Return the body of a streamed answer. Raises `requests.ConnectionError` when it is too long or too slow."""
    pieces, size = [], 0
    for piece in read_pieces(response, 1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > DOCUMENT_BYTES:
            raise requests.ConnectionError(f"more than {DOCUMENT_BYTES >> 20} MiB")
    return b"".join(pieces)


def impatient(session: requests.Session) -> requests.Session:
    """Make a session read answers that are not streamed by the rules above, and have one kind of error; return it."""
    plain = session.send

    def read_now(response: requests.Response, *_: Any, **settings: Any) -> None:
        if not settings.get("stream"):
            line = response.raw
            response.raw = io.BytesIO(read_document(response))
            line.release_conn()

    def send(request: requests.PreparedRequest, **settings: Any) -> requests.Response:
        try:
            return plain(request, **settings)
        except requests.RequestException:
            raise
        except (ValueError, HTTPError) as error:  # a redirect to what is no URL
            raise requests.exceptions.InvalidURL(f"sent on to what is no URL: {error}") from error

    session.hooks["response"].append(read_now)
    session.send = send  # type: ignore[method-assign]
    return session
