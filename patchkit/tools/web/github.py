"""What GitHub knows of a pull request and git refs do not: title, author, state, the commit that it was merged as.

Asked only of the server that the token belongs to, and never needed: whoever asks goes on with the refs alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from patchkit.tools.git.client import redact
from patchkit.tools.toolkit import Toolkit

SERVER, API = "https://github.com", "https://api.github.com"  # unless the environment names others, as in Actions
TIMEOUT_SECONDS = 10
REFUSALS = {
    401: "GITHUB_TOKEN is refused: is it still valid?",
    403: "a GITHUB_TOKEN raises the limit of requests, and lets private repositories be read",
    404: "is the number right? A private repository needs a GITHUB_TOKEN that may read it",
    429: "a GITHUB_TOKEN raises the limit of requests",
}


@dataclass(frozen=True)
class PullFacts:
    """A pull request as the server tells it; `merged_as` is '' unless it is merged."""

    title: str
    author: str
    state: Literal["open", "closed", "merged"]
    merged_as: str
    url: str
    head: str


def pull_url(git_url: str, number: int) -> str:
    """Return the page of a pull request, '' for a repository that is no `host/owner/name`."""
    found = split_url(git_url)
    return f"{found[0]}/{found[1]}/pull/{number}" if found else ""


def split_url(git_url: str) -> tuple[str, str] | None:
    """Return server and `owner/name` of a repository's URL, None where it is none of that form (a path)."""
    if found := re.fullmatch(r"(?:[^@/]+@)?([^:/]+):([^/]+/[^/]+?)(?:\.git)?/?", git_url):  # git@host:owner/name
        return f"https://{found[1]}", found[2]
    url = urlsplit(redact(git_url))
    path = re.fullmatch(r"/([^/]+/[^/]+?)(?:\.git)?/?", url.path)
    if url.scheme not in {"http", "https", "ssh"} or not url.netloc or not path:
        return None
    return f"https://{url.hostname}" if url.scheme == "ssh" else f"{url.scheme}://{url.netloc}", path[1]


def read_pull(toolkit: Toolkit, git_url: str, number: int) -> PullFacts | None:
    """Ask the server about a pull request; None, with a warning where one helps, when it cannot be asked.

    The token is that of GITHUB_TOKEN. It goes to GITHUB_API_URL, and only for repositories of GITHUB_SERVER_URL.
    """
    found = split_url(git_url)
    if found is None or found[0] != toolkit.env.get("GITHUB_SERVER_URL", SERVER).rstrip("/"):
        return None
    if toolkit.offline:
        toolkit.progress.warn(f"pull/{number}: title and state are not asked for, offline")
        return None
    try:
        import github
    except ImportError:
        hint = "pip install 'vllm-patchkit[github]' asks GitHub for them"
        toolkit.progress.warn(f"pull/{number}: title and state are taken from git alone", hint)
        return None
    try:
        pull = _connect(toolkit, github).get_repo(found[1]).get_pull(number)
        return _facts(pull)
    except github.GithubException as error:
        _warn(toolkit, number, f"answers {error.status}", REFUSALS.get(error.status, ""))
    except (OSError, RuntimeError) as error:  # requests' errors are OSErrors; a redirect elsewhere is a RuntimeError
        _warn(toolkit, number, f"does not answer ({type(error).__name__})", "is there a network, or a proxy to set?")
    return None


def _connect(toolkit: Toolkit, github: Any) -> Any:
    token = toolkit.env.get("GITHUB_TOKEN")
    return github.Github(
        auth=github.Auth.Token(token) if token else None,
        base_url=toolkit.env.get("GITHUB_API_URL", API).rstrip("/"),
        timeout=TIMEOUT_SECONDS,
        retry=None,  # it is asked once; the refs are there
        verify=toolkit.env.get("SSL_CERT_FILE") or toolkit.env.get("REQUESTS_CA_BUNDLE") or True,
        lazy=True,  # one request a pull: nothing is asked of the repository itself
    )


def _facts(pull: Any) -> PullFacts:
    state: Literal["open", "closed", "merged"] = "open" if pull.state == "open" else "closed"
    if pull.merged:
        state = "merged"
    return PullFacts(
        title=" ".join(str(pull.title).split()),
        author=str(pull.user.login) if pull.user is not None else "",
        state=state,
        merged_as=str(pull.merge_commit_sha or "") if pull.merged else "",
        url=str(pull.html_url),
        head=str(pull.head.sha),
    )


def _warn(toolkit: Toolkit, number: int, answer: str, hint: str) -> None:
    toolkit.progress.warn(f"pull/{number}: GitHub {answer}: title and state are taken from git alone", hint)
