"""One more entry in a recipe's series, written into the text as it is: comments, quotes and order stay."""

from __future__ import annotations

from typing import Any

import yaml

from patchkit.errors import RequestError
from patchkit.recipe.writing.patch_file import end_of

BY_HAND = "add it by hand"


def add_to_series(text: str, slug: str) -> str:
    """Return a recipe's text with a patch at the end of its `series:`; the same text where it is there already.

    Raises `RequestError` for a text in which the place cannot be told.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise RequestError("the recipe is no block of keys", BY_HAND)
    series = next((value for key, value in root.value if key.value == "series"), None)
    if series is not None and slug in _names(series):
        return text
    added = _insert(text, root, series, slug if yaml.safe_load(slug) == slug else f'"{slug}"')
    before, after = _load(text), _load(added)
    if after != {**before, "series": [*(before.get("series") or []), slug]}:
        raise RequestError("the recipe's `series:` is written in a way that no entry can be added to", BY_HAND)
    return added


def _insert(text: str, root: yaml.MappingNode, series: yaml.Node | None, slug: str) -> str:
    if series is None:
        return f"{text.rstrip()}\nseries:\n  - {slug}\n"
    if isinstance(series, yaml.ScalarNode) and not series.value:
        key = next(key for key, value in root.value if value is series)
        return _after_line(text, key.end_mark.index, f"  - {slug}")
    if not isinstance(series, yaml.SequenceNode):
        raise RequestError("the recipe's `series:` is no list", BY_HAND)
    if not series.value:
        return f"{text[: series.start_mark.index]}[{slug}]{text[series.end_mark.index :]}"
    end = end_of(series.value[-1])
    if series.flow_style:
        return f"{text[:end]}, {slug}{text[end:]}"
    return _after_line(text, end, f"{' ' * series.start_mark.column}- {slug}")


def _after_line(text: str, at: int, line: str) -> str:
    """Return a text with a line behind the one that a place is in."""
    end = text.find("\n", at)
    return f"{text}\n{line}\n" if end < 0 else f"{text[:end]}\n{line}{text[end:]}"


def _names(series: yaml.Node) -> set[str]:
    """Return the patch folders that a series names, alone or under `patch:`."""
    found = set()
    for entry in series.value if isinstance(series, yaml.SequenceNode) else ():
        if isinstance(entry, yaml.ScalarNode):
            found.add(entry.value)
        elif isinstance(entry, yaml.MappingNode):
            found |= {value.value for key, value in entry.value if key.value == "patch"}
    return found


def _load(text: str) -> dict[str, Any]:
    try:
        loaded = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    return loaded if isinstance(loaded, dict) else {}
