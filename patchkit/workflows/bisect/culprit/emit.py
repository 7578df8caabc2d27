"""Write the confirmed revert as a patch of the recipe's library: a folder that `patchkit check` takes."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from patchkit.errors import RequestError
from patchkit.pipeline import patch_tree
from patchkit.recipe.load import check_files
from patchkit.recipe.model.fields import SLUG
from patchkit.stack.carry.text import join_parts, render_trees
from patchkit.tools.cache import remove_path, storage_errors
from patchkit.workflows.bisect.culprit.revert import can_revert, with_revert
from patchkit.workflows.bisect.subject import CommitSubject, Subject

DIFF = "revert.patch"


def check_name(subject: Subject, name: str) -> None:
    """Raise `RequestError` when a patch of that name cannot be written, before anything is searched."""
    if not re.fullmatch(SLUG, name):
        hint = "lower-case letters, digits, `.`, `_` and `-`"
        raise RequestError(f"{name!r} is no name of a patch", hint)
    node = yaml.compose(name, yaml.SafeLoader)
    if node is None or node.tag != "tag:yaml.org,2002:str":
        raise RequestError(f"{name!r} is no name of a patch: YAML reads something else", "choose another name")
    if not can_revert(subject):
        raise RequestError("only a commit of a git upstream can be taken back", "leave --emit-revert out")
    folder = _folder(subject, name)
    if folder.exists():
        raise RequestError(f"{folder}: is there already", "choose another name, or remove it")


def emit_revert(subject: CommitSubject, name: str, document: Mapping[str, Any]) -> Path:
    """Write the revert of the first bad commit as it is at the bad end; return the folder. Raises `StoreFailure`.

    It is applied where the culprit is in history; nothing is half written.
    """
    folder, culprit = _folder(subject, name), str(document["first_bad_commit"])
    partial = folder.parent / f".{name}.{secrets.token_hex(4)}"
    both = (subject, with_revert(subject, culprit))
    results = [patch_tree(one.opened, subject.bad, one.series, subject.issue.slug) for one in both]
    before, after = (result.patched.id if result.patched else "" for result in results)
    if not before or not after:
        raise RequestError(f"{name}: the series does not apply at {subject.bad.name}", "see `patchkit apply`")
    try:
        with storage_errors(folder.parent):
            partial.mkdir(parents=True)
            (partial / DIFF).write_bytes(join_parts(render_trees(subject.source.repository, (before, after))))
            (partial / "patch.yaml").write_text(_render(subject, culprit, document), encoding="utf-8")
            for problem in check_files((partial / "patch.yaml",)):
                raise RequestError(f"{name}: {problem}", "this is a defect of patchkit")
            partial.rename(folder)
    finally:
        remove_path(partial)
    return folder


def _folder(subject: CommitSubject, name: str) -> Path:
    return subject.opened.loaded.root / "patches" / name


def _render(subject: CommitSubject, culprit: str, document: Mapping[str, Any]) -> str:
    title = document["culprit"]["subject"]
    counts = document["confirmation"]["culprit"]
    parents = document["confirmation"]["parents"]
    why = (
        f'{culprit} ("{title}") brings {subject.issue.slug}: the repro {subject.repro.name} is bad there in '
        f"{counts['bad']} of {counts['runs']} runs and good at {len(parents)} parent{'s' * (len(parents) != 1)}; "
        f"without it {subject.bad.name} is good."
    )
    patch = {
        "format": 1,
        "title": f'Revert "{title}"',
        "why": why,
        "upstream": subject.source.upstream,
        "issue": [subject.issue.slug],
        "upstream-status": f"Pending [found by bisection; tell upstream that {culprit[:12]} brings it]",
        "when": f"contains({culprit})",
        "change": [{"patch": DIFF}],
    }
    return yaml.safe_dump(patch, sort_keys=False, allow_unicode=True, width=120)
