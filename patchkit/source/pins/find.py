"""Read from a tree which commit of another upstream it is made for, and where it says so.

vLLM-Ascend has named its vLLM in six ways so far, and always in its files: commit subjects follow no rule. The name of
the other upstream stands for NAME; which place decides for how many commits is counted by
`python -m benchmarks.bisect.pair`.

    .github/NAME-main-verified.commit, .github/NAME-release-tag.commit    since June 2026; nothing else in them
    .github/workflows/…test….yaml     NAME_version: [main, v0.9.1]        from April 2025 on; at first NAME_verison
    .github/workflows/…test….yaml     pip install NAME==0.7.3             eight commits of the branch v0.7.3-dev
    Dockerfile                        ARG NAME_TAG=v0.9.1, ARG NAME_COMMIT=…
    Dockerfile                        git clone of NAME, no branch named: its default branch of that day

Documentation, `ci_vllm_version` of conf.py, images for linters and workflows on a schedule name vLLMs too. They lag
behind these, and no commit names one there alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from patchkit.tools.git.objects import Repository

PinKind = Literal["commit", "tag", "branch"]
Prefer = Literal["newest", "release"]
ORDERS: dict[Prefer, tuple[PinKind, ...]] = {
    "newest": ("commit", "tag", "branch"),
    "release": ("tag", "commit", "branch"),
}
WORKFLOWS, IMAGE = ".github/workflows", "Dockerfile"
TESTS = re.compile(r"([a-z]+_[a-z]+_test|pr_test)(_pr)?(_light|_full)?\.ya?ml")  # those that test every change
SPELLING = re.compile(r"v?\d+\.\d+[\w.]*|[0-9a-f]{7,40}|main|master|releases?/[\w.-]+")


@dataclass(frozen=True)
class Pin:
    """A line (from 1) that names a commit of another upstream. A branch's `ref` is '' for the default one."""

    kind: PinKind
    ref: str
    path: str
    line: int
    text: str

    @property
    def place(self) -> str:
        """Return where it is said."""
        return f"{self.path}:{self.line}"


class PinReader:
    """Reads the pins of one upstream, by the recipe's name for it; a file that many commits share is read once."""

    def __init__(self, repository: Repository, name: str, prefer: Prefer = "newest") -> None:
        """Start with no file read. Of several pins, `prefer` says whether a commit or a release comes first."""
        self._repository = repository
        self._name = name
        self._order = ORDERS[prefer]
        self._image_last = prefer == "newest"
        self._known: dict[tuple[str, str, str], tuple[Pin, ...]] = {}
        small = re.escape(name.replace("-", "_"))
        large = small.upper()
        self._patterns = {
            "matrix": re.compile(rf"^\s*{small}_ver(?:si|is)on:\s*\[([^]]*)\]"),
            "install": re.compile(rf"\bpip3? install\b.*\s{small}==([\w.]+)"),
            "argument": re.compile(rf"^\s*ARG\s+{large}_(?:TAG|COMMIT)=(\S+)"),
            "clone": re.compile(
                rf"git clone\b(?!.*(?:--branch|\s-b)\b).*(?:\${{?{large}_REPO\b|/{small}(?:\.git)?(?:\s|$))"
            ),
        }

    def read(self, tree: str) -> tuple[Pin, ...]:
        """Return all pins of a tree, the preferred kind first, and of one kind the most authoritative place first.

        An image may stay at a release that tests have dropped: what it names comes last, unless releases are preferred.
        """
        pins = [pin for path, rule in self._places(tree) for pin in self._read_file(tree, path, rule)]
        return tuple(sorted(pins, key=self._rank))

    def _rank(self, pin: Pin) -> tuple[bool, int]:
        return self._image_last and pin.path == IMAGE, self._order.index(pin.kind)

    def _places(self, tree: str) -> Iterator[tuple[str, str]]:
        """Yield the files that may name a pin, each with how it is read, the most authoritative first."""
        yield f".github/{self._name}-main-verified.commit", "whole"
        yield f".github/{self._name}-release-tag.commit", "whole"
        names = self._repository.list_folder(tree, WORKFLOWS)
        tests = [f"{WORKFLOWS}/{name}" for name in names if TESTS.fullmatch(name)]
        yield from ((path, rule) for rule in ("matrix", "install") for path in tests)
        yield from ((IMAGE, rule) for rule in ("argument", "clone"))

    def _read_file(self, tree: str, path: str, rule: str) -> tuple[Pin, ...]:
        entry = self._repository.entry(tree, path)
        if entry is None:
            return ()
        key = (entry.blob, path, rule)
        if key not in self._known:
            text = (self._repository.read(tree, path) or b"").decode("utf-8", "replace")
            self._known[key] = tuple(self._pins_in(path, text, rule))
        return self._known[key]

    def _pins_in(self, path: str, text: str, rule: str) -> Iterator[Pin]:
        if rule == "clone" and "checkout" in text:
            return  # what is cloned whole is then put at a commit that another line names
        for number, line in enumerate(text.splitlines(), 1):
            for value in self._values(line, rule):
                if (kind := kind_of(value)) is not None:
                    yield Pin(kind, _ref_of(kind, value), path, number, line.strip())

    def _values(self, line: str, rule: str) -> list[str]:
        """Return what a line names, as it is written there."""
        if rule == "whole":
            return [line.strip()] if line.strip() else []
        if (found := self._patterns[rule].search(line)) is None:
            return []
        if rule == "clone":
            return [""]
        return [bare for value in found.group(1).split(",") if (bare := value.strip(" \"'"))]


def _ref_of(kind: PinKind, value: str) -> str:
    """Return a value as sources know it: releases are v<version>, the default branch is ''."""
    if kind == "tag":
        return value if value.startswith("v") else f"v{value}"
    return "" if value in {"main", "master"} else value


def kind_of(value: str) -> PinKind | None:
    """Return what a value names, None when it cannot be the name of a commit; '' is the default branch."""
    if value and not SPELLING.fullmatch(value):
        return None
    if re.fullmatch(r"[0-9a-f]{7,40}", value):
        return "commit"
    return "tag" if re.match(r"v?\d", value) else "branch"
