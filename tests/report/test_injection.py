"""Text of a recipe, a patch, a tag or a log is text in every report, whichever field it came by."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from enum import Enum
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from patchkit.report.html import html
from patchkit.report.junit import junit
from patchkit.report.markdown import markdown
from patchkit.report.watch import WatchReport
from tests.report.pictures import make_report

CLOSED = {"fidelity", "axis", "series", "answer", "reason", "change"}  # words of patchkit's own
PAYLOADS = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "' autofocus onfocus='document.title=1' x='",
    "</title></style></details></table><svg onload=document.title=1>",
    "javascript:document.title=1",
    "<!--<a href=//x>",
    "]]>&lt;x&#0;&#x3c;script>",
    "\u2028<b>\u202e\ufeff",
)


def poison(value: Any, payload: str, name: str = "") -> Any:
    """Return a value with a payload before every text of it that others may write."""
    if isinstance(value, Enum) or name in CLOSED:
        return value
    if isinstance(value, str):
        return payload + value
    if isinstance(value, tuple):
        return tuple(poison(one, payload) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.name != "pairs"
        }
        return dataclasses.replace(value, **{name: poison(one, payload, name) for name, one in fields.items()})
    assert value is None or isinstance(value, bool | int | float | Mapping), type(value)
    return value


def poisoned(payload: str) -> WatchReport:
    report = make_report()
    pairs = {
        poison(subject, payload).name: {
            poison(node, payload): poison(pair, payload) for node, pair in report.pairs[subject.name].items()
        }
        for subject in report.subjects
    }
    return dataclasses.replace(poison(report, payload), pairs=pairs)


class Shape(HTMLParser):
    """The tags of a page and the names of their attributes, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.shape: list[object] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.shape.append((tag, [name for name, _ in attrs]))
        self.links += [value or "" for name, value in attrs if name in {"href", "src", "action", "style"}]

    def handle_endtag(self, tag: str) -> None:
        self.shape.append(tag)

    def handle_comment(self, data: str) -> None:
        self.shape.append("comment")


def shape_of(page: str) -> Shape:
    shape = Shape()
    shape.feed(page)
    shape.close()
    return shape


def test_every_text_of_the_report_was_poisoned() -> None:
    page = html(poisoned("POISON"))
    for subject in poisoned("POISON").subjects:
        assert subject.issue.startswith("POISON")
    assert page.count("POISON") > 100


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_text_adds_a_tag_or_an_attribute_to_the_page(payload: str) -> None:
    plain, hostile = shape_of(html(make_report())), shape_of(html(poisoned(payload)))
    assert hostile.shape == plain.shape
    assert all(link.startswith("#") for link in hostile.links)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_text_adds_an_element_to_the_junit_file(payload: str) -> None:
    plain = [element.tag for element in ElementTree.fromstring(junit(make_report())).iter()]
    assert [element.tag for element in ElementTree.fromstring(junit(poisoned(payload))).iter()] == plain


@pytest.mark.parametrize("payload", [*PAYLOADS, "\n\n# title\n", "\r\n| a | b |\r\n", "| x\x0b\x0c\x85 |", "![x](//x)"])
def test_no_text_adds_a_line_a_cell_or_markup_to_the_markdown(payload: str) -> None:
    plain, hostile = markdown(make_report()), markdown(poisoned(payload))
    assert len(hostile.splitlines()) == len(plain.splitlines())

    unescaped = re.sub(r"\\.", "", hostile)
    assert [line.count("|") for line in unescaped.splitlines()] == [line.count("|") for line in plain.splitlines()]
    for opening in ("<script", "<img", "<svg", "<b", "<a", "<!--", "![", "]("):
        assert opening not in unescaped
