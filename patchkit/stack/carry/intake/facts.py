"""What is known of a patch beside its text: what the server says, and what upstream's own history says."""

from __future__ import annotations

from dataclasses import dataclass, replace

from patchkit.recipe.model import Imported
from patchkit.recipe.writing.patch_file import PatchText, comment_list
from patchkit.source.source import Source
from patchkit.stack.carry.intake.arrival import Arrival
from patchkit.stack.lineage.lineage import Lineage
from patchkit.stack.lineage.upstreamed import find_upstreamed
from patchkit.stack.patch import parse_patches
from patchkit.tools.git.log import commits_apart
from patchkit.tools.git.objects import Repository
from patchkit.tools.toolkit import Toolkit
from patchkit.tools.web.github import PullFacts, pull_url, read_pull


@dataclass(frozen=True)
class Known:
    """The server's word on a pull request (None: not asked), its page, and the commit with which upstream took it."""

    pull: PullFacts | None = None
    url: str = ""
    merged_as: str = ""

    @classmethod
    def ask(cls, toolkit: Toolkit, source: Source, git: str, arrival: Arrival) -> Known:
        """Ask the server where it is a pull request, and history where the server does not know."""
        number = pull_number(arrival.imported)
        facts = read_pull(toolkit, git, number) if number else None
        url = facts.url if facts else pull_url(git, number) if number else ""
        merged = facts.merged_as if facts else _taken_as(source, arrival)
        return cls(facts, url, merged)


def pull_number(imported: Imported) -> int:
    """Return the number of the pull request that was imported, 0 for anything else."""
    kind, _, number = imported.from_.partition("/")
    return int(number) if kind == "pull" and number.isdigit() else 0


def enrich(arrival: Arrival, known: Known) -> Arrival:
    """Return an arrival with the title and the state that are known."""
    imported = arrival.imported
    state = known.pull.state if known.pull else "merged" if known.merged_as and pull_number(imported) else None
    imported = imported.model_copy(update={"state": state, "merged_as": known.merged_as or None})
    return replace(arrival, imported=imported, title_given=known.pull.title if known.pull else "")


def describe(arrival: Arrival, known: Known, upstream: str, slug: str) -> PatchText:
    """Return what a patch.yaml says of an arrival."""
    number, imported = pull_number(arrival.imported), arrival.imported
    by = f" by {known.pull.author}" if known.pull and known.pull.author else ""
    origin = f"{known.url}{by}" if known.url else imported.from_ if "://" in imported.from_ else ""
    remove = f"contains({known.merged_as})" if known.merged_as else f"merged({number})" if number else ""
    notes = []
    if arrival.aside:
        notes.append(comment_list(f"beside it, not applied: {slug}.aside.patch", sorted(arrival.aside)))
    if arrival.native:
        notes.append(comment_list("needs a native build", arrival.native))
    return PatchText(
        title=arrival.title,
        why=arrival.header.body,
        upstream=upstream,
        upstream_status=_status(known, number),
        origin=origin,
        author=arrival.header.author,
        remove_when=remove,
        requires=(),
        file=f"{slug}.patch",
        notes=tuple(notes),
    )


def _status(known: Known, number: int) -> str:
    """Return the Upstream-Status: Backport of what upstream has, Submitted for a pull request, else Pending."""
    if known.merged_as:
        return f"Backport [{known.url or known.merged_as}]"
    if not number:
        return "Pending"
    closed = ", closed without a merge" if known.pull and known.pull.state == "closed" else ""
    return f"Submitted [{known.url or f'pull/{number}'}{closed}]"


def _taken_as(source: Source, arrival: Arrival) -> str:
    """Return the commit of upstream's default branch that took a patch, or is it; '' when none does.

    Forges put the number of a request behind the title of what they merge; else it is known by what it changes.
    """
    repository, imported = source.repository, arrival.imported
    tip = repository.find_commit("HEAD")
    if tip is None or imported.commit is None:
        return ""
    number = pull_number(imported)
    if repository.is_ancestor(imported.commit, tip):
        return imported.commit
    if number and (named := _named_as(repository, (str(imported.base), tip), number, frozenset(arrival.parts))):
        return named
    found = find_upstreamed(Lineage(repository, tip), parse_patches(arrival.text))
    return found.commit if found else ""


def _named_as(repository: Repository, span: tuple[str, str], number: int, paths: frozenset[str]) -> str:
    """Return the commit since the fork whose title ends in the number of a request, and that changes a file of it."""
    for commit in reversed(commits_apart(repository, span[1], [span[0]])):
        record = repository.read_commit(commit)
        if record.subject.endswith(f"(#{number})") and record.parents:
            trees = (repository.read_commit(record.parents[0]).tree, record.tree)
            if any(delta.path in paths for delta in repository.diff(*trees)):
                return commit
    return ""
