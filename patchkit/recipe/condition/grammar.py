"""Text → condition: a recursive descent, one function a line of the grammar.

any    = all ("or" all)*
all    = one ("and" one)*
one    = "not" one | "(" any ")" | atom
atom   = "arch" ("==" | "!=" | "in" | "not in") values | "contains(…)" | "has(…)" | "merged(…)"
       | ("pins." name | name) comparison ("," comparison)*
"""

from __future__ import annotations

import re
from collections.abc import Callable

from patchkit.recipe.condition.atoms import (
    BARE_VALUE,
    ArchIn,
    Comparison,
    Contains,
    Has,
    Merged,
    PinIs,
    VersionIs,
)
from patchkit.recipe.condition.decision import Condition
from patchkit.recipe.condition.logic import And, Not, Or

MAX_DEPTH = 20  # more parentheses than anyone can read; keeps the descent off Python's recursion limit
SPACE = re.compile(r"[ \t\r\n]*")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
OPERATOR = re.compile(r"~=|==|!=|<=|>=|<|>")
QUOTED = re.compile(r"\"([^\"\r\n]*)\"|'([^'\r\n]*)'")
SYMBOL = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
EXPECTED = "expected a condition, such as vllm >= 0.26, arch in [sm_121], pins.NAME == …, contains(…) or has(…)"


class ConditionError(ValueError):
    """A condition that does not parse. `column` counts from 1 inside its text."""

    def __init__(self, column: int, message: str) -> None:
        super().__init__(f"condition, column {column}: {message}")
        self.column = column


def parse_condition(text: str) -> Condition:
    """Return the condition that a text says. Raises `ConditionError`."""
    parser = _Parser(text)
    condition = parser.read_any(0)
    if parser.at < len(text):
        raise parser.error("expected `and`, `or` or the end here")
    return condition


class _Parser:
    """A text and how far it is read; every `read_` leaves `at` on the next thing that is no space."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._skip(0)

    def error(self, message: str, at: int | None = None) -> ConditionError:
        return ConditionError((self.at if at is None else at) + 1, message)

    def _skip(self, count: int) -> None:
        match = SPACE.match(self.text, self.at + count)
        self.at = match.end() if match else len(self.text)

    def _take(self, token: str) -> bool:
        """Take a word or a sign if it is next."""
        if token.isalpha():
            word = WORD.match(self.text, self.at)
            found = word is not None and word.group() == token
        else:
            found = self.text.startswith(token, self.at)
        if found:
            self._skip(len(token))
        return found

    def _demand(self, token: str) -> None:
        if not self._take(token):
            raise self.error(f"expected `{token}`")

    def read_any(self, depth: int) -> Condition:
        """any = all ("or" all)*."""
        operands = [self._read_all(depth)]
        while self._take("or"):
            operands.append(self._read_all(depth))
        return operands[0] if len(operands) == 1 else Or(tuple(operands))

    def _read_all(self, depth: int) -> Condition:
        operands = [self._read_one(depth)]
        while self._take("and"):
            operands.append(self._read_one(depth))
        return operands[0] if len(operands) == 1 else And(tuple(operands))

    def _read_one(self, depth: int) -> Condition:
        if depth > MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH}")
        if self._take("not"):
            return Not(self._read_one(depth + 1))
        if self._take("("):
            inner = self.read_any(depth + 1)
            self._demand(")")
            return inner
        return self._read_atom()

    def _read_atom(self) -> Condition:
        start = self.at
        word = WORD.match(self.text, start)
        if word is None:
            raise self.error(EXPECTED)
        self._skip(len(word.group()))
        functions: dict[str, Callable[[], Condition]] = {
            "arch": self._read_arch,
            "contains": self._read_contains,
            "has": self._read_has,
            "merged": self._read_merged,
        }
        if word.group() in functions:
            return functions[word.group()]()
        if len(word.group()) > len("pins.") and word.group().startswith("pins."):
            return PinIs(word.group().removeprefix("pins."), self._read_comparisons(word.group(), versions_only=False))
        if not NAME.fullmatch(word.group()) or word.group() in ("and", "or", "in", "pins", "pins."):
            raise self.error(EXPECTED, start)
        return VersionIs(word.group(), self._read_comparisons(word.group(), versions_only=True))

    def _read_comparisons(self, name: str, versions_only: bool) -> tuple[Comparison, ...]:
        comparisons = [self._read_comparison(name, versions_only)]
        while self._take(","):
            comparisons.append(self._read_comparison(name, versions_only))
        return tuple(comparisons)

    def _read_comparison(self, name: str, versions_only: bool) -> Comparison:
        operator = OPERATOR.match(self.text, self.at)
        if operator is None:
            raise self.error(f"expected one of == != < <= > >= ~= after {name}")
        self._skip(len(operator.group()))
        start = self.at
        comparison = Comparison(operator.group(), self._read_value())
        if (versions_only or comparison.operator not in ("==", "!=")) and comparison.specifiers is None:
            raise self.error(f"{comparison.value!r} is not a version that {comparison.operator} compares with", start)
        return comparison

    def _read_value(self) -> str:
        quoted = QUOTED.match(self.text, self.at)
        found = quoted or BARE_VALUE.match(self.text, self.at)
        if found is None:
            raise self.error("expected a value")
        self._skip(len(found.group()))
        return found.group() if quoted is None else quoted.group(1) or quoted.group(2) or ""

    def _read_arch(self) -> Condition:
        if self._take("=="):
            return ArchIn((self._read_value(),))
        if self._take("!="):
            return Not(ArchIn((self._read_value(),)))
        turned = self._take("not")
        if not self._take("in"):
            raise self.error("expected == != in or not in after arch")
        self._demand("[")
        values = [self._read_value()]
        while self._take(","):
            values.append(self._read_value())
        self._demand("]")
        listed = ArchIn(tuple(values))
        return Not(listed) if turned else listed

    def _read_argument(self) -> tuple[str, int]:
        self._demand("(")
        start = self.at
        value = self._read_value()
        self._demand(")")
        return value, start

    def _read_contains(self) -> Condition:
        commit, start = self._read_argument()
        if not re.fullmatch(r"[0-9a-f]{7,40}", commit):
            raise self.error(f"{commit!r} is not a commit id: 7 to 40 hexadecimal digits, in lower case", start)
        return Contains(commit)

    def _read_has(self) -> Condition:
        value, start = self._read_argument()
        path, colon, symbol = value.partition(":")
        if not path or path.startswith("/") or ".." in path.split("/"):
            raise self.error(f"{path!r} is not a path inside the tree", start)
        if colon and not SYMBOL.fullmatch(symbol):
            raise self.error(f"{symbol!r} is not the name of a definition", start)
        return Has(path, symbol if colon else None)

    def _read_merged(self) -> Condition:
        number, start = self._read_argument()
        if not re.fullmatch(r"[1-9][0-9]{0,8}", number):
            raise self.error(f"{number!r} is not the number of a pull request", start)
        return Merged(int(number))
