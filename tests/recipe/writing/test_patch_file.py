"""A patch.yaml that is written for a person: it reads back as what went in, whatever the words are."""

from __future__ import annotations

import pytest
import yaml

from patchkit.errors import RequestError
from patchkit.recipe.model import Imported
from patchkit.recipe.writing.patch_file import PatchText, replace_imported, write_patch_file

FIRST = Imported.model_validate({"from": "pull/7", "commit": "0" * 39 + "1", "base": "2" * 40, "state": "open"})
SECOND = Imported.model_validate(
    {"from": "pull/7", "commit": "3" * 40, "base": "2" * 40, "state": "merged", "merged-as": "4" * 40}
)


def text(**changes: object) -> PatchText:
    fields = {
        "title": "t",
        "why": "",
        "upstream": "vllm",
        "upstream_status": "Pending",
        "origin": "",
        "author": "",
        "remove_when": "",
        "requires": (),
        "file": "t.patch",
        "notes": (),
    }
    return PatchText(**{**fields, **changes})  # type: ignore[arg-type]


WORDS = [
    *("plain", "a: b # c", "[x] {y}", "'quoted' \"twice\"", "ü — 🎉", "two\nlines", "  indented\nfirst", "tab\there"),
    *("a\r\nb", "bell \x07", "no", "1e3", "trailing \nspace ", "-\n- x: y\n\n\nend", "\u2028", "\x7f\x85"),
]


@pytest.mark.parametrize("words", WORDS)
def test_any_words_come_back_as_they_were(words: str) -> None:
    data = write_patch_file(text(title=words, why=words, author=words), FIRST)
    found = yaml.safe_load(data)
    assert (found["title"], found["why"], found["author"]) == (words, words, words)
    assert found["imported"]["commit"] == "0" * 39 + "1"
    assert found["change"] == [{"patch": "t.patch"}]


def test_what_is_empty_is_left_out_and_remarks_stand_at_the_end() -> None:
    data = write_patch_file(text(notes=("needs a native build: csrc/x.cu",)), FIRST).decode()
    assert data.splitlines()[:2] == ["format: 1", 'title: "t"']
    assert "why" not in data
    assert data.endswith("# needs a native build: csrc/x.cu\n")


@pytest.mark.parametrize("tail", ["", '\n# my remark\nwhen: "vllm < 1"   # mine\n'])
def test_another_import_changes_its_record_and_nothing_else(tail: str) -> None:
    before = write_patch_file(text(), FIRST).decode()
    head, _, rest = before.partition("change:")
    edited = f"# top\n{head}{tail}change:{rest}"
    after = replace_imported(edited, SECOND)
    assert yaml.safe_load(after)["imported"] == {
        "from": "pull/7",
        "commit": "3" * 40,
        "base": "2" * 40,
        "state": "merged",
        "merged-as": "4" * 40,
    }
    start, end = edited.index("imported:"), edited.index(f"{tail}change:")
    assert after.startswith(edited[:start])
    assert after.endswith(edited[end:])


def test_a_record_that_a_person_wrote_in_one_line_is_replaced() -> None:
    one_line = 'title: t\nimported: {from: "pull/7", commit: "1"}  # then\nwhy: w\n'
    after = replace_imported(one_line, SECOND)
    assert after.endswith("  # then\nwhy: w\n")
    assert yaml.safe_load(after)["imported"]["commit"] == "3" * 40


@pytest.mark.parametrize("words", ["title: t\n", "imported:\n", "imported: x\n"])
def test_a_file_without_a_record_is_somebody_s_own(words: str) -> None:
    with pytest.raises(RequestError, match="has no `imported:`"):
        replace_imported(words, SECOND)
