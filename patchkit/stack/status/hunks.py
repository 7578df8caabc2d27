"""One file of a patch, hunk by hunk: how each stands, and which commit made it so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchkit.source.git_source import release_tags
from patchkit.stack.ladder.attempt import FileResult, HunkResult, HunkState, is_test
from patchkit.stack.lineage.breaker import Touch, Trial, commits_of, find_departure
from patchkit.stack.lineage.images import find_images
from patchkit.stack.lineage.lineage import Images, Lineage
from patchkit.stack.lineage.upstreamed import find_upstreamed
from patchkit.stack.outcome import Outcome
from patchkit.stack.patch.lines import split_lines
from patchkit.stack.patch.model import FilePatch, Hunk, Patch
from patchkit.stack.scope import MODULE, enclosing, find_spans
from patchkit.stack.status.model import ConflictRecord, HunkAnswer, HunkStatus, Upstreaming
from patchkit.tools.git.objects import Repository

AROUND = 3  # lines of the tree shown before and after where a hunk belongs

UNPLACED = {HunkAnswer.SUPERSEDED, HunkAnswer.TOO_OLD, HunkAnswer.CONFLICT}

_PLAIN = {
    HunkState.MERGED: HunkAnswer.MERGED,
    HunkState.ANCHORED: HunkAnswer.ANCHORED,
    HunkState.UPSTREAM: HunkAnswer.UPSTREAM,
}


@dataclass(frozen=True)
class Examiner:
    """Looks at hunks on one tree. Without a lineage nothing is known of commits; `taken` tells who took the patch.

    Who took it took all its files but tests, which are looked at one by one.
    """

    repository: Repository
    tree: str
    lineage: Lineage | None
    taken: Upstreaming | None = None

    def examine(
        self, patches: Sequence[Patch], results: Sequence[FileResult]
    ) -> tuple[tuple[HunkStatus, ...], tuple[ConflictRecord, ...]]:
        """Return how every hunk stands, in the order of the patch, and a record of each that has no place."""
        images = find_images(self.repository, patches, self.lineage)
        hunks: list[HunkStatus] = []
        conflicts: list[ConflictRecord] = []
        files = [(patch, file) for patch in patches for file in patch.files]
        tests_count = all(is_test(file.path) for _, file in files)
        for (patch, file), result in zip(files, results, strict=False):
            if self.taken is not None and (tests_count or not is_test(file.path)):
                hunks += _taken_hunks(file, result, self.taken)
                continue
            if not result.hunks:
                hunks.append(self._whole(file, result))
            for found, hunk in zip(result.hunks, file.hunks, strict=False):
                status = self._hunk(Patch(patch.header, (file,)), found, hunk, images)
                hunks.append(status)
                if status.answer in UNPLACED and not self.taken:
                    conflicts.append(self._record(file, status, hunk, images))
        return tuple(map(self._released, hunks)), tuple(conflicts)

    def _released(self, status: HunkStatus) -> HunkStatus:
        """Return a hunk that upstream took with the first release that has it."""
        if status.answer is not HunkAnswer.UPSTREAM or status.by is None or status.release:
            return status
        return replace(status, release=first_release(self.repository, status.by.commit))

    def _whole(self, file: FilePatch, result: FileResult) -> HunkStatus:
        """Judge a file as a whole: it is gone, or made, moved or binary."""
        if result.outcome is Outcome.TARGET_GONE:
            return self._gone(str(file.old_path or file.path), result)
        answer = HunkAnswer.APPLIES if result.outcome.stands else HunkAnswer.CONFLICT
        if result.outcome is Outcome.ALREADY_UPSTREAM:
            answer = HunkAnswer.UPSTREAM
        return HunkStatus(file.path, 0, answer, detail=result.message)

    def _gone(self, path: str, result: FileResult) -> HunkStatus:
        if self.lineage is None:
            return HunkStatus(path, 0, HunkAnswer.TARGET_GONE, detail=result.message)
        departure = find_departure(self.lineage, path)
        if departure.comes is not None:
            return HunkStatus(path, 0, HunkAnswer.TOO_OLD, by=departure.comes, detail="the file comes later")
        detail = f"renamed to {departure.renamed}" if departure.renamed else "deleted" if departure.gone else ""
        return HunkStatus(path, 0, HunkAnswer.TARGET_GONE, by=departure.gone, detail=detail or result.message)

    def _hunk(self, patch: Patch, found: HunkResult, hunk: Hunk, images: Images) -> HunkStatus:
        (file,) = patch.files
        status = HunkStatus(file.path, found.number, HunkAnswer.APPLIES, found.line, found.offset, None, found.message)
        if found.state is HunkState.APPLIED:
            return replace(status, answer=HunkAnswer.OFFSET if found.offset else HunkAnswer.APPLIES)
        if found.state in {HunkState.MERGED, HunkState.ANCHORED}:
            return replace(status, answer=_PLAIN[found.state])
        if self.lineage is None:
            upstream = found.state is HunkState.UPSTREAM
            return replace(status, answer=HunkAnswer.UPSTREAM if upstream else HunkAnswer.CONFLICT)
        taken = find_upstreamed(self.lineage, [Patch(patch.header, (replace(file, hunks=(hunk,)),))])
        if taken is not None or found.state is HunkState.UPSTREAM:
            by = Touch(taken.commit, taken.subject) if taken else None
            return replace(status, answer=HunkAnswer.UPSTREAM, by=by, detail="")
        return self._failed(status, Trial(self.lineage, file, hunk, images.get(file.line)))

    def _failed(self, status: HunkStatus, trial: Trial) -> HunkStatus:
        """Say why a hunk has no place: lines that were changed since, or that come later; or that others hold it up."""
        entry = self.repository.entry(self.tree, status.path)
        alone = trial.landing(entry.blob) if entry is not None else None
        if alone in {HunkState.MERGED, HunkState.ANCHORED}:
            return replace(status, answer=_PLAIN[alone], line=0, detail="")
        if (by := trial.broken_by()) is not None:
            return replace(status, answer=HunkAnswer.SUPERSEDED, by=by)
        if (by := trial.lands_from()) is not None:
            return replace(status, answer=HunkAnswer.TOO_OLD, by=by)
        return replace(status, answer=HunkAnswer.CONFLICT)

    def _record(self, file: FilePatch, status: HunkStatus, hunk: Hunk, images: Images) -> ConflictRecord:
        image = images.get(file.line)
        touches = Trial(self.lineage, file, hunk, image).touched_by() if self.lineage else ()
        data = self.repository.read(self.tree, file.path) or b""
        start = max(status.line - 1 - AROUND, 0)
        ours = split_lines(data)[start : start + len(hunk.old) + 2 * AROUND]
        return ConflictRecord(
            path=file.path,
            hunk=status.number,
            function=_function(image.before if image else b"", hunk),
            commits=commits_of((status.by, *touches)),
            base=_text(hunk.old),
            ours=_text(ours),
            theirs=_text(hunk.new),
        )


def first_release(repository: Repository, commit: str) -> str:
    """Return the first final release tag that holds a commit, '' when none does."""
    time = repository.read_commit(commit).commit_time
    for version, tag in sorted(release_tags(repository).items()):
        at = repository.find_ref(f"refs/tags/{tag}")
        if version.is_prerelease or at is None or repository.read_commit(at).commit_time < time:
            continue
        if repository.is_ancestor(commit, at):
            return tag
    return ""


def _taken_hunks(file: FilePatch, result: FileResult, taken: Upstreaming) -> list[HunkStatus]:
    """Return the hunks of a file of a patch that upstream took whole, whatever their lines have become since."""
    plain = HunkStatus(file.path, 0, HunkAnswer.UPSTREAM, by=taken.by, release=taken.release)
    hunks = [replace(plain, number=found.number) for found in result.hunks]
    lines = [found if found.state is HunkState.UPSTREAM else HunkResult(0, found.state) for found in result.hunks]
    return [replace(one, line=at.line, offset=at.offset) for one, at in zip(hunks, lines, strict=True)] or [plain]


def _function(before: bytes, hunk: Hunk) -> str:
    """Return the definition that a hunk is in, or what the patch says of it."""
    spans = find_spans(before) if before else None
    name = enclosing(spans, hunk.old_start - 1 + hunk.leading) if spans else MODULE
    return name if name != MODULE else hunk.heading.decode("utf-8", "replace").strip()


def _text(lines: Sequence[bytes]) -> str:
    return b"".join(lines).decode("utf-8", "backslashreplace")
