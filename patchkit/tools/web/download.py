"""What a user names by URL: one document of a bounded size, or a file of any."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import requests

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.tools.cache import storage_errors
from patchkit.tools.git.client import redact
from patchkit.tools.toolkit import Toolkit
from patchkit.tools.web.patience import impatient, read_pieces

PIECE_BYTES = 1 << 20
TIMEOUT_SECONDS = (10.0, 60.0)  # to connect; between two pieces of an answer


class NotFound(RemoteUnavailable):
    """The server answers, and does not have it."""


def download_file(toolkit: Toolkit, url: str, target: Path) -> None:
    """Write what a URL answers to a new file, redirections followed. No message shows credentials.

    Raises `NotFound` for 404 and 410, `RequestError` kinds for all else, `StoreFailure` when the disk is full.
    """
    with _get(toolkit, url, stream=True) as response, storage_errors(target), target.open("xb") as file:
        try:
            for piece in read_pieces(response, PIECE_BYTES):
                file.write(piece)
        except requests.RequestException as error:
            raise _silent(redact(url), error) from error


def fetch_document(toolkit: Toolkit, url: str) -> bytes:
    """Return what a URL answers, redirections followed. Raises `RequestError` kinds; no message shows credentials."""
    with _get(toolkit, url) as response:
        return response.content


@contextlib.contextmanager
def _get(toolkit: Toolkit, url: str, stream: bool = False) -> Iterator[requests.Response]:
    name = redact(url)
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise RequestError(f"{name}: is no http(s) URL", "a file, pull/N or a commit needs none")
    if toolkit.offline:
        raise RemoteUnavailable(f"{name}: not fetched, offline", "run again with the network, or name a file")
    toolkit.progress.step(f"fetch {name}")
    session = requests.Session() if stream else impatient(requests.Session())
    if bundle := toolkit.env.get("SSL_CERT_FILE"):
        session.verify = bundle
    try:
        with session.get(url, timeout=TIMEOUT_SECONDS, stream=stream) as response:
            if response.status_code in {requests.codes.not_found, requests.codes.gone}:
                raise NotFound(f"{name}: answers {response.status_code} {response.reason}", "is the URL right?")
            if response.status_code != requests.codes.ok:
                answer = f"{response.status_code} {response.reason}"
                raise RemoteUnavailable(f"{name}: answers {answer}", "is the URL right, and may anybody read it?")
            yield response
    except requests.RequestException as error:
        raise _silent(name, error) from error


def _silent(name: str, error: Exception) -> RemoteUnavailable:
    reason = redact(type(error).__name__)
    return RemoteUnavailable(f"{name}: does not answer ({reason})", "is there a network, or a proxy?")
