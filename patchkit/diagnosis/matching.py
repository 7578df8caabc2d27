"""Failures → the known issues whose log signatures they show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchkit.diagnosis.log.failure import VARIABLE
from patchkit.diagnosis.root_cause import RootCause

MOST_SIGNATURE_CHARACTERS = 120


@dataclass(frozen=True)
class KnownIssue:
    """An issue of the library, with what helps against it. `recipes` are those that select a repro of it.

    `upstream`: whose fault it is, `vllm` or a plugin of it.
    """

    slug: str
    title: str
    log_signatures: tuple[str, ...]
    links: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    recipes: tuple[str, ...] = ()
    upstream: str = "vllm"


@dataclass(frozen=True)
class Match:
    """An issue and the line that shows its signature. `is_cause` is False when another failure of the log shows it."""

    issue: KnownIssue
    signature: str
    line: str
    is_cause: bool


def match_issues(texts: Sequence[str], issues: Iterable[KnownIssue]) -> tuple[Match, ...]:
    """Return the issues that the failures' texts show, those of the first text (the root cause) first.

    A plugin that replaces a method of vLLM keeps its words: where an issue of a plugin claims a failure, vLLM's do not.
    """
    found = [match for issue in issues if (match := _match(texts, issue))]
    plugins = {match.is_cause for match in found if match.issue.upstream != "vllm"}
    found = [match for match in found if match.issue.upstream != "vllm" or match.is_cause not in plugins]
    return tuple(sorted(found, key=lambda one: (not one.is_cause, one.issue.slug)))


def _match(texts: Sequence[str], issue: KnownIssue) -> Match | None:
    for index, text in enumerate(texts):
        for signature in issue.log_signatures:
            match = re.search(signature, text, re.MULTILINE)
            if match:
                return Match(issue, signature, _line_of(text, match), index == 0)
    return None


def _line_of(text: str, match: re.Match[str]) -> str:
    end = text.find("\n", match.start())
    return text[text.rfind("\n", 0, match.start()) + 1 : end if end >= 0 else None].strip()


def propose_signature(cause: RootCause) -> str:
    """Return a regular expression for the `log-signatures` of an issue about an unknown failure; numbers may differ."""
    kind = cause.failure.root.type.rpartition(".")[2]
    message = ": ".join(part for part in (kind, cause.message[:MOST_SIGNATURE_CHARACTERS]) if part)
    return r"\d+".join(re.escape(part).replace(r"\ ", " ") for part in VARIABLE.split(message))
