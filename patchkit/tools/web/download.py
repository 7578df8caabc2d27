"""A patch from a web page: one document, of a bounded size, from where the user says."""

from __future__ import annotations

from urllib.parse import urlsplit

import requests

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.tools.git.client import redact
from patchkit.tools.toolkit import Toolkit
from patchkit.tools.web.patience import impatient

TIMEOUT_SECONDS = (10.0, 60.0)  # to connect; between two pieces of an answer


def fetch_document(toolkit: Toolkit, url: str) -> bytes:
    """Return what a URL answers, redirections followed. Raises `RequestError` kinds; no message shows credentials."""
    name = redact(url)
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise RequestError(f"{name}: is no http(s) URL", "a file, pull/N or a commit needs none")
    if toolkit.offline:
        raise RemoteUnavailable(f"{name}: not fetched, offline", "run again with the network, or name a file")
    toolkit.progress.step(f"fetch {name}")
    session = impatient(requests.Session())
    if bundle := toolkit.env.get("SSL_CERT_FILE"):
        session.verify = bundle
    try:
        with session.get(url, timeout=TIMEOUT_SECONDS) as response:
            if response.status_code != requests.codes.ok:
                answer = f"{response.status_code} {response.reason}"
                raise RemoteUnavailable(f"{name}: answers {answer}", "is the URL right, and may anybody read it?")
            return response.content
    except requests.RequestException as error:
        reason = redact(type(error).__name__)
        raise RemoteUnavailable(f"{name}: does not answer ({reason})", "is there a network, or a proxy?") from error
