"""What `watch` found as one HTML file that needs nothing from outside: no script, no font, no image."""

from __future__ import annotations

from html import escape

from patchkit.report.bisect import FIDELITY
from patchkit.report.style import STYLE
from patchkit.report.text import removable_line, seconds
from patchkit.report.watch import Subject, WatchReport, short, word
from patchkit.verdict.transition import Change, Finding, Transition, VerdictPair, find
from patchkit.verdict.verdict import Verdict

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_TONE = {
    Finding.GOOD: "good",
    Finding.ABSENT: "quiet",
    Finding.BAD: "bad",
    Finding.CONFLICT: "conflict",
    Finding.UNKNOWN: "unknown",
}
_CHANGE_TONE = {
    Change.STILL_GOOD: "good",
    Change.FIXED_UPSTREAM: "good",
    Change.ABSENT: "quiet",
    Change.CONFLICT: "conflict",
    Change.CANNOT_TELL: "unknown",
}


def html(report: WatchReport) -> str:
    """Return the page: outcome, transitions, matrix of commits and issues, and the details of every verdict."""
    title = f"{report.recipe}: {report.upstream} {report.since} to {report.newest}"
    body = "\n".join(
        part
        for part in (_head(report), _alert(report), _transitions(report), _matrix(report), _details(report))
        if part
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _head(report: WatchReport) -> str:
    tone = "bad" if report.alarming else "unknown" if report.untold else "good"
    state = "Needs attention" if report.alarming else "Cannot be told" if report.untold else "All good or patched"
    patched = sum(transition.patched for transition in report.standing)
    figures = (
        ("commits judged" if report.axis == "commits" else "releases judged", len(report.nodes)),
        ("new", report.new),
        ("repros", len(report.subjects)),
        ("patched", patched),
        ("need attention", report.alarming),
        ("cannot be told", report.untold),
    )
    cells = "".join(f"<div><dt>{label}</dt><dd>{value}</dd></div>" for label, value in figures)
    return (
        f'<header>\n<p class="kicker">patchkit watch</p>\n<h1>{escape(report.recipe)} {_chip(state, tone)}</h1>\n'
        f'<p class="span">{escape(report.upstream)} <b>{escape(short(report.since))}</b> → '
        f"<b>{escape(short(report.newest))}</b>. {escape(_sentence(report.message))}</p>\n"
        f"<dl>{cells}</dl>\n</header>"
    )


def _alert(report: WatchReport) -> str:
    notes = [f"<p>{escape(removable_line(patch, reason))}</p>" for patch, reason in report.removable.items()]
    if report.conflict is not None:
        where, detail = escape(report.conflict.at), escape(report.conflict.detail)
        notes.insert(0, f'<p class="alert"><b>The series does not apply from {where} on.</b> {detail}</p>')
    return "\n".join(notes)


def _transitions(report: WatchReport) -> str:
    if not report.transitions:
        return ""
    rows = "\n".join(_transition_row(transition) for transition in reversed(report.transitions))
    return (
        '<section>\n<h2>Transitions</h2>\n<div class="scroll"><table>\n'
        "<thead><tr><th>at</th><th>change</th><th>issue</th><th>without series</th><th>with series</th>"
        f"<th>fidelity</th></tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>\n</section>"
    )


def _transition_row(transition: Transition) -> str:
    tone = _CHANGE_TONE.get(transition.change) or ("bad" if transition.alarming else "patched")
    patched = _chip("patched", "patched") if transition.patched else ""
    before = (
        ""
        if transition.before == transition.at
        else f'<span class="before">from {escape(short(transition.before))}</span>'
    )
    pair = transition.pair
    return (
        f"<tr><th>{escape(short(transition.at))}{before}</th><td>{_chip(transition.change.value, tone)} {patched}</td>"
        f'<td class="name">{escape(transition.issue)}/{escape(transition.repro)}</td><td>'
        f"{_verdict_chip(pair.without)}</td>"
        f"<td>{_verdict_chip(pair.with_series)}</td><td>{_fidelity(pair.without.fidelity)}</td></tr>"
    )


def _matrix(report: WatchReport) -> str:
    heads = "".join(
        f'<th title="{escape(subject.title)}">{escape(subject.issue)}<br><small>{_repro(subject)}</small></th>'
        for subject in report.subjects
    )
    rows = "\n".join(_matrix_row(report, node) for node in report.nodes)
    return (
        "<section>\n<h2>Matrix</h2>\n<p>Each cell: upstream as it is → with the series. "
        f"{report.axis.capitalize()} between those shown "
        'were not needed to find the turns.</p>\n<div class="scroll"><table>\n'
        f"<thead><tr><th>{escape(report.upstream)}</th>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>\n</section>"
    )


def _matrix_row(report: WatchReport, node: str) -> str:
    cells = "".join(_cell(subject, report.pairs.get(subject.name, {}).get(node)) for subject in report.subjects)
    return f"<tr><th>{escape(short(node))}</th>{cells}</tr>"


def _cell(subject: Subject, pair: VerdictPair | None) -> str:
    if pair is None:
        return '<td class="none">·</td>'
    target = escape(_anchor(subject, pair))
    chips = f"{_verdict_chip(pair.without)} → {_verdict_chip(pair.with_series)}"
    return f'<td><a href="#{target}">{chips}</a></td>'


def _details(report: WatchReport) -> str:
    blocks = []
    for subject in report.subjects:
        pairs = report.pairs.get(subject.name, {})
        entries = "\n".join(_detail(subject, pairs[node]) for node in report.nodes if node in pairs)
        blocks.append(
            f"<h3>{escape(subject.name)}</h3>\n<p>{escape(subject.title)} {_fidelity(subject.fidelity)} "
            f"{FIDELITY[subject.fidelity]}.</p>\n{entries}"
        )
    return "<section>\n<h2>Details</h2>\n" + "\n".join(blocks) + "\n</section>"


def _detail(subject: Subject, pair: VerdictPair) -> str:
    rows = "".join(_detail_row(verdict) for verdict in (pair.without, pair.with_series))
    shown = " open" if pair.findings[1] in (Finding.BAD, Finding.CONFLICT) else ""
    return (
        f"<details{shown}><summary><b>{escape(short(pair.without.at))}</b> "
        f"{_verdict_chip(pair.without)} → {_verdict_chip(pair.with_series)}</summary>\n"
        f'<p id="{escape(_anchor(subject, pair))}">commit <code>{escape(pair.without.commit)}</code></p>\n'
        '<div class="scroll"><table><thead><tr><th>series</th><th>answer</th><th>reason</th><th>time</th>'
        f"<th>detail and log</th></tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _detail_row(verdict: Verdict) -> str:
    log = f"<br><code>{escape(verdict.evidence)}</code>" if verdict.evidence else ""
    return (
        f"<tr><th>{escape(verdict.series)}</th><td>{_verdict_chip(verdict)}</td><td>{escape(verdict.reason.value)}</td>"
        f"<td>{seconds(verdict.duration_seconds)}</td><td>{escape(verdict.detail)}{log}</td></tr>"
    )


def _verdict_chip(verdict: Verdict) -> str:
    return _chip(word(verdict), _TONE[find(verdict)])


def _chip(text: str, tone: str) -> str:
    return f'<span class="chip {tone}">{escape(text)}</span>'


def _fidelity(fidelity: str) -> str:
    return f'<span class="fidelity" title="{escape(FIDELITY[fidelity])}">{escape(fidelity)}</span>'


def _repro(subject: Subject) -> str:
    name = "" if subject.repro == subject.fidelity else f"{escape(subject.repro)} "
    return name + _fidelity(subject.fidelity)


def _anchor(subject: Subject, pair: VerdictPair) -> str:
    return f"{subject.issue}-{subject.repro}-{pair.without.commit[:12]}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
