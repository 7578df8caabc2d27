"""A tree of values → a model, and every complaint at its place, in words that say what to do next."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from patchkit.errors import InvalidFile, Problem
from patchkit.recipe.document import Node, Place, YamlPath, describe_scalar, path_text
from patchkit.recipe.model.fields import PATTERNS

KNOWN_FORMAT = 1
CONDITION_HINT = 'like "vllm >= 0.26, < 0.30 and arch in [sm_120, sm_121]"; docs/reference/recipe.md has the words'
Model = TypeVar("Model")
Words = tuple[str, str]  # message, hint


class Complaints:
    """Everything that is wrong so far, over all files that one request reads."""

    def __init__(self) -> None:
        self._problems: dict[Problem, None] = {}  # a patch that two recipes name complains once
        self._files: dict[str, int] = {}

    def read_file(self, file: str) -> None:
        """Remember when a file was first read: problems are told in that order."""
        self._files.setdefault(file, len(self._files))

    def add(self, *problems: Problem) -> None:
        """Add problems as they are."""
        for problem in problems:
            self.read_file(problem.file)
            self._problems.setdefault(problem)

    def add_at(self, place: Place, path: YamlPath, message: str, hint: str = "") -> None:
        """Add a problem at a place of a file."""
        self.add(Problem(place.file, place.line, place.column, path_text(path), message, hint))

    def sorted(self) -> tuple[Problem, ...]:
        """Return all problems, file by file, from top to bottom."""
        return tuple(
            sorted(self._problems, key=lambda problem: (self._files[problem.file], problem.line, problem.column))
        )

    def raise_any(self) -> None:
        """Raise `InvalidFile` with all problems, if there are any."""
        if self._problems:
            raise InvalidFile(self.sorted())


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return a hint with the names that look like `name` (0 like nothing, 1 the same), or "" when none does."""
    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=cutoff)
    return f"did you mean {' or '.join(close)}?" if close else ""


def check_format(root: Node, complaints: Complaints) -> bool:
    """Return whether the file's format is one that we know; a wrong one makes every other complaint meaningless."""
    node = root.child("format")
    if node is None or (node.content == KNOWN_FORMAT and not isinstance(node.content, bool | float)):
        return True  # a missing one is for the model to complain of, together with the rest
    if isinstance(node.content, int) and not isinstance(node.content, bool):
        message = f"format {node.content} is not known to this patchkit (knows {KNOWN_FORMAT})"
        complaints.add_at(node.place, ("format",), message, "use the patchkit that wrote it, or a newer one")
    else:
        complaints.add_at(
            node.place, ("format",), f"must be the number {KNOWN_FORMAT}", f"write format: {KNOWN_FORMAT}"
        )
    return False


def validate(adapter: TypeAdapter[Model], root: Node, complaints: Complaints) -> Model | None:
    """Return the model of a tree, or None after adding everything that is wrong with it."""
    try:
        return adapter.validate_json(json.dumps(root.value()), by_alias=True, by_name=False)
    except ValidationError as error:
        explain = _Explain(adapter, root)
        for details in error.errors(include_url=False):
            if not _counts_only_valid(details):
                complaints.add(explain.problem(details))
    return None


def _counts_only_valid(details: ErrorDetails) -> bool:
    """Return whether pydantic calls a list too short because its entries are wrong, which it says anyway."""
    return details["type"] == "too_short" and len(details["input"]) >= details["ctx"]["min_length"]


class _Explain:
    """Turns pydantic's errors into problems."""

    def __init__(self, adapter: TypeAdapter[Any], root: Node) -> None:
        self.schema = adapter.json_schema(by_alias=True)
        self.root = root

    def problem(self, details: ErrorDetails) -> Problem:
        path, node, parent = self._locate(details["loc"])
        message, hint = self._words(details, path, node)
        place = node.place if node is not None else parent.place
        if details["type"] == "extra_forbidden" or details["loc"][-1:] == ("[key]",):
            place = parent.keys.get(str(path[-1]), place)
        return Problem(place.file, place.line, place.column, path_text(path), message, hint)

    def _locate(self, loc: YamlPath) -> tuple[YamlPath, Node | None, Node]:
        """Walk the tree along pydantic's location, without its union tags (`<pull>`) and its mark of keys (`[key]`)."""
        path: list[str | int] = []
        node: Node | None = self.root
        parent = self.root
        for at, part in enumerate(loc):
            behind_index = at > 0 and isinstance(loc[at - 1], int)
            if (behind_index and str(part).startswith("<")) or (part == "[key]" and at == len(loc) - 1):
                continue
            path.append(part)
            if node is not None:
                parent, node = node, node.child(part)
        return tuple(path), node, parent

    def _words(self, details: ErrorDetails, path: YamlPath, node: Node | None) -> Words:
        kind = details["type"]
        if kind == "extra_forbidden":
            known = self._keys_at(details["loc"][:-1])
            return "unknown key", nearest(str(path[-1]), known) or f"known keys: {', '.join(known)}"
        if kind == "missing":
            return "is missing", self._keys_at(details["loc"][:-1]).get(str(path[-1]), {}).get("description", "")
        if node is not None and node.plain == "":
            return "has no value", "write one, or remove the key"
        if path[-1:] in (("when",), ("remove-when",)) and kind == "string_type":
            return "must be a condition, as text", CONDITION_HINT
        if node is not None and node.plain and kind in ("string_type", "literal_error", "unknown_kind"):
            return f"YAML reads {node.plain} as {describe_scalar(node)}", f'quote it: "{node.plain}"'
        words = _WORDS.get(kind)
        return words(details) if words else (details["msg"], "")

    def _keys_at(self, loc: YamlPath) -> dict[str, dict[str, Any]]:
        """Return the keys that may stand at a location, with their JSON schemas."""
        schema = self.schema
        for part in loc:
            schema = self._step(self._resolve(schema), part)
        found = self._resolve(schema).get("properties", {})
        return dict(found)

    def _resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Follow a reference, and look through `… | None`."""
        for option in schema.get("anyOf", []):
            if option.get("type") != "null":
                return self._resolve(option)
        reference = str(schema.get("$ref", ""))
        return self.schema["$defs"][reference.rsplit("/", 1)[-1]] if reference else schema

    def _step(self, schema: dict[str, Any], part: str | int) -> dict[str, Any]:
        if isinstance(part, int):
            return dict(schema.get("items", {}))
        if part.startswith("<") and "oneOf" in schema:
            options = [self._resolve(option) for option in schema["oneOf"]]
            return next((one for one in options if part.strip("<>") in one.get("required", ())), {})
        every = next(iter(schema.get("patternProperties", {}).values()), schema.get("additionalProperties", {}))
        found = schema.get("properties", {}).get(part, every)
        return dict(found) if isinstance(found, dict) else {}


def _wrong_type(wanted: str) -> Callable[[ErrorDetails], Words]:
    def words(details: ErrorDetails) -> Words:
        value = details["input"]
        names = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
        hint = f"take the quotes away: {value}" if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value) else ""
        hint = f"write [{value}]" if wanted == "a list" and isinstance(value, str) else hint
        return f"must be {wanted}, not {names.get(type(value), 'a number')}", hint

    return words


def _bounds(sign: str, key: str) -> Callable[[ErrorDetails], Words]:
    return lambda details: (f"must be {sign} {details['ctx'][key]}", "")


def _literal(details: ErrorDetails) -> Words:
    expected = str(details["ctx"]["expected"])
    return f"must be {expected.replace(chr(39), '')}", nearest(
        str(details["input"]), re.findall(r"'([^']*)'", expected)
    )


def _pattern(details: ErrorDetails) -> Words:
    words = PATTERNS.get(details["ctx"]["pattern"], f"must match {details['ctx']['pattern']}")
    return f"{details['input']!r} {words}", ""


def _value(details: ErrorDetails) -> Words:
    message = str(details["ctx"]["error"])
    return message, CONDITION_HINT if message.startswith("condition, ") else ""


_WORDS: Mapping[str, Callable[[ErrorDetails], Words]] = {
    "string_type": _wrong_type("text"),
    "int_type": _wrong_type("a whole number"),
    "int_from_float": _wrong_type("a whole number"),
    "tuple_type": _wrong_type("a list"),
    "dict_type": _wrong_type("a mapping"),
    "model_type": _wrong_type("a mapping"),
    "model_attributes_type": _wrong_type("a mapping"),
    "literal_error": _literal,
    "string_pattern_mismatch": _pattern,
    "string_too_long": lambda details: (f"is longer than {details['ctx']['max_length']} characters", ""),
    "too_short": lambda details: (f"needs at least {details['ctx']['min_length']} entry", ""),
    "greater_than": _bounds("greater than", "gt"),
    "greater_than_equal": _bounds("at least", "ge"),
    "less_than_equal": _bounds("at most", "le"),
    "value_error": _value,
    "unknown_kind": lambda details: (details["msg"], ""),
}
