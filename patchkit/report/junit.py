"""What `watch` found as JUnit XML: a suite an issue, a case a commit, as CI systems show it."""

from __future__ import annotations

import re
from xml.etree import ElementTree as xml  # only written here, never parsed: nothing hostile is read

from patchkit.report.watch import Subject, WatchReport, word
from patchkit.verdict.transition import Finding, VerdictPair
from patchkit.verdict.verdict import Verdict

_FORBIDDEN = re.compile(
    r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]"
)  # characters that XML 1.0 has no way to write


def junit(report: WatchReport) -> str:
    """Return the XML: a failure is bad with the series or a conflict, skipped what cannot be told, passed the rest.

    A fault of upstream that the series heals passes, with the property `patched`.
    """
    root = xml.Element("testsuites", name=clean(f"patchkit watch {report.recipe}"))
    for subject in report.subjects:
        _add_suite(root, report, subject)
    xml.indent(root)
    return xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_suite(root: xml.Element, report: WatchReport, subject: Subject) -> None:
    pairs = report.pairs.get(subject.name, {})
    suite = xml.SubElement(root, "testsuite", name=clean(subject.name))
    properties = xml.SubElement(suite, "properties")
    for name, value in (("title", subject.title), ("fidelity", subject.fidelity), ("upstream", report.upstream)):
        xml.SubElement(properties, "property", name=name, value=clean(value))
    for node in report.nodes:
        if node in pairs:
            _add_case(suite, subject, pairs[node])
    count_cases(suite)


def count_cases(suite: xml.Element) -> None:
    """Set the numbers of a suite from its cases."""
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for name, kind in (("failures", "failure"), ("skipped", "skipped"), ("errors", "error")):
        suite.set(name, str(len(suite.findall(f"testcase/{kind}"))))
    suite.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")


def _add_case(suite: xml.Element, subject: Subject, pair: VerdictPair) -> None:
    duration = pair.without.duration_seconds + pair.with_series.duration_seconds
    case = xml.SubElement(
        suite, "testcase", classname=clean(subject.name), name=clean(pair.without.at), time=f"{duration:.3f}"
    )
    findings = pair.findings
    properties = xml.SubElement(case, "properties")
    for name, value in (
        ("without", word(pair.without)),
        ("with", word(pair.with_series)),
        ("commit", pair.without.commit),
    ):
        xml.SubElement(properties, "property", name=name, value=clean(value))
    if findings[0] is Finding.BAD and findings[1] in (Finding.GOOD, Finding.ABSENT):
        xml.SubElement(properties, "property", name="patched", value="true")
    if findings[1] is Finding.CONFLICT or findings[1] is Finding.BAD:
        message = "the series does not apply" if findings[1] is Finding.CONFLICT else "bad with the series"
        failure = xml.SubElement(case, "failure", message=message, type=pair.with_series.reason.value)
        failure.text = clean(pair.with_series.detail)
    elif Finding.UNKNOWN in findings:
        unknown = pair.without if findings[0] is Finding.UNKNOWN else pair.with_series
        xml.SubElement(case, "skipped", message=clean(f"{unknown.reason.value}: {unknown.detail}"))
    log = xml.SubElement(case, "system-out")
    log.text = clean("\n".join(_log_line(verdict) for verdict in (pair.without, pair.with_series)))


def _log_line(verdict: Verdict) -> str:
    where = f" ({verdict.evidence})" if verdict.evidence else ""
    return f"{verdict.series} the series: {word(verdict)}: {verdict.reason.value}: {verdict.detail}{where}"


def clean(text: str) -> str:
    """Return a text without the characters that XML cannot write."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
