from __future__ import annotations

import re
from html.parser import HTMLParser

from patchkit.report.html import html
from tests.report.pictures import NASTY, make_report

VOID = {"meta"}


class Outline(HTMLParser):
    """Reads a page and refuses tags that do not nest."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID | {"br"}:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> Outline:
    outline = Outline()
    outline.feed(page)
    outline.close()
    return outline


def test_the_page_needs_nothing_from_outside_and_runs_nothing() -> None:
    page = html(make_report(NASTY))
    outline = read(page)
    assert {"script", "link", "img", "iframe"}.isdisjoint(outline.tags)
    links = [value for name, value in outline.attributes if name in {"href", "src"}]
    assert all(value.startswith("#") for value in links)
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page.replace("&#x27;", "'")


def test_text_from_a_log_or_an_issue_stays_text() -> None:
    page = html(make_report(NASTY))
    assert "<script>" not in page
    assert "<script>alert(1)</script>" in "".join(read(page).text)


def test_every_link_leads_to_the_details_of_a_verdict() -> None:
    outline = read(html(make_report()))
    targets = {value for name, value in outline.attributes if name == "id"}
    links = {value.removeprefix("#") for name, value in outline.attributes if name == "href"}
    assert links == targets
    assert len(links) == 8


def test_the_matrix_has_every_commit_and_shows_fidelity_and_logs() -> None:
    page = html(make_report())
    text = re.sub(r"\s+", " ", " ".join(read(page).text))
    for said in (
        "v0.25.1",
        "v0.26.0",
        "newly-bad",
        "patched",
        "stubbed",
        "Needs attention",
        "cannot tell",
        "evidence/with-v0.26.0",
    ):
        assert said in text
    assert "The series does not apply from v0.30.0 on." in text
