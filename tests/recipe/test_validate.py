"""Messages are the product of this room: a table of wrong recipes and the exact line that a user reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.errors import InvalidFile
from patchkit.recipe.load import load_recipe
from tests.recipe.files import RECIPE, RECIPE_FILE, complaints_of, write_library

HEAD = "format: 1\nname: demo\nupstream: {vllm: {package: vllm, ref: v1}}\n"  # what follows begins on line 4
SLUG = "must be a name of lower-case letters, digits, `.`, `_` and `-`"


@pytest.mark.parametrize(
    ("text", "complaint", "hint"),
    [
        ("nam: x\n", "4:1: nam: unknown key", "did you mean name?"),
        ("zzz: x\n", "4:1: zzz: unknown key", "known keys: format, name, description, include, upstream"),
        ("target: {python: 3.10}\n", "4:18: target.python: YAML reads 3.10 as 3.1", 'quote it: "3.10"'),
        ("target: {arch: no}\n", "4:16: target.arch: YAML reads no as false", 'quote it: "no"'),
        ("target: {arch: 12}\n", "4:16: target.arch: YAML reads 12 as a number", 'quote it: "12"'),
        (
            "target: {device: cudda}\n",
            "4:18: target.device: must be cuda, rocm, ascend, xpu or cpu",
            "did you mean cuda?",
        ),
        ("target: {pyton: '3.12'}\n", "4:10: target.pyton: unknown key", "did you mean python?"),
        ("target: {torch: new}\n", "4:17: target.torch: 'new' is not a version (PEP 440)", ""),
        (
            "target: {arch: true}\n",
            "4:16: target.arch: YAML reads true as true or false, not as text",
            'quote it: "true"',
        ),
        (
            "series: [{patch: guard, when: true}]\n",
            "4:31: series[0].when: must be a condition, as text",
            'like "vllm >= 0.26',
        ),
        (
            "series: [{patch: guard, when: vllm >> 1}]\n",
            "4:31: series[0].when: condition, column 7",
            'like "vllm >= 0.26',
        ),
        ("image: {tags: ['{nam}:1']}\n", "4:16: image.tags[0]: {nam} is not known; known are {name}", ""),
        ("image: {tags: ['A b:c']}\n", "4:16: image.tags[0]: 'A b:c' is not the name of an image", ""),
        ("image: {tags: ['{name:1']}\n", "4:16: image.tags[0]: '{name:1' is not the name of an image", ""),
        ("pins:\n  deepgemm: 0123456\n", "5:13: pins.deepgemm: YAML reads 0123456 as 42798", 'quote it: "0123456"'),
        ("pins:\n  a: 12:30:45\n", "5:6: pins.a: YAML reads 12:30:45 as 45045", 'quote it: "12:30:45"'),
        ("pins: {a: null}\n", "4:11: pins.a: YAML reads null as nothing (null)", 'quote it: "null"'),
        ("pins: {a: }\n", "4:10: pins.a: has no value", "write one, or remove the key"),
        ("pins: {a: [x]}\n", "4:11: pins.a: must be text, not a list", ""),
        ("pins: [a]\n", "4:7: pins: must be a mapping, not a list", ""),
        ("series: guard\n", "4:9: series: must be a list, not text", "write [guard]"),
        ("series: [12]\n", "4:10: series[0]: YAML reads 12 as a number", 'quote it: "12"'),
        ("series: [Bad]\n", f"4:10: series[0]: 'Bad' {SLUG}", ""),
        ("series: [{x: 1}]\n", "4:10: series[0]: needs one of the keys patch, pull, revert, cherry-pick, file", ""),
        (
            "series: [{pull: '3'}]\n",
            "4:17: series[0].pull: must be a whole number, not text",
            "take the quotes away: 3",
        ),
        ("series: [{pull: 0}]\n", "4:17: series[0].pull: must be greater than 0", ""),
        ("series: [{pull: 1, exlude: [a]}]\n", "4:20: series[0].exlude: unknown key", "did you mean exclude?"),
        ("series: [{revert: 0123456}]\n", "4:19: series[0].revert: YAML reads 0123456 as 42798", 'quote it: "0123456"'),
        (
            "series: [{revert: main}]\n",
            "4:19: series[0].revert: 'main' must be a commit id: 7 to 40 hexadecimal digits",
            "",
        ),
        (
            "series: [{pull: 1, when: vllm >= x}]\n",
            "4:26: series[0].when: condition, column 9: 'x' is not a version that >= compares with",
            'like "vllm >= 0.26',
        ),
        ("series: [{cherry_pick: abcdef0}]\n", "4:10: series[0]: needs one of the keys", ""),
        (
            "environment: {env: {A-B: x}}\n",
            "4:21: environment.env.A-B: 'A-B' must be the name of an environment variable",
            "",
        ),
        (
            "environment: {requirements: /etc/x}\n",
            "4:29: environment.requirements: '/etc/x' must be a relative path",
            "",
        ),
        ("image: {mode: layer}\n", "4:15: image.mode: must be overlay", ""),
        ("image:\n", "4:7: image: has no value", "write one, or remove the key"),
        ("issues: [a/b/c]\n", "4:10: issues[0]: 'a/b/c' must be the name of an issue, or `issue/repro`", ""),
        ("include: 7\n", "4:10: include: YAML reads 7 as a number", 'quote it: "7"'),
    ],
)
def test_a_wrong_recipe_is_told_in_one_exact_line(tmp_path: Path, text: str, complaint: str, hint: str) -> None:
    recipe = write_library(tmp_path, {RECIPE_FILE: HEAD + text})
    with pytest.raises(InvalidFile) as caught:
        load_recipe(recipe)
    (problem,) = caught.value.problems
    assert str(problem).startswith(f"{recipe}:{complaint}")
    assert problem.hint.startswith(hint)
    assert bool(problem.hint) == bool(hint)


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("- a\n", ["1:1: must be a mapping, not a list"]),
        ("text\n", ["1:1: must be a mapping, not text"]),
        (
            "format: 2\nname: [\n",
            ["3:1: is not YAML: expected the node content, but found '<stream end>', while parsing a flow node"],
        ),
        ("format: 2\nwrong: x\n", ["1:9: format: format 2 is not known to this patchkit (knows 1)"]),
        ("format: '1'\nwrong: x\n", ["1:9: format: must be the number 1"]),
        ("format: yes\n", ["1:9: format: must be the number 1"]),
        ("name: x\n", ["1:1: format: is missing", "1:1: upstream: is missing"]),
        ("format: 1\nname: x\nupstream: {}\n", ["3:11: upstream: needs at least 1 entry"]),
        (
            "format: 1\nname: x\nupstream:\n"
            "  vllm: {git: x}\n  b: {ref: v1}\n  C: {git: x, ref: -v, pairs_with: vllm}\n",
            [
                "4:9: upstream.vllm.ref: is missing",
                "5:6: upstream.b: needs `git`, `package` or both; or else one of `wheel` and `site-packages`",
                f"6:3: upstream.C: 'C' {SLUG}",
                "6:20: upstream.C.ref: '-v' must be a tag, branch, commit id or pull/N: no spaces, and no `-` in front",
                "6:24: upstream.C.pairs_with: unknown key",
            ],
        ),
    ],
)
def test_all_problems_are_told_at_once_from_top_to_bottom(tmp_path: Path, text: str, complaints: list[str]) -> None:
    recipe = write_library(tmp_path, {RECIPE_FILE: text})
    assert complaints_of(recipe, tmp_path) == [f"{RECIPE_FILE}:{complaint}" for complaint in complaints]


def test_a_key_with_a_dash_is_known_by_its_yaml_name_only(tmp_path: Path) -> None:
    recipe = write_library(tmp_path, {RECIPE_FILE: RECIPE.replace("ref: v0.26.0", "ref: v0.26.0, pairs_with: vllm")})
    with pytest.raises(InvalidFile) as caught:
        load_recipe(recipe)
    assert [problem.hint for problem in caught.value.problems] == ["did you mean pairs-with?"]


def test_a_missing_key_is_hinted_at_with_its_meaning(tmp_path: Path) -> None:
    recipe = write_library(tmp_path, {RECIPE_FILE: "format: 1\nupstream: {vllm: {git: x, ref: v1}}\n"})
    with pytest.raises(InvalidFile) as caught:
        load_recipe(recipe)
    assert [(str(problem.where), problem.hint) for problem in caught.value.problems] == [("name", "Name of the recipe")]
