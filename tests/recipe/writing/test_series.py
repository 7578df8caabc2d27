"""An entry is added where a person would have put it, and nothing else of their file changes."""

from __future__ import annotations

import difflib

import pytest
import yaml

from patchkit.errors import RequestError
from patchkit.recipe.writing.series import add_to_series

HEAD = '# mine\nformat: 1   # the first\nname: r\nupstream: {vllm: {git: x, ref: "v0.26.0"}}\n'


@pytest.mark.parametrize(
    "series",
    [
        "",
        "series:\n",
        "series:   # in this order\n",
        "series: []   # none yet\n",
        "series: [one]\n",
        "series: [one, {file: a.patch, when: \"vllm < 1\"}]  # both\nissues: []\n",
        "series: [\n  one,  # because\n  two,\n]\n",
        "series: [\n  one,\n  # nothing behind it\n  two  # last\n]\n",
        "series:\n- one   # first\n- two\nissues: []\n",
        "series:\n    - one\n    # a remark\n    - {pull: 7}   # theirs\n\n# the rest\nissues: []\n",
        "series:\n  - file: a.patch   # ours\n    when: \"vllm < 1\"   # till then\n\nimage: {base: none}\n",
        "series:\n  - one\n  - two",
        "series:\n  - file: a.patch\n    exclude:\n      - tests/**\n      - docs/**\n",
    ],
)  # fmt: skip
def test_an_entry_is_added_and_everything_else_stays(series: str) -> None:
    text = HEAD + series
    added = add_to_series(text, "three")
    before, after = yaml.safe_load(text), yaml.safe_load(added)
    assert after == {**before, "series": [*(before.get("series") or []), "three"]}
    changed = [line for line in difflib.ndiff(text.splitlines(), added.splitlines()) if line[0] in "+-"]
    assert sum(line.startswith("-") for line in changed) <= 1
    for comment in [line[line.index("#") :] for line in text.splitlines() if "#" in line]:
        assert comment in added
    assert add_to_series(added, "three") == added


def test_windows_line_ends_and_unicode_do_not_move_the_place() -> None:
    text = (HEAD + "description: größer — 🎉\nseries: [one]\n").replace("mine", "mein ü")
    assert add_to_series(text, "two").endswith("🎉\nseries: [one, two]\n")


def test_a_patch_that_stands_with_a_condition_is_there() -> None:
    text = HEAD + 'series: [{patch: one, when: "vllm < 1"}]\n'
    assert add_to_series(text, "one") == text


@pytest.mark.parametrize(
    "text", ["{format: 1, series: [a]}\n", "- a\n", HEAD + "series: one\n", HEAD + "a: &x [b]\nseries: *x\n"]
)
def test_what_cannot_be_told_is_left_to_the_person(text: str) -> None:
    with pytest.raises(RequestError) as caught:
        add_to_series(text, "two")
    assert caught.value.hint == "add it by hand"


@pytest.mark.parametrize("slug", ["0.26", "no", "1e3", "0123456", "12", "on"])
def test_a_name_that_yaml_reads_as_something_else_is_quoted(slug: str) -> None:
    added = add_to_series(HEAD + "series: [one]\n", slug)
    assert yaml.safe_load(added)["series"] == ["one", slug]
    assert add_to_series(added, slug) == added
