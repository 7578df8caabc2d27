"""A bisect as JUnit XML: a suite a search, a case a node that was probed; the confirmed culprit is the one that fails.

A bad commit above the culprit passes, as its answer was expected; what could not be tested is skipped. A search without
a confirmed answer is an error of its suite: it says nothing of any commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as xml  # only written here, never parsed: nothing hostile is read

from patchkit.report.bisect.text import event_text, name_commits
from patchkit.report.junit import clean, count_cases

Document = Mapping[str, Any]
PROPERTIES = ("fidelity", "upstream", "axis", "series", "good", "bad", "at", "first_bad", "last_good", "reverted")


def bisect_junit(searches: Sequence[tuple[Document, Sequence[Document]]]) -> str:
    """Return the XML of searches that are at their end: the result of each, and the events of its journal."""
    root = xml.Element("testsuites", name=clean(f"patchkit bisect {searches[0][0]['recipe']}"))
    for result, events in searches:
        _add_suite(root, result, events)
    xml.indent(root)
    return xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_suite(root: xml.Element, result: Document, events: Sequence[Document]) -> None:
    name = f"{result['issue']}/{result['repro']}"
    suite = xml.SubElement(root, "testsuite", name=clean(name))
    _add_properties(suite, {key: result[key] for key in PROPERTIES if result.get(key)})
    runs: dict[str, list[Document]] = {}
    for event in events:
        if event["event"] == "probe":
            runs.setdefault(event["node"], []).append(event)
    guilty = set(result.get("culprits") or [result["first_bad"]]) if result["confirmed"] else set()
    for node in sorted(guilty - runs.keys()):  # a patch, or a commit whose answer was told by a git log
        _add_case(suite, name, node, [], event_text(result))
    for node, probes in runs.items():
        _add_case(suite, name, node, probes, event_text(result) if node in guilty else "")
    if not guilty:
        case = xml.SubElement(suite, "testcase", classname=clean(name), name=f"first bad of {result['axis']}", time="0")
        error = xml.SubElement(case, "error", message=clean(result["message"] or "not confirmed"), type="not-found")
        error.text = clean(event_text(result))
    count_cases(suite)


def _add_case(suite: xml.Element, name: str, node: str, probes: Sequence[Document], found: str) -> None:
    """Add the case of a node; `found` is what is said of it when it is the culprit."""
    seconds = sum(event["duration_seconds"] for event in probes)
    case = xml.SubElement(suite, "testcase", classname=clean(name), name=clean(node), time=f"{seconds:.3f}")
    answers = list(dict.fromkeys(event["answer"] for event in probes))
    _add_properties(case, {"answer": " ".join(answers), "runs": len(probes)})
    if found:
        failure = xml.SubElement(case, "failure", message=clean(f"{node} is the first bad one"), type="first-bad")
        failure.text = clean(found)
    elif answers == ["skip"]:
        xml.SubElement(case, "skipped", message=clean(f"{probes[-1]['reason']}: {probes[-1]['detail']}"))
    lines = [_case_line(event) for event in probes]
    xml.SubElement(case, "system-out").text = clean("\n".join(lines))


def _case_line(event: Document) -> str:
    carried = f", with {name_commits(event['fix_up'])}" if event.get("fix_up") else ""
    return f"{event['answer']}: {event['reason']}: {event['detail']}{carried} ({event['evidence']})"


def _add_properties(element: xml.Element, values: Mapping[str, Any]) -> None:
    properties = xml.SubElement(element, "properties")
    for name, value in values.items():
        xml.SubElement(properties, "property", name=name, value=clean(str(value)))
