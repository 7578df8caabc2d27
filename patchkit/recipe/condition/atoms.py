"""The atoms of conditions: what is asked about versions, pins, the architecture, the history and the files."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from patchkit.recipe.condition.decision import Condition, Facts, Truth, cannot_tell

BARE_VALUE = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._+!*/:-]*")


def quote_value(value: str) -> str:
    """Return a value as a condition writes it: bare where that parses, else in quotes."""
    if BARE_VALUE.fullmatch(value):
        return value
    return f"'{value}'" if '"' in value else f'"{value}"'


@dataclass(frozen=True)
class Comparison:
    """One specifier: an operator and a value, as written."""

    operator: str
    value: str

    def __str__(self) -> str:
        return f"{self.operator} {quote_value(self.value)}"

    @property
    def specifiers(self) -> SpecifierSet | None:
        """Return the comparison as PEP 440 has it, or None when the value is no version."""
        if "," in self.value:
            return None
        try:
            return SpecifierSet(self.operator + self.value, prereleases=True)
        except InvalidSpecifier:
            return None


def _compare(subject: str, version: Version, comparisons: tuple[Comparison, ...]) -> Truth:
    """Compare a version with all specifiers; the reason names the first that fails, else all of them."""
    for comparison in comparisons:
        specifiers = comparison.specifiers
        if specifiers is None or not specifiers.contains(version, prereleases=True):
            return Truth(False, f"{subject} is not {comparison.operator} {comparison.value}")
    return Truth(True, f"{subject} is " + ", ".join(f"{one.operator} {one.value}" for one in comparisons))


def read_version(text: str) -> Version | None:
    """Return a PEP 440 version, or None when the text is none."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


@dataclass(frozen=True)
class VersionIs(Condition):
    """`vllm >= 0.26, < 0.30`."""

    name: str
    comparisons: tuple[Comparison, ...]

    def __str__(self) -> str:
        return f"{self.name} " + ", ".join(map(str, self.comparisons))

    @property
    def version_names(self) -> frozenset[str]:
        """Return the name."""
        return frozenset((self.name,))

    def judge(self, facts: Facts) -> Truth:
        """Compare the version by PEP 440."""
        text = facts.version(self.name)
        if text is None:
            return cannot_tell(f"the version of {self.name} is not known")
        version = read_version(text)
        if version is None:
            return cannot_tell(f"the version of {self.name}, {text!r}, is not a PEP 440 version")
        return _compare(f"{self.name} {text}", version, self.comparisons)


@dataclass(frozen=True)
class PinIs(Condition):
    """`pins.deepgemm >= "2.5"`: by PEP 440 where pin and values are versions, else by `==` and `!=` of the text."""

    name: str
    comparisons: tuple[Comparison, ...]

    def __str__(self) -> str:
        return f"pins.{self.name} " + ", ".join(map(str, self.comparisons))

    def judge(self, facts: Facts) -> Truth:
        """Compare the pin."""
        pin = facts.pin(self.name)
        if pin is None:
            return cannot_tell(f"the recipe has no pin {self.name}")
        version = read_version(pin)
        if version is not None and all(one.specifiers is not None for one in self.comparisons):
            return _compare(f"pin {self.name} {pin}", version, self.comparisons)
        for one in self.comparisons:
            if one.operator not in ("==", "!="):
                return cannot_tell(f"pin {self.name} is {pin}, which has no order with {one.value}")
            if (pin == one.value) != (one.operator == "=="):
                return Truth(False, f"pin {self.name} {pin} is not {one.operator} {one.value}")
        return Truth(
            True, f"pin {self.name} {pin} is " + ", ".join(f"{one.operator} {one.value}" for one in self.comparisons)
        )


@dataclass(frozen=True)
class ArchIn(Condition):
    """`arch in [sm_120, sm_121]`; `arch == sm_121` is the same with one value."""

    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"arch in [{', '.join(map(quote_value, self.values))}]"

    def judge(self, facts: Facts) -> Truth:
        """Look the architecture up in the list."""
        arch = facts.arch()
        if arch is None:
            return cannot_tell("the recipe's target has no arch")
        listed = self.values[0] if len(self.values) == 1 else f"one of {', '.join(self.values)}"
        return Truth(arch in self.values, f"arch {arch} is {'' if arch in self.values else 'not '}{listed}")


@dataclass(frozen=True)
class Contains(Condition):
    """`contains(<commit>)`."""

    commit: str

    def __str__(self) -> str:
        return f"contains({self.commit})"

    def judge(self, facts: Facts) -> Truth:
        """Ask whether the commit is an ancestor."""
        answer = facts.contains(self.commit)
        if answer is None:
            return cannot_tell(f"whether it contains {self.commit}")
        return Truth(answer, f"{'contains' if answer else 'does not contain'} {self.commit}")


@dataclass(frozen=True)
class Has(Condition):
    """`has(path)` and `has(path:symbol)`."""

    path: str
    symbol: str | None = None

    def __str__(self) -> str:
        return f"has({quote_value(self.path if self.symbol is None else f'{self.path}:{self.symbol}')})"

    def judge(self, facts: Facts) -> Truth:
        """Look into the tree."""
        answer = facts.has(self.path, self.symbol)
        what = self.path if self.symbol is None else f"{self.symbol} in {self.path}"
        return Truth(answer, f"the tree has {'' if answer else 'no '}{what}")


@dataclass(frozen=True)
class Merged(Condition):
    """`merged(<pull request>)`: for `remove-when`; whoever has the network looks it up."""

    pull: int

    def __str__(self) -> str:
        return f"merged({self.pull})"

    def judge(self, facts: Facts) -> Truth:  # noqa: ARG002 - a tree and its history do not know
        """Say that it cannot be told from a tree."""
        return cannot_tell(f"whether pull request {self.pull} is merged needs the network")
