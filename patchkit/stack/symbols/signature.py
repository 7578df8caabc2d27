"""Signatures as they are written, and whether a function can stand in for another."""

from __future__ import annotations

import ast
from dataclasses import dataclass

JOINT = "; "  # between the reasons of a misfit
Function = ast.FunctionDef | ast.AsyncFunctionDef
KEEPS_SIGNATURE = frozenset({"staticmethod", "classmethod", "abstractmethod", "override", "inference_mode", "no_grad"})


@dataclass(frozen=True)
class Signature:
    """The parameters of a function. `optional` of them have a default; a method's first one is not among them."""

    positional: tuple[str, ...]
    keyword: tuple[str, ...]
    optional: frozenset[str]
    takes_more: bool  # *args
    takes_keywords: bool  # **kwargs
    only_positional: int = 0


def read_signature(node: Function | ast.Lambda) -> Signature | None:
    """Return a function's parameters without `self` or `cls`; None where a decorator may change them."""
    decorators = [ast.unparse(one).partition("(")[0] for one in getattr(node, "decorator_list", [])]
    if any(one.rpartition(".")[2] not in KEEPS_SIGNATURE for one in decorators):
        return None
    arguments = node.args
    positional = [one.arg for one in [*arguments.posonlyargs, *arguments.args]]
    optional = {*positional[len(positional) - len(arguments.defaults) :]} if arguments.defaults else set()
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    optional |= {one.arg for one, default in pairs if default is not None}
    first = 1 if positional[:1] in (["self"], ["cls"]) else 0
    return Signature(
        positional=tuple(positional[first:]),
        keyword=tuple(one.arg for one in arguments.kwonlyargs),
        optional=frozenset(optional),
        takes_more=arguments.vararg is not None,
        takes_keywords=arguments.kwarg is not None,
        only_positional=max(0, len(arguments.posonlyargs) - first),
    )


def misfit(theirs: Signature, ours: Signature) -> str:
    """Return why `ours` cannot stand in for `theirs` in every call that `theirs` takes, '' when it can."""
    known = {*ours.positional, *ours.keyword}
    wanted = (*theirs.positional[theirs.only_positional :], *theirs.keyword)
    lacking = [name for name in wanted if name not in known] if not ours.takes_keywords else []
    if ours.takes_more:
        lacking = [name for name in lacking if name in theirs.keyword]
    offered = {*theirs.positional, *theirs.keyword}
    demanded = [name for name in (*ours.positional, *ours.keyword) if name not in offered | ours.optional]
    if theirs.takes_more and theirs.takes_keywords:
        demanded = []
    shared = [name for name in ours.positional if name in theirs.positional]
    told = [f"lacks {name}" for name in lacking] + [f"demands {name}" for name in demanded]
    if not told and shared != [name for name in theirs.positional if name in shared]:
        told = [f"another order: {', '.join(theirs.positional)}"]
    return JOINT.join(told)
