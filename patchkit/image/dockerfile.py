"""The Dockerfile of an image, as text: a base, one layer, labels, variables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

LAYER_NAME = "layer.tar"


def render_dockerfile(
    base: str, labels: Mapping[str, str], removed: Sequence[str], env: Mapping[str, str] | None = None
) -> str:
    """Return a Dockerfile that unpacks `layer.tar` over a base, deletes paths of the base and sets variables.

    ADD unpacks a tar with its owners, modes and times, so the layer is the same whenever and wherever it is built.
    Deleting needs a RUN, hence `rm` in the base: a builder has no other way to hide a file.
    """
    lines = [f"FROM {'scratch' if base == 'none' else base}"]
    if removed:
        lines.append(f"RUN {json.dumps(['rm', '-f', '--', *removed])}")
    lines.append(f"ADD {LAYER_NAME} /")
    lines += [f"LABEL {_quote(name)}={_quote(value)}" for name, value in sorted(labels.items())]
    lines += [f"ENV {name}={_quote(value)}" for name, value in sorted((env or {}).items())]
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    """Quote for LABEL and ENV: a backslash, a quote and a dollar sign mean something there, and a newline ends it."""
    for special in ("\\", '"', "$"):
        text = text.replace(special, "\\" + special)
    return '"' + " ".join(text.splitlines()) + '"'
