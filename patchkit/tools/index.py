"""The package index: which releases there are, and their sdists, from the index that pip is configured for.

Downloads go on where an earlier one stopped, and count only when the sha256 is right.
"""

from __future__ import annotations

import configparser
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

import requests
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pypi_simple import (
    PYPI_SIMPLE_ENDPOINT,
    DistributionPackage,
    NoSuchProjectError,
    PyPISimple,
    UnsupportedContentTypeError,
    UnsupportedRepoVersionError,
)
from requests.auth import HTTPBasicAuth

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.tools.cache import digest_file, digest_of, storage_errors
from patchkit.tools.git.client import redact
from patchkit.tools.toolkit import Toolkit
from patchkit.tools.web.patience import impatient, read_pieces

Answer = TypeVar("Answer")

LISTING_SECONDS = 600.0  # how long a list of releases is believed: a bisect asks often, releases come weekly
TIMEOUT_SECONDS = (10.0, 60.0)  # to connect; between two pieces of an answer
PAUSES_SECONDS = (0.0, 0.5, 2.0)  # before each try: a dropped line comes back at once or not for long
PIECE_BYTES = 1 << 18
BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")  # Debian's, Red Hat's, as pip does
BUNDLE_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
PASSING = {408, 429, 500, 502, 503, 504}  # answers that a second try may better


@dataclass(frozen=True)
class Sdist:
    """A source distribution on the index. `size` is in bytes; `sha256` is None where the index offers none."""

    package: str
    version: str
    filename: str
    url: str
    sha256: str | None
    size: int | None
    yanked: bool


@dataclass(frozen=True)
class IndexSettings:
    """Where the index is. `authority` is user and password of its URL; `bundle` a file of CAs; `proxy` a URL or ''."""

    endpoint: str
    authority: tuple[str, str] | None
    bundle: str | bool
    proxy: str


class PackageIndex:
    """The index that pip would use."""

    def __init__(self, toolkit: Toolkit) -> None:
        """Read pip's configuration; nothing is asked yet."""
        self._toolkit = toolkit
        self.settings = read_settings(toolkit.env)

    def sdists(self, package: str) -> tuple[Sdist, ...]:
        """Return the sdists of a package, one a version, oldest version first; a fresh list in the store is believed.

        Raises `RemoteUnavailable` when the index does not answer and the store has no list.
        """
        name = canonicalize_name(package)
        key = digest_of([self.settings.endpoint, name])
        record = self._toolkit.cache.read_record("index", key) or {"time": 0.0, "sdists": None}
        known = None if record["sdists"] is None else tuple(Sdist(**fields) for fields in record["sdists"])
        if known is not None and 0 <= time.time() - record["time"] < LISTING_SECONDS:
            return known
        try:
            found = self._list_sdists(name)
        except RemoteUnavailable as error:
            if known is None:
                raise
            if not self._toolkit.offline:
                self._toolkit.progress.warn(f"{error.message}: using the list of an earlier run", error.hint)
            return known
        self._toolkit.cache.write_record("index", key, {"time": time.time(), "sdists": [asdict(one) for one in found]})
        return found

    def download(self, sdist: Sdist, target: Path, sha256: str | None = None) -> None:
        """Fetch an sdist into a file, from where an earlier try stopped; `sha256` is the lock's, where there is one.

        Raises `RemoteUnavailable` (no answer, wrong bytes, no digest to check them with) and `StoreFailure`.
        """
        expected = sha256 or sdist.sha256
        if expected is None:
            hint = "take the release from git, or from an index that offers sha256 digests"
            raise RemoteUnavailable(f"{sdist.filename}: the index offers no sha256, so it cannot be checked", hint)
        if target.is_file() and digest_file(target) == expected:
            return
        partial = target.with_name(f"{target.name}.{expected[:16]}.partial")
        with storage_errors(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
        self._toolkit.progress.step(f"download {sdist.filename}")
        self.ask(sdist.filename, lambda session: self._fetch(session, sdist, partial))
        got = digest_file(partial)
        if got != expected:
            partial.unlink()
            hint = "run again; if it stays so, the index or something on the way changes files"
            raise RemoteUnavailable(f"{sdist.filename}: wrong bytes: sha256 is {got}, should be {expected}", hint)
        with storage_errors(target.parent):
            partial.replace(target)

    def _list_sdists(self, name: str) -> tuple[Sdist, ...]:
        def ask(session: requests.Session) -> tuple[Sdist, ...]:
            page = PyPISimple(self.settings.endpoint, session=session).get_project_page(name, timeout=TIMEOUT_SECONDS)
            return select_sdists(name, page.packages)

        return self.ask(name, ask)

    def _fetch(self, session: requests.Session, sdist: Sdist, partial: Path) -> None:
        """Add to the partial file what is missing; a server that does not know ranges sends all of it again."""
        have = partial.stat().st_size if partial.exists() else 0
        if have and have == sdist.size:
            return
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with session.get(sdist.url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                partial.unlink()  # it is as long as the whole, or longer: not what the server has
                raise requests.ConnectionError(f"{have} bytes here are not a part of what the server has")
            response.raise_for_status()
            goes_on = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            if have and not goes_on:
                partial.unlink()
                have = 0
            for piece in read_pieces(response, PIECE_BYTES):
                with (
                    storage_errors(partial),
                    partial.open("ab") as stream,
                ):  # opened anew: the line's errors are OSErrors
                    stream.write(piece)
                have += len(piece)
                self._toolkit.progress.advance(f"download {sdist.filename}", have, sdist.size)

    def ask(self, what: str, question: Callable[[requests.Session], Answer]) -> Answer:
        """Ask the index, again when the line drops. Raises `RemoteUnavailable`."""
        index = urlsplit(self.settings.endpoint).netloc or redact(self.settings.endpoint)
        if self._toolkit.offline:
            raise RemoteUnavailable(f"{what}: not in the store, and offline", "run once with the network")
        for last, pause in enumerate(PAUSES_SECONDS, start=1 - len(PAUSES_SECONDS)):
            time.sleep(pause)
            try:
                with self._session() as session:
                    return question(session)
            except NoSuchProjectError as error:
                hint = "is `package:` spelt as on the index? pip's index-url says which index is asked"
                raise RemoteUnavailable(f"{what}: the index {index} has no such package", hint) from error
            except (UnsupportedContentTypeError, UnsupportedRepoVersionError, ValueError) as error:
                hint = "is pip's index-url that of a simple index?"
                raise RemoteUnavailable(f"{what}: {index} does not answer as a package index does", hint) from error
            except OSError as error:
                if last == 0 or not _may_pass(error):
                    raise _explain(what, index, error) from error
        raise AssertionError("the last try returns or raises")

    def _session(self) -> requests.Session:
        session = impatient(requests.Session())
        session.verify = self.settings.bundle
        session.headers["User-Agent"] = "patchkit"
        if self.settings.proxy:
            session.proxies = {"http": self.settings.proxy, "https": self.settings.proxy}
        if self.settings.authority is not None:
            session.auth = _AtHome(urlsplit(self.settings.endpoint).netloc, *self.settings.authority)
        return session


class _AtHome(HTTPBasicAuth):
    """Credentials for one host: the files of an index often lie on another."""

    def __init__(self, host: str, user: str, password: str) -> None:
        super().__init__(user, password)
        self._host = host

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if urlsplit(request.url or "").netloc == self._host:
            super().__call__(request)  # type: ignore[no-untyped-call]  # it adds a header, and has no types
        return request


def select_sdists(name: str, files: Iterable[DistributionPackage]) -> tuple[Sdist, ...]:
    """Return one .tar.gz a version, oldest version first; files that name another package or no version are left out.

    Of two files of one version, the one that is not yanked counts.
    """
    chosen: dict[Version, Sdist] = {}
    for file in files:
        if file.package_type != "sdist" or not file.filename.endswith(".tar.gz") or file.version is None:
            continue
        if canonicalize_name(file.project or "") != name:
            continue
        try:
            version = Version(file.version)
        except InvalidVersion:
            continue
        found = Sdist(
            name, str(version), file.filename, redact(file.url), file.digests.get("sha256"), file.size, file.is_yanked
        )
        if version not in chosen or (chosen[version].yanked and not found.yanked):
            chosen[version] = found
    return tuple(chosen[version] for version in sorted(chosen))


def read_settings(env: Mapping[str, str]) -> IndexSettings:
    """Return the index, CA bundle and proxy that pip would use, from variables and files; uv's variables come after.

    Raises `RequestError` for a configuration file that cannot be parsed.
    """
    options = _read_pip_files(env)
    names = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")
    known = [env.get("PIP_INDEX_URL"), options.get("index-url"), *(env.get(name) for name in names)]
    url = urlsplit(next((url for url in known if url), PYPI_SIMPLE_ENDPOINT))
    authority = (unquote(url.username), unquote(url.password or "")) if url.username else None
    bundles = [env.get("PIP_CERT"), options.get("cert"), *(env.get(name) for name in BUNDLE_VARIABLES)]
    bundles += [path for path in BUNDLES if Path(path).is_file()]
    endpoint = urlunsplit((url.scheme, url.netloc.rpartition("@")[2], url.path, "", ""))
    proxy = env.get("PIP_PROXY") or options.get("proxy", "")
    return IndexSettings(endpoint, authority, next((path for path in bundles if path), True), proxy)


def _read_pip_files(env: Mapping[str, str]) -> dict[str, str]:
    """Return the options of pip's files; a later file, and a section of the command, has the last word."""
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, "download": {}}
    for path in _pip_files(env):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            raise RequestError(
                f"{path}: pip's configuration cannot be read: {error}", "see: pip config debug"
            ) from error
        for name, options in sections.items():
            if parser.has_section(name):
                options.update((key.replace("_", "-"), value) for key, value in parser.items(name))
    return sections["global"] | sections["install"] | sections["download"]


def _pip_files(env: Mapping[str, str]) -> Iterator[Path]:
    """Yield pip's configuration files in the order it reads them: machine, user, venv, the one that is named."""
    named = env.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return
    yield from (Path(folder, "pip/pip.conf") for folder in env.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if folder)
    yield Path("/etc/pip.conf")
    if home := env.get("HOME"):
        yield Path(home, ".pip/pip.conf")
        yield Path(env.get("XDG_CONFIG_HOME") or Path(home, ".config"), "pip/pip.conf")
    yield Path(sys.prefix, "pip.conf")
    if named:
        yield Path(named)


def _may_pass(error: OSError) -> bool:
    """Return whether a second try makes sense: the line dropped, or the server was busy; not for a certificate."""
    if isinstance(error, requests.HTTPError):
        return error.response.status_code in PASSING
    lines = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
    return isinstance(error, lines) and not isinstance(error, requests.exceptions.SSLError)


def _explain(what: str, index: str, error: OSError) -> RemoteUnavailable:
    if isinstance(error, requests.HTTPError):
        answer = f"{error.response.status_code} {error.response.reason}"
        return RemoteUnavailable(
            f"{what}: {urlsplit(error.response.url).hostname} answers {answer}", "is it still there?"
        )
    if isinstance(error, requests.exceptions.SSLError):
        hint = "PIP_CERT, or `cert` in pip's configuration, names the CA bundle to trust"
        return RemoteUnavailable(f"{what}: {index}: the certificate is not trusted", hint)
    reason = str(getattr(error.args[0] if error.args else error, "reason", error)).rpartition(": ")[2].rstrip("')")
    return RemoteUnavailable(
        f"{what}: {index} does not answer: {redact(reason)}", "is there a network, or a proxy to set?"
    )
