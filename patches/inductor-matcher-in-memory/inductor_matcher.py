# SPDX-License-Identifier: Apache-2.0
"""Inductor's matcher passes over every node with an input that Triton cannot read, E8M0 scales among them. The wrappers
of ops that write into an argument (auto_functionalized) are no kernels: a pass must take them apart, and asserts that
it did. So the matcher is told that they have no such input. Whatever comes out of them is asked as before.

Inductor costs seconds to import and not every process compiles: the matcher is changed when something imports it.
"""

import importlib.abc
import importlib.machinery
import sys

MATCHER = "torch._inductor.pattern_matcher"
QUESTION = "fallback_node_due_to_unsupported_type"
WRAPPERS = ("auto_functionalized", "auto_functionalized_v2")


def accept_wrappers(matcher) -> None:
    """Change the question of a matcher module that is loaded; twice is as good as once."""
    asked = getattr(matcher, QUESTION, None)
    if asked is None or getattr(asked, "accepts_wrappers", False):
        return

    def ask(node, *arguments, **options):
        import torch

        operators = torch.ops.higher_order
        wrappers = [getattr(operators, name) for name in WRAPPERS if hasattr(operators, name)]
        if any(node.target is wrapper for wrapper in wrappers):
            return False
        return asked(node, *arguments, **options)

    ask.accepts_wrappers = True
    setattr(matcher, QUESTION, ask)


class _Loader(importlib.abc.Loader):
    """Loads the matcher as it is, and changes it then."""

    def __init__(self, loader) -> None:
        self.loader = loader

    def __getattr__(self, name):
        return getattr(self.loader, name)  # get_source and what else inspect and tracebacks ask for

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module) -> None:
        self.loader.exec_module(module)
        accept_wrappers(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Stands before the finders that find the matcher, until it is found."""

    def find_spec(self, name, path=None, target=None):
        if name != MATCHER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


if MATCHER in sys.modules:
    accept_wrappers(sys.modules[MATCHER])
else:
    sys.meta_path.insert(0, _Finder())
