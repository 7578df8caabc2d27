"""Conditions decide on which tree a patch lands: a wrong answer is a silent wrong patch, so each rule is pinned."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.recipe.condition import (
    And,
    ArchIn,
    Comparison,
    Condition,
    ConditionError,
    Contains,
    Has,
    Merged,
    Not,
    Or,
    PinIs,
    VersionIs,
    parse_condition,
)


@dataclass(frozen=True)
class Known:
    """Facts from plain values."""

    versions: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    pins: Mapping[str, str] = field(default_factory=dict)
    commits: Mapping[str, bool] = field(default_factory=dict)
    paths: frozenset[tuple[str, str | None]] = frozenset()

    def version(self, name: str) -> str | None:
        return self.versions.get(name)

    def arch(self) -> str | None:
        return self.target

    def pin(self, name: str) -> str | None:
        return self.pins.get(name)

    def contains(self, commit: str) -> bool | None:
        return self.commits.get(commit)

    def has(self, path: str, symbol: str | None) -> bool:
        return (path, symbol) in self.paths


FACTS = Known(
    versions={"vllm": "0.26.1", "torch": "2.11.0", "odd": "not a version"},
    target="sm_121",
    pins={"deepgemm": "2.5.1", "aiter": "abc123f"},
    commits={"aaaaaaa": True, "bbbbbbb": False},
    paths=frozenset({("vllm/x.py", None), ("vllm/x.py", "A.run")}),
)


@pytest.mark.parametrize(
    ("text", "holds", "reason"),
    [
        ("vllm >= 0.26", True, "vllm 0.26.1 is >= 0.26"),
        ("vllm >= 0.27", False, "vllm 0.26.1 is not >= 0.27"),
        ("vllm >= 0.26, < 0.30", True, "vllm 0.26.1 is >= 0.26, < 0.30"),
        ("vllm>=0.20,<0.26", False, "vllm 0.26.1 is not < 0.26"),
        ("vllm == 0.26.*", True, "vllm 0.26.1 is == 0.26.*"),
        ("vllm ~= 0.26.0", True, "vllm 0.26.1 is ~= 0.26.0"),
        ('vllm != "0.26.1"', False, "vllm 0.26.1 is not != 0.26.1"),
        ("vllm-ascend >= 0.1", False, "cannot be told: the version of vllm-ascend is not known"),
        ("odd >= 1", False, "cannot be told: the version of odd, 'not a version', is not a PEP 440 version"),
        ("arch == sm_121", True, "arch sm_121 is sm_121"),
        ("arch != sm_121", False, "arch sm_121 is sm_121"),
        ("arch in [sm_120, 'sm_121']", True, "arch sm_121 is one of sm_120, sm_121"),
        ("arch not in [sm_90, sm_100]", True, "arch sm_121 is not one of sm_90, sm_100"),
        ('pins.deepgemm >= "2.5"', True, "pin deepgemm 2.5.1 is >= 2.5"),
        ("pins.deepgemm >= 2.5, < 2.5.1", False, "pin deepgemm 2.5.1 is not < 2.5.1"),
        ("pins.deepgemm == 2.5.1.0", True, "pin deepgemm 2.5.1 is == 2.5.1.0"),
        ("pins.aiter == abc123f", True, "pin aiter abc123f is == abc123f"),
        ("pins.aiter != abc123f", False, "pin aiter abc123f is not != abc123f"),
        ("pins.aiter >= 2", False, "cannot be told: pin aiter is abc123f, which has no order with 2"),
        ("pins.triton == 3", False, "cannot be told: the recipe has no pin triton"),
        ("not pins.triton == 3", False, "cannot be told: the recipe has no pin triton"),
        ("contains(aaaaaaa)", True, "contains aaaaaaa"),
        ("contains(bbbbbbb)", False, "does not contain bbbbbbb"),
        ("contains(ccccccc)", False, "cannot be told: whether it contains ccccccc"),
        ("not contains(ccccccc)", False, "cannot be told: whether it contains ccccccc"),
        ("has(vllm/x.py)", True, "the tree has vllm/x.py"),
        ("has(vllm/x.py:A.run)", True, "the tree has A.run in vllm/x.py"),
        ('has("vllm/x.py:B")', False, "the tree has no B in vllm/x.py"),
        ("merged(53055)", False, "cannot be told: whether pull request 53055 is merged needs the network"),
        ("not merged(53055)", False, "cannot be told: whether pull request 53055 is merged needs the network"),
        ("vllm >= 0.27 or arch == sm_121", True, "arch sm_121 is sm_121"),
        ("vllm >= 0.26 and arch == sm_121", True, "vllm 0.26.1 is >= 0.26 and arch sm_121 is sm_121"),
        ("vllm >= 0.27 and contains(ccccccc)", False, "vllm 0.26.1 is not >= 0.27"),
        ("contains(ccccccc) or vllm >= 0.26", True, "vllm 0.26.1 is >= 0.26"),
        ("contains(ccccccc) or vllm >= 0.27", False, "cannot be told: whether it contains ccccccc"),
    ],
)
def test_a_condition_holds_or_not_and_says_why(text: str, holds: bool, reason: str) -> None:
    decision = parse_condition(text).decide(FACTS)
    assert (decision.holds, decision.reason) == (holds, reason)


@pytest.mark.parametrize(
    ("version", "specifier", "holds"),
    [
        ("0.26.0rc1", ">= 0.26", False),  # a candidate comes before its release
        ("0.26.0rc1", ">= 0.25", True),  # and counts although no specifier names a pre-release
        ("0.26.1.dev5+gabc123", ">= 0.26", True),
        ("0.26.1.dev5+gabc123", "< 0.27", True),
        ("0.26.0+cu129", "== 0.26.0", True),
    ],
)
def test_pre_releases_and_local_versions_are_compared_by_pep_440(version: str, specifier: str, holds: bool) -> None:
    assert parse_condition(f"vllm {specifier}").decide(Known(versions={"vllm": version})).holds is holds


def test_an_architecture_that_nobody_set_cannot_be_told_either_way() -> None:
    for text in ("arch == sm_121", "arch != sm_121"):
        decision = parse_condition(text).decide(Known())
        assert (decision.holds, decision.reason) == (False, "cannot be told: the recipe's target has no arch")


def test_not_binds_closer_than_and_and_and_closer_than_or() -> None:
    text = "not has(a) and has(b) or has(c)"
    assert parse_condition(text) == Or((And((Not(Has("a")), Has("b"))), Has("c")))
    assert parse_condition("not (has(a) and (has(b) or has(c)))") == Not(And((Has("a"), Or((Has("b"), Has("c"))))))


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "expected a condition"),
        ("   ", 4, "expected a condition"),
        ("vllm", 5, "expected one of == != < <= > >= ~= after vllm"),
        ("vllm => 3", 6, "expected one of =="),
        ("vllm >= abc", 9, "'abc' is not a version that >= compares with"),
        ("vllm >= 0.26.*", 9, "'0.26.*' is not a version that >= compares with"),
        ("vllm >= 0.26,", 14, "expected one of =="),
        ("vllm >= 0.26 && x", 14, "expected `and`, `or` or the end here"),
        ("vllm >= 0.26 or", 16, "expected a condition"),
        ("VLLM >= 1", 1, "expected a condition"),
        ("(vllm >= 1", 11, "expected `)`"),
        ("arch sm_121", 6, "expected == != in or not in after arch"),
        ("arch in sm_121", 9, "expected `[`"),
        ("arch in [sm_121", 16, "expected `]`"),
        ("pins.x > abc", 10, "'abc' is not a version that > compares with"),
        ("pins == 1", 1, "expected a condition"),
        ("contains(main)", 10, "'main' is not a commit id"),
        ("has(../x)", 5, "'../x' is not a path inside the tree"),
        ("has(/etc)", 4 + 1, "expected a value"),
        ("has(a.py:b-c)", 5, "'b-c' is not the name of a definition"),
        ("merged(0)", 8, "'0' is not the number of a pull request"),
        ("has(x", 6, "expected `)`"),
        ("(" * 30 + "has(x)" + ")" * 30, 22, "nested deeper than 20"),
        ("not " * 5000 + "has(x)", 85, "nested deeper than 20"),
    ],
)
def test_a_condition_that_does_not_parse_says_at_which_column(text: str, column: int, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse_condition(text)
    assert caught.value.column == column
    assert message in str(caught.value)


# --- properties ------------------------------------------------------------------------------------------------------

VERSIONS = st.sampled_from(["0.25.1", "0.26.0", "0.26.0rc1", "0.30", "1.0.dev3", "2.11.0+cu129"])
BASES = st.sampled_from(["0.25", "0.26.0", "0.30", "1.0"])
COMPARISONS = st.lists(
    st.builds(
        Comparison, st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "~="]), st.sampled_from(["0.26.0", "1.0"])
    ),
    min_size=1,
    max_size=2,
).map(tuple)
VALUES = st.text(alphabet="abz09_. ,)]'", max_size=6)
ATOMS: st.SearchStrategy[Condition] = st.one_of(
    st.builds(VersionIs, st.sampled_from(["vllm", "vllm-ascend", "torch", "python"]), COMPARISONS),
    st.builds(PinIs, st.sampled_from(["deepgemm", "flash.infer_2", "None"]), COMPARISONS),
    st.builds(PinIs, st.just("p"), st.tuples(st.builds(Comparison, st.sampled_from(["==", "!="]), VALUES))),
    st.builds(ArchIn, st.lists(VALUES, min_size=1, max_size=3).map(tuple)),
    st.builds(Contains, st.sampled_from(["aaaaaaa", "bbbbbbb", "ccccccc"])),
    st.builds(Has, st.sampled_from(["vllm/x.py", ".github", "a b/c.cu"]), st.sampled_from([None, "f", "A.run"])),
    st.builds(Merged, st.integers(1, 99999)),
)


def grow(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(Not, inner), st.builds(And, several), st.builds(Or, several))


CONDITIONS = st.recursive(ATOMS, grow, max_leaves=8)
WORLDS = st.builds(
    Known,
    versions=st.dictionaries(st.sampled_from(["vllm", "vllm-ascend", "torch", "python"]), VERSIONS),
    target=st.sampled_from([None, "a", "sm_121"]),
    pins=st.dictionaries(st.sampled_from(["deepgemm", "p", "None"]), st.one_of(VERSIONS, VALUES)),
    commits=st.dictionaries(st.sampled_from(["aaaaaaa", "bbbbbbb"]), st.booleans()),
    paths=st.frozensets(st.tuples(st.sampled_from(["vllm/x.py", ".github"]), st.sampled_from([None, "f"]))),
)


@settings(max_examples=150, deadline=None)
@given(CONDITIONS)
def test_the_text_of_a_condition_parses_to_an_equal_condition(condition: Condition) -> None:
    assert parse_condition(str(condition)) == condition


@settings(max_examples=100, deadline=None)
@given(CONDITIONS, CONDITIONS, WORLDS)
def test_de_morgan_holds_in_three_values(one: Condition, other: Condition, facts: Known) -> None:
    assert Not(And((one, other))).judge(facts).value is Or((Not(one), Not(other))).judge(facts).value
    assert Not(Or((one, other))).judge(facts).value is And((Not(one), Not(other))).judge(facts).value


@settings(max_examples=100, deadline=None)
@given(CONDITIONS, WORLDS)
def test_a_condition_and_its_negation_never_both_hold(condition: Condition, facts: Known) -> None:
    sides = (condition.decide(facts).holds, Not(condition).decide(facts).holds)
    assert sides != (True, True)
    assert (sides == (False, False)) == condition.decide(facts).reason.startswith("cannot be told")


def naive(condition: Condition, facts: Known) -> bool | None:
    """Evaluate the logic by numbers: 1 true, 0 false, one half unknown; the atoms are pinned by the table above."""

    def number(one: Condition) -> float:
        if isinstance(one, Not):
            return 1 - number(one.operand)
        if isinstance(one, And):
            return min(number(part) for part in one.operands)
        if isinstance(one, Or):
            return max(number(part) for part in one.operands)
        return {True: 1.0, False: 0.0, None: 0.5}[one.judge(facts).value]

    return {1.0: True, 0.0: False, 0.5: None}[number(condition)]


@settings(max_examples=150, deadline=None)
@given(CONDITIONS, WORLDS)
def test_a_decision_equals_that_of_arithmetic(condition: Condition, facts: Known) -> None:
    assert condition.decide(facts).holds is (naive(condition, facts) is True)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.sampled_from(list("vlm >=<~!,()[]'\"0.26*andortihspc:/_-\n\té\0")), max_size=40))
def test_no_text_makes_the_parser_fail_otherwise_than_with_its_own_error(text: str) -> None:
    with contextlib.suppress(ConditionError):
        condition = parse_condition(text)
        assert parse_condition(str(condition)) == condition
