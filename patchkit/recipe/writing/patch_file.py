"""The text of a patch.yaml that a person will go on with, and what an import may change in it later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from patchkit.errors import RequestError
from patchkit.recipe.model import Imported

WIDTH = 110


@dataclass(frozen=True)
class PatchText:
    """What goes into a patch.yaml, beside the record of its import. Empty fields are left out."""

    title: str
    why: str
    upstream: str
    upstream_status: str
    origin: str
    author: str
    remove_when: str
    requires: tuple[str, ...]
    file: str
    notes: tuple[str, ...]  # comments at the end


def write_patch_file(text: PatchText, imported: Imported) -> bytes:
    """Return a patch.yaml."""
    fields: list[tuple[str, Any]] = [
        ("title", text.title),
        ("why", text.why),
        ("upstream", text.upstream),
        ("upstream-status", text.upstream_status),
        ("origin", text.origin),
        ("author", text.author),
        ("requires", list(text.requires)),
        ("remove-when", text.remove_when),
    ]
    head = "".join(_dump({key: value}) for key, value in fields if value)
    notes = "".join(f"# {line}\n" for line in text.notes)
    return f"format: 1\n{head}{write_imported(imported)}change:\n  - {{patch: {_scalar(text.file)}}}\n{notes}".encode()


def write_imported(imported: Imported) -> str:
    """Return the block `imported:`, a line a key."""
    return _dump({"imported": imported.model_dump(mode="json", by_alias=True, exclude_none=True)})


def replace_imported(text: str, imported: Imported) -> str:
    """Return a patch.yaml with another record of its import, and every other byte as it was.

    Raises `RequestError` when it has none.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    found = next(((key, value) for key, value in pairs if key.value == "imported"), None)
    if found is None or not isinstance(found[1], yaml.MappingNode) or not found[1].value:
        raise RequestError("patch.yaml: has no `imported:`", "import it under another --name")
    start, end = found[0].start_mark.index, end_of(found[1])
    return text[:start] + write_imported(imported).rstrip("\n") + text[end:]


def end_of(node: yaml.Node) -> int:
    """Return where a value ends in its text; PyYAML has a block end where the next thing begins."""
    if isinstance(node, yaml.ScalarNode) or getattr(node, "flow_style", False) or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return end_of(last[1] if isinstance(node, yaml.MappingNode) else last)


class _Dumper(yaml.SafeDumper):
    """Keeps the order of keys, quotes text, writes what has several lines as a block."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else '"')


def _represent_key_value(dumper: yaml.SafeDumper, value: dict[str, Any]) -> yaml.MappingNode:
    node = dumper.represent_mapping("tag:yaml.org,2002:map", value.items(), flow_style=False)
    for key, _ in node.value:
        key.style = None
    return node


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(dict, _represent_key_value)


def _dump(value: dict[str, Any]) -> str:
    return str(
        yaml.dump(value, Dumper=_Dumper, allow_unicode=True, width=10_000, sort_keys=False, default_flow_style=None)
    )


def _scalar(text: str) -> str:
    return _dump({"x": text}).removeprefix("x: ").rstrip("\n")


def comment_list(head: str, names: Sequence[str], shown: int = 3) -> str:
    """Return a comment that names some things, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return f"{head}: {', '.join(names[:shown])}{more}"
