"""The events of a bisect as lines for people, made from the documents that programs get."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from patchkit.report.bisect.axes import fixed_text, noun_of, pair_lines, patches_log_text, patches_text
from patchkit.report.text import flatten, seconds
from patchkit.search.decision import count_steps

FIDELITY = {
    "real": "the real fault on the real code",
    "stubbed": "the real code, with stand-ins for what this machine lacks",
    "static": "the code was read, not run",
    "needs-gpu": "needs a GPU",
}
_SERIES = {"with": "with the series", "without": "without the series", "others": "with the series' other patches"}
Document = Mapping[str, Any]


def event_text(event: Document) -> str:
    """Return an event as lines for people."""
    if event.get("axis") == "patches":
        return patches_text(event)
    texts = {"start": _start_text, "ask": _ask_text, "probe": _probe_text, "step": _step_text, "result": _result_text}
    texts |= {"cancelled": _cancelled_text, "prepared": _prepared_text}
    texts |= {"revert": _revert_text, "control": _control_text}
    return texts[event["event"]](event)


def log_text(event: Document) -> str:
    """Return an event of the journal as lines for people, '' for one that says nothing to them.

    The document must also say what the bisect is about (axis, series and so on).
    """
    texts: dict[str, Callable[[Document], str]] = {
        "start": lambda event: _start_text({**event, "known": 0}),
        "probe": _kept_text,
        "spoiled": _kept_text,
        "prepared": _prepared_text,
        "cancelled": _cancelled_text,
        "told": lambda event: f"  {_short(event['node']):<12}  {event['answer']:<4}  {event['reason']}",
        "conflicts": _conflicts_text,
        "prior": _prior_text,
        "revert": _revert_text,
        "control": _control_text,
        "end": lambda event: _result_text(event["document"]),
    }
    if event.get("axis") == "patches":
        return patches_log_text(event)
    write = texts.get(event["event"])
    return "" if write is None else write(event)


def _prepared_text(event: Document) -> str:
    state = f"built ahead in {seconds(event['build_seconds'])}" if event["build_seconds"] else "its build is there"
    if not event["build"]:
        state = f"no build ahead: {flatten(event['detail'])}"
    return f"  {_short(event['node']):<12}  {state}"


def _cancelled_text(event: Document) -> str:
    return f"  {_short(event['node']):<12}  ended: other probes told its answer"


def _kept_text(event: Document) -> str:
    """Tell a probe without what was left then."""
    return _probe_text({**event, "stage": "" if event["stage"] == "search" else event["stage"]})


def _conflicts_text(event: Document) -> str:
    """Tell how many commits cannot be patched, by the reason."""
    reasons = Counter(event["nodes"].values())
    return "\n".join(
        f"{_count(number, event['axis'])} cannot be patched: {flatten(why)}" for why, number in reasons.most_common()
    )


def _prior_text(event: Document) -> str:
    """Tell which commits are suspect from the beginning, and why."""
    said = (
        ("nodes", f"{_plural(event['files'], 'file')} opened at the bad end, one of them changed"),
        ("native", "it crashed there, native files changed"),
        ("turns", "another commit taken back or brought again"),
        ("taken_back", "taken back after the bad end"),
    )
    parts = [f"{what}: {_count(len(event[name]), event['axis'])}" for name, what in said if event.get(name)]
    return f"likelier from the beginning: {'; '.join(parts)}" if parts else ""


def _start_text(event: Document) -> str:
    known = f"; {_plural(event['known'], 'probe')} known from before" if event["known"] else ""
    return (
        f"bisect {event['issue']}/{event['repro']} ({event['fidelity']}, {_SERIES[event['series']]}): "
        f"{_count(event['commits'], event['axis'])} after {event['good']} (good) up to {event['bad']} (bad)"
        f"{fixed_text(event)}{known}"
    )


def _ask_text(event: Document) -> str:
    """Tell why each node is probed next."""
    lines = []
    for node in dict.fromkeys(event["nodes"]):
        why = event["why"].get(node)
        parts = [event["reason"]]
        if why:
            parts = [f"{why['gain_bits']:.2f} bits", f"bad with {100 * why['bad_mass']:.0f} %"]
            parts += [f"costs {seconds(why['cost_seconds'])}"] if why["cost_seconds"] else []
            parts += [f"untestable with {100 * why['skip_odds']:.0f} %"] if why["skip_odds"] >= 0.005 else []
        lines.append(f"? {_short(node):<12}  {', '.join(parts)}")
    return "\n".join(lines)


def _probe_text(event: Document) -> str:
    parts = [f"  {_short(event['node']):<12}", f"{event['answer']:<4}", f"{event['reason']:<14}"]
    parts.append(f"{'known' if event['reused'] else seconds(event['duration_seconds']):>8}")
    if event["stage"] == "confirm":
        parts.append("  once more")
    elif event["stage"] == "search":
        steps = count_steps(event["left"])
        parts.append(f"  {event['left']} left" + (f", about {steps} step{'s' * (steps != 1)}" if steps else ""))
    carried = f"  with {name_commits(event['fix_up'])}" if event.get("fix_up") else ""
    detail = f"  {flatten(event['detail'])}" if event["answer"] == "skip" or event.get("value") is not None else ""
    return "  ".join(parts) + carried + detail


def name_commits(commits: Iterable[str]) -> str:
    """Return commits that are carried together as one word."""
    return "+".join(_short(commit) for commit in commits)


def _revert_text(event: Document) -> str:
    """Tell what the bad end is without the culprit."""
    answer = {"conflict": "skip"}.get(event["answer"], event["answer"])
    parts = [f"- {_short(event['node']):<12}", f"{answer:<4}", f"{event['reason']:<14}"]
    parts.append(f"{seconds(event['duration_seconds']):>8}    the bad end without it")
    return "  ".join(parts)


def _control_text(event: Document) -> str:
    """Tell what a commit is with a fix-up that it did not need."""
    parts = [f"+ {_short(event['node']):<12}", f"{event['answer']:<4}", f"{event['reason']:<14}"]
    parts.append(f"{seconds(event['duration_seconds']):>8}    with {name_commits(event['fix_up'])}, to compare")
    return "  ".join(parts)


def _step_text(event: Document) -> str:
    """Tell an answer inside which the search goes on."""
    return "\n".join([*_answer_lines(event), "inside it:" if event["first_bad"] else "the other way:"])


def _answer_lines(event: Document) -> list[str]:
    """Tell what was found, or why nothing was."""
    if event["candidates"]:
        return _found_lines(event) if event["first_bad"] else _suspect_lines(event)
    message = re.sub(r"(?<![\w/])([0-9a-f]{12})[0-9a-f]{28}\b", r"\1", event["message"])
    return [message, f"hint: {event['hint']}"]


def result_lines(event: Document) -> list[str]:
    """Return what a result says, a line each, without the searches inside it."""
    return _result_text({**event, "inside": None}).splitlines()


def _result_text(event: Document) -> str:
    lines = _answer_lines(event)
    builds = f", {_plural(event['builds'], 'build')}" if event.get("builds") else ""
    lines.append(f"{_plural(event['probes'], 'probe')} of {_count(event['nodes'], event['axis'])}{builds}")
    lines += [f"warning: {flatten(one['message'])}" for one in event.get("warnings", ())]
    if event.get("note"):
        lines.append(f"note: {event['note']}")
    if event.get("emitted"):
        lines.append(f"the revert is written: {event['emitted']}")
    if event.get("inside"):
        inner = {**event["inside"], "next": ""}
        lines += [
            f"inside it, {event['inside']['upstream']}{fixed_text(event['inside'])}:",
            *(f"    {line}" for line in _result_text(inner).split("\n")),
        ]
    if event.get("next"):
        lines.append(f"next: {event['next']}")
    return "\n".join(lines)


def _found_lines(event: Document) -> list[str]:
    kind, culprit = noun_of(event["axis"]), event["culprit"]
    state = "confirmed" if event["confirmed"] else f"not confirmed: {event['message']}"
    lines = [f"{event['first_bad']} is the first bad {kind} ({state}); last good: {event['last_good']}"]
    if culprit:
        author = f"{flatten(culprit['author'])}, " if culprit["author"] else ""
        lines += [f"    {flatten(culprit['subject'])}", f"    {author}{culprit['date']}"]
    lines += _trial_lines(event)
    lines += pair_lines(event)
    lines.append(f"fidelity: {event['fidelity']} ({FIDELITY[event['fidelity']]})")
    return lines


def _trial_lines(event: Document) -> list[str]:
    """Tell in how many runs the culprit was bad and its parents good, and what the bad end is without it."""
    trial = event.get("confirmation")
    if not trial:
        return []
    culprit, parents = trial["culprit"], trial["parents"]
    goods = ", ".join(f"{parent['good']} of {parent['runs']}" for parent in parents)
    whose = f"its {len(parents)} parents" if len(parents) > 1 else "its parent"
    lines = [f"bad in {culprit['bad']} of {_plural(culprit['runs'], 'run')}, {whose} good in {goods}"]
    carried = trial.get("carried", ())
    lines += [f"{_short(node)} was told with {name_commits(fix_up)} carried onto it" for node, fix_up in carried]
    if event["culprit"] and event["culprit"]["merge"]:
        lines.append("a merge: no side of it is bad alone; taken back is what its first parent lacks")
    detail = flatten(event["revert"]["detail"]) if event["revert"] else ""
    without = {
        "good": f"without it {event['bad']} is good",
        "bad": f"without it {event['bad']} is still bad",
        "conflict": f"it cannot be taken back on top of {event['bad']}: {detail}",
        "skip": f"without it {event['bad']} cannot be told: {detail}",
    }
    return lines + ([without[event["reverted"]]] if event["reverted"] else [])


def _suspect_lines(event: Document) -> list[str]:
    kind, skipped = event["axis"], set(event["skipped"])
    lines = [f"{event['message']}; the first bad one is among {_count(len(event['candidates']), kind)}:"]
    for suspect in event["candidates"]:
        share = f"{100 * suspect['probability']:5.1f} %"
        lines.append(f"    {share}  {suspect['node']}" + ("  (skipped)" if suspect["node"] in skipped else ""))
    return [*lines, f"last good: {event['last_good']}"]


def _short(node: str) -> str:
    return node[:12] if len(node) == 40 and set(node) <= set("0123456789abcdef") else node


def _count(number: int, kind: str) -> str:
    return _plural(number, noun_of(kind))


def _plural(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"
