"""How the names that a downstream package uses stand, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from patchkit.report.text import align, flatten
from patchkit.source.commit import Commit
from patchkit.stack.symbols.downstream.package import Downstream
from patchkit.stack.symbols.downstream.use import Use
from patchkit.stack.symbols.examine import Finding, Judged

SHORT = 12
MOST_LINES = 3  # of uses, for people; the document has them all
SAID = {
    "gone": "gone",
    "hidden": "under TYPE_CHECKING only",
    "nothing": "replaces nothing",
    "differs": "other arguments",
}


@dataclass(frozen=True)
class Since:
    """The commit, or release, that made a problem."""

    commit: str
    subject: str

    def __str__(self) -> str:
        return f"{self.commit[:SHORT]} {self.subject}".rstrip()


@dataclass(frozen=True)
class ToldFinding:
    """A problem; `known`: the baseline has it."""

    finding: Finding
    known: bool
    since: Since | None = None


@dataclass(frozen=True)
class RefSymbols:
    """All names against one commit."""

    commit: Commit
    judged: tuple[Judged, ...]
    findings: tuple[ToldFinding, ...]

    @property
    def stands(self) -> bool:
        """Return whether there is no problem that the baseline does not have."""
        return all(one.known for one in self.findings)


@dataclass(frozen=True)
class SymbolsReport:
    """A package's names against each commit asked for; `healed` are the entries of the baseline that are none now."""

    package: str
    product: str
    downstream: Downstream
    refs: tuple[RefSymbols, ...]
    healed: tuple[tuple[str, str, str], ...]

    @property
    def stands(self) -> bool:
        """Return whether every name stands against every commit, but for what the baseline has."""
        return all(ref.stands for ref in self.refs)


def symbols_text(report: SymbolsReport) -> str:
    """Return a line for each commit, a matrix of the names with a problem, and where each is used."""
    lines = [
        f"{report.package}: {report.downstream.files} files, {len(report.downstream.uses)} uses of {report.product}"
    ]
    rows = [(ref.commit.name, ref.commit.id[:SHORT], *_numbers(ref)) for ref in report.refs]
    lines.append(align(("against", "commit", "there", "not run", "broken", "new"), rows))
    keys = sorted({_row(one.finding) for ref in report.refs for one in ref.findings})
    if keys:
        cells = [(key[0], *(_cell(ref, key) for ref in report.refs)) for key in keys]
        lines += ["", align(("symbol", *(ref.commit.name for ref in report.refs)), cells), ""]
        lines += [line for key in keys for line in _details(_last(report.refs, key))]
    lines += [f"healed, leave it out of the baseline: {symbol} ({problem})" for symbol, problem, _ in report.healed]
    return "\n".join(lines)


def _numbers(ref: RefSymbols) -> tuple[str, str, str, str]:
    counts = Counter(one.answer.value for one in ref.judged)
    new = sum(not one.known for one in ref.findings)
    return str(counts["there"] + counts["open"]), str(counts["not-run"]), str(len(ref.findings)), str(new)


def _row(finding: Finding) -> tuple[str, str]:
    return finding.symbol, finding.answer.value


def _cell(ref: RefSymbols, key: tuple[str, str]) -> str:
    found = next((one for one in ref.findings if _row(one.finding) == key), None)
    if found is None:
        return "-"
    return _said(found.finding) + (" (known)" if found.known else "")


def _said(finding: Finding) -> str:
    if finding.answer == "nothing" and finding.uses[0].kind == "overrides":
        return "overrides nothing"
    return SAID[finding.answer.value]


def _last(refs: Sequence[RefSymbols], key: tuple[str, str]) -> ToldFinding:
    return next(one for ref in reversed(refs) for one in ref.findings if _row(one.finding) == key)


def _details(told: ToldFinding) -> list[str]:
    finding = told.finding
    about = [finding.detail] if finding.detail else []
    if finding.missing not in ("", finding.symbol):
        about.append(f"{finding.missing} is gone")
    about += [f"now {' or '.join(finding.moved_to)}"] if finding.moved_to else []
    about += [f"since {told.since}"] if told.since else []
    lines = [flatten(f"{finding.symbol}: {_said(finding)}{''.join(f'; {one}' for one in about)}")]
    uses = finding.uses
    lines += [f"  {use.file}:{use.line}: {use.kind.value}" for use in uses[:MOST_LINES]]
    return [*lines, *([f"  and {len(uses) - MOST_LINES} more"] if len(uses) > MOST_LINES else [])]


def symbols_document(report: SymbolsReport) -> dict[str, Any]:
    """Return `package, product, files, uses, against: […], symbols: […], healed: […]`."""
    return {
        "package": report.package,
        "product": report.product,
        "files": report.downstream.files,
        "uses": len(report.downstream.uses),
        "unreadable": list(report.downstream.unreadable),
        "against": [_ref(ref) for ref in report.refs],
        "symbols": [_symbol(one, ref.commit) for ref in report.refs for one in ref.findings],
        "healed": [dict(zip(("symbol", "problem", "detail"), key, strict=True)) for key in report.healed],
    }


def _ref(ref: RefSymbols) -> dict[str, Any]:
    counts = Counter(one.answer.value for one in ref.judged)
    return {
        "at": ref.commit.name,
        "commit": ref.commit.id,
        "stands": ref.stands,
        "answers": dict(sorted(counts.items())),
    }


def _symbol(told: ToldFinding, commit: Commit) -> dict[str, Any]:
    finding = told.finding
    return {
        "symbol": finding.symbol,
        "at": commit.name,
        "commit": commit.id,
        "problem": finding.answer.value,
        "detail": finding.detail,
        "missing": finding.missing or None,
        "known": told.known,
        "moved_to": list(finding.moved_to),
        "since": None if told.since is None else {"commit": told.since.commit, "subject": told.since.subject},
        "uses": list(_uses(finding.uses)),
    }


def _uses(uses: Iterable[Use]) -> Iterable[dict[str, Any]]:
    return (
        {"file": use.file, "line": use.line, "kind": use.kind.value, "need": use.need.value, "name": use.symbol}
        for use in uses
    )
