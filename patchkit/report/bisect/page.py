"""A bisect as one HTML file that needs nothing from outside, and as Markdown for an issue comment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from patchkit.report.bisect.picture import Picture, svg
from patchkit.report.bisect.text import name_commits, result_lines
from patchkit.report.markdown import escape as escape_markdown
from patchkit.report.style import STYLE
from patchkit.report.text import flatten, seconds

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_MORE_STYLE = """
.posterior { width: 100%; height: auto; font-size: 11px; } .posterior text { fill: var(--soft); }
.posterior line { stroke: var(--line); } pre { overflow-x: auto; padding: 12px 16px; background: var(--card);
  border: 1px solid var(--line); border-radius: 10px; font-size: 13px; }
"""
_TONE = {"good": "good", "bad": "bad", "skip": "unknown", "conflict": "conflict"}
Document = Mapping[str, Any]


def bisect_html(searches: Sequence[tuple[Document, Sequence[Document], Picture]]) -> str:
    """Return the page: for each search its result, the picture of the posterior, and every probe.

    A search is (result, events of the journal, picture); a search inside the answer of another comes after it.
    """
    body = "\n".join(_section(*search) for search in searches)
    title = escape(f"bisect {searches[0][0]['issue']}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}{_MORE_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def bisect_markdown(result: Document, events: Sequence[Document]) -> str:
    """Return the result and its probes."""
    state = "confirmed" if result["confirmed"] else "not confirmed"
    found = f"`{result['first_bad']}` ({state})" if result["first_bad"] else "a set of suspects"
    lines = [f"## patchkit bisect: {escape_markdown(result['issue'])}/{escape_markdown(result['repro'])}", ""]
    lines += [f"First bad: {found}", ""]
    lines += [f"- {escape_markdown(flatten(line.strip()))}" for line in result_lines(result)]
    lines += ["", "| probe | answer | reason | stage | time |", "| --- | --- | --- | --- | --- |"]
    for event in events:
        if event["event"] in ("probe", "spoiled"):
            carried = f", with {name_commits(event['fix_up'])}" if event.get("fix_up") else ""
            cells = (event["node"][:12], event["answer"], event["reason"] + carried, event["stage"], _time(event))
            lines.append(f"| {' | '.join(escape_markdown(cell) for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _section(result: Document, events: Sequence[Document], picture: Picture) -> str:
    state, tone = ("confirmed", "good") if result["confirmed"] else ("not confirmed", "unknown")
    name = result["first_bad"] or f"{len(result['candidates'])} suspects"
    culprit = result["culprit"] or {}
    said = f'<p class="span">{escape(flatten(culprit["subject"]))}</p>\n' if culprit else ""
    figures = (("probes", result["probes"]), (result["axis"], len(picture.nodes)), ("fidelity", result["fidelity"]))
    cells = "".join(f"<div><dt>{escape(label)}</dt><dd>{escape(str(value))}</dd></div>" for label, value in figures)
    alerts = "".join(f'<p class="alert">{escape(flatten(one["message"]))}</p>\n' for one in result["warnings"])
    lines = escape("\n".join(flatten(line) for line in result_lines(result)))
    return (
        f'<header>\n<p class="kicker">patchkit bisect {escape(result["issue"])}/{escape(result["repro"])}, '
        f"{escape(result['good'])} to {escape(result['bad'])}</p>\n"
        f'<h1>{escape(name[:12])} <span class="chip {tone}">{state}</span></h1>\n{said}<dl>{cells}</dl>\n</header>\n'
        f"{alerts}<section><pre>{lines}</pre></section>\n"
        "<section>\n<h2>What was believed</h2>\n<p>A row for each probe that told something or "
        "could not be told: the commits that could still be the first bad one, "
        "darker where likelier, and the probe as a dot: good, bad or not to be told. Below, the end.</p>\n"
        f"{svg(picture)}\n</section>\n{_probes(events)}"
    )


def _probes(events: Sequence[Document]) -> str:
    rows = "\n".join(_probe(event) for event in events if event["event"] in ("probe", "spoiled", "revert", "control"))
    return (
        '<section>\n<h2>Probes</h2>\n<div class="scroll"><table>\n<thead><tr><th>commit</th><th>answer</th>'
        f"<th>reason</th><th>stage</th><th>time</th></tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>\n</section>"
    )


def _probe(event: Document) -> str:
    stage = event.get("stage", "to compare" if event["event"] == "control" else "without the culprit")
    chip = f'<span class="chip {_TONE[event["answer"]]}">{event["answer"]}</span>'
    reason = f"{event['reason']}: {event['detail']}" if event["answer"] in ("skip", "conflict") else event["reason"]
    reason += f", with {name_commits(event['fix_up'])}" if event.get("fix_up") else ""
    return (
        f"<tr><th>{escape(event['node'][:12])}</th><td>{chip}</td><td>{escape(flatten(reason))}</td>"
        f"<td>{escape(stage)}</td><td>{_time(event)}</td></tr>"
    )


def _time(event: Document) -> str:
    return "known" if event.get("reused") else seconds(event["duration_seconds"])
