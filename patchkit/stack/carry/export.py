"""A series as files for others: mails for `git am`, or one diff; the same bytes wherever it is done.

Every kind of change comes out as a diff of what it did to the tree of one commit: a rewrite as the lines that it wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import PurePosixPath

from patchkit.recipe.model import ChangeCherryPick, ChangePatch, ChangePull, ChangeRevert, Patch
from patchkit.source.commit import Commit
from patchkit.source.source import Source
from patchkit.stack.apply import Step, choose_change
from patchkit.stack.carry.mail import read_sheets, write_preamble
from patchkit.stack.carry.refresh import Press, keep_files, moves_of, read_file
from patchkit.stack.carry.text import join_parts, render_trees
from patchkit.stack.history import find_pull_fork, pull_commits
from patchkit.stack.patch import FilePatch, Header
from patchkit.tools.git.log import read_text

AUTHOR = "patchkit <patchkit@localhost>"  # of a patch that names none
MARK = "# Written by `patchkit export`"
SERIES = "series"  # quilt's name for the list of patches, which is what it is


@dataclass(frozen=True)
class Exporter:
    """What writes a series of one commit. `about` are the patch folders of the recipe, by name."""

    source: Source
    commit: Commit
    press: Press
    about: Mapping[str, Patch]

    def mails(self, steps: Sequence[Step]) -> dict[str, bytes]:
        """Return the series as numbered mails, one for each commit that `git am` shall make."""
        files: dict[str, bytes] = {}
        for step in steps:
            for header, text in self._mails(step):
                name = f"{len(files) + 1:04d}-{_slug(step.patch.name)}.patch"
                files[name] = write_preamble(self._complete(header, step)) + text
        return files

    def diff(self, steps: Sequence[Step]) -> bytes:
        """Return all that the series changes as one diff."""
        trees = (steps[0].tree, steps[-1].attempt.tree) if steps else (self.commit.tree, self.commit.tree)
        return join_parts(render_trees(self.source.repository, trees))

    def _mails(self, step: Step) -> Iterator[tuple[Header, bytes]]:
        change, _ = choose_change(step.patch.changes, self.press.facts)
        parts: list[tuple[Header, tuple[str, str], Mapping[str, FilePatch]]] = []
        if isinstance(change, ChangePatch) and step.attempt.tree != step.tree:
            sheets = read_sheets(read_file(step.patch.folder / change.patch), change.strip, change.root)
            for sheet, pair in zip(sheets, self.press.trees(step, sheets, change) or (), strict=False):
                parts.append((sheet.patch.header, pair, moves_of(keep_files(sheet.patch, change.exclude))))
        for header, trees, moves in parts or [(self._header(step, change), (step.tree, step.attempt.tree), {})]:
            if trees[0] != trees[1]:
                yield header, join_parts(render_trees(self.source.repository, trees, moves))

    def _header(self, step: Step, change: object) -> Header:
        """Return what upstream's own history says of a change, nothing for other kinds."""
        if isinstance(change, ChangeCherryPick):
            return read_header(self.source, self.source.resolve(change.cherry_pick).id)
        if isinstance(change, ChangeRevert):
            found = self.source.resolve(change.revert)
            return Header(subject=f'Revert "{found.subject}"', body=f"This reverts commit {found.id}.")
        if isinstance(change, ChangePull):
            head = self.source.resolve(step.patch.heads.get(change.pull) or f"pull/{change.pull}")
            return read_pull_header(self.source, change.pull, head.id)
        return Header()

    def _complete(self, header: Header, step: Step) -> Header:
        """Return a header with what it lacks taken from patch.yaml; the date, from the commit under the series."""
        about = self.about.get(step.patch.name)
        why = (
            "\n\n".join(filter(None, (about.why.strip(), f"Upstream-Status: {about.upstream_status}"))) if about else ""
        )
        named = replace(
            header,
            author=header.author or (about and about.author) or AUTHOR,
            subject=header.subject or (about.title if about else step.patch.name),
            date=header.date or format_datetime(datetime.fromtimestamp(self.commit.time, UTC)),
        )
        return named if header.body else replace(named, body=why)


def read_header(source: Source, commit: str) -> Header:
    """Return what a commit says of itself."""
    text = read_text(source.repository, commit)
    return Header(text.author, text.subject, text.date, text.body)


def read_pull_header(source: Source, number: int, head: str) -> Header:
    """Return what the commits of a pull request say: of one its own words, of several their titles.

    The author is that of the first; the others are named as git names them, in trailers.
    """
    fork = find_pull_fork(source.repository, head)
    commits = pull_commits(source.repository, fork, head) if fork else ()
    if len(commits) < 2:
        return read_header(source, commits[0] if commits else head)
    texts = [read_text(source.repository, commit) for commit in commits]
    others = dict.fromkeys(text.author for text in texts if text.author != texts[0].author)
    titles = "\n".join(f"* {text.subject}" for text in texts)
    trailers = "\n".join(f"Co-authored-by: {author}" for author in others)
    body = "\n\n".join(filter(None, (titles, trailers)))
    return Header(texts[0].author, f"{texts[0].subject} (#{number})", texts[-1].date, body)


def series_file(commit: Commit, tree: str, names: Sequence[str]) -> bytes:
    """Return the list of the files as quilt reads it, with what they are for and what they make."""
    head = f"{MARK} for {commit.name}\n# base {commit.id}\n# tree {tree}\n"
    return (head + "".join(f"{name}\n" for name in names)).encode()


def exported_names(series: bytes) -> frozenset[str] | None:
    """Return the files that an earlier export wrote, by its list; None when it is the list of somebody else."""
    text = series.decode("utf-8", "replace")
    if not text.startswith(MARK):
        return None
    return frozenset({SERIES, *(line for line in text.splitlines() if line and not line.startswith("#"))})


def _slug(name: str) -> str:
    stem = PurePosixPath(name).name
    for suffix in (".patch", ".diff", ".mbox"):
        stem = stem.removesuffix(suffix)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.") or "patch"
