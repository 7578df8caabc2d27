"""What a patched tree must still be, whatever rung it came from: Python that parsed before parses after."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable

from patchkit.tools.git.objects import Delta, Repository


def check_gate(repository: Repository, deltas: Iterable[Delta]) -> str:
    """Return what a change has broken, '' when nothing: `vllm/x.py: no longer parses (line 3: …)`.

    A file that did not parse before is left alone: it may be a template, or in a newer Python than this one.
    """
    complaints = (_check_file(repository, delta) for delta in deltas if delta.path.endswith(".py"))
    return "; ".join(filter(None, complaints))


def _check_file(repository: Repository, delta: Delta) -> str:
    if delta.new is None or delta.new.mode not in {0o100644, 0o100755}:
        return ""
    fault = find_fault(repository.read_blob(delta.new.blob))
    if not fault:
        return ""
    if delta.old is None:
        return f"{delta.path}: is new and does not parse ({fault})"
    return "" if find_fault(repository.read_blob(delta.old.blob)) else f"{delta.path}: no longer parses ({fault})"


def find_fault(source: bytes) -> str:
    """Return why Python source does not parse, '' when it does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # upstream's invalid escapes are not ours to report
            ast.parse(source)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__
    return ""
