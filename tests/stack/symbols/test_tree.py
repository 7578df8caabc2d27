"""What a dotted name stands for: the ways in which Python modules bind names, each as vLLM does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.stack.symbols.tree import State
from tests.stack.symbols.trees import tree_of

FILES = {
    "setup.py": 'CMakeExtension(name="vllm._C")\nCMakeExtension(name="vllm.flash._fa2_C")\n',
    "vllm/__init__.py": """
        import typing
        MODULE_ATTRS = {"LLM": ".entry:LLM", "Gone": ".entry:Nothing"}
        if typing.TYPE_CHECKING:
            from vllm.entry import LLM, Params
        else:
            def __getattr__(name):
                if name in MODULE_ATTRS:
                    return 1
        """,
    "vllm/entry.py": """
        import enum
        from typing import TYPE_CHECKING
        from torch import nn
        if TYPE_CHECKING:
            from vllm.deep.far import Params
        class Base:
            def run(self): self.later = 1
            size = 3
        class LLM(Base):
            def start(self): pass
        class Net(nn.Module):
            def forward(self, x): pass
        class Mode(enum.Enum):
            FULL = 1
        if object():
            def chosen(): pass
        else:
            chosen = None
        try:
            from fast import kernel
        except ImportError:
            kernel = None
        Alias = LLM
        with open("x") as handle:
            inside = 1
        for number in range(3):
            pass
        """,
    "vllm/envs.py": """
        environment_variables = {"VLLM_A": lambda: 1, "VLLM_B": lambda: 2}
        def __getattr__(name):
            if name in environment_variables:
                return environment_variables[name]()
            if name == "special":
                return 1
            raise AttributeError(name)
        """,
    "vllm/open.py": "def __getattr__(name):\n    return name\n",
    "vllm/deep/__init__.py": "from .far import *\nfrom . import near\nfrom .near import helper\n",
    "vllm/deep/far.py": '__all__ = ["Params"]\nclass Params: pass\nclass Hidden: pass\n',
    "vllm/deep/near.py": "from vllm.deep import far as there\ndef helper(): pass\n_private = 1\n",
    "vllm/stars.py": "from vllm.deep.near import *\n",
    "vllm/folder/leaf.py": "x = 1\n",
    "vllm/circle.py": "from vllm.circle2 import a\n",
    "vllm/circle2.py": "from vllm.circle import a\n",
    "vllm/broken.py": "def (:\n",
    "vllm/flash/__init__.py": "",
}


@pytest.mark.parametrize(
    ("name", "state", "missing"),
    [
        ("vllm.entry.LLM", State.FOUND, ""),
        ("vllm.entry.LLM.start", State.FOUND, ""),
        ("vllm.entry.LLM.run", State.FOUND, ""),  # of the base
        ("vllm.entry.LLM.stop", State.GONE, "vllm.entry.LLM.stop"),
        ("vllm.entry.LLM.later", State.GONE, "vllm.entry.LLM.later"),  # of an instance only
        ("vllm.entry.LLM.__name__", State.OPEN, ""),
        ("vllm.entry.Net.eval", State.OPEN, ""),  # torch knows
        ("vllm.entry.Mode.FULL", State.FOUND, ""),
        ("vllm.entry.Mode.HALF", State.GONE, "vllm.entry.Mode.HALF"),
        ("vllm.entry.Mode.__members__", State.OPEN, ""),
        ("vllm.entry.Alias.start", State.FOUND, ""),
        ("vllm.entry.Alias.stop", State.GONE, "vllm.entry.Alias.stop"),
        ("vllm.entry.chosen", State.FOUND, ""),
        ("vllm.entry.kernel", State.FOUND, ""),
        ("vllm.entry.inside", State.FOUND, ""),
        ("vllm.entry.handle", State.FOUND, ""),
        ("vllm.entry.number", State.FOUND, ""),
        ("vllm.entry.Params", State.TYPING, "vllm.entry.Params"),
        ("vllm.entry.__file__", State.OPEN, ""),
        ("vllm.LLM", State.FOUND, ""),
        ("vllm.LLM.stop", State.GONE, "vllm.LLM.stop"),
        ("vllm.Params", State.TYPING, "vllm.Params"),
        ("vllm.nothing", State.GONE, "vllm.nothing"),
        ("vllm.envs.VLLM_A", State.OPEN, ""),
        ("vllm.envs.special", State.OPEN, ""),
        ("vllm.envs.VLLM_C", State.GONE, "vllm.envs.VLLM_C"),
        ("vllm.open.anything", State.OPEN, ""),
        ("vllm.deep.Params", State.FOUND, ""),
        ("vllm.deep.Hidden", State.GONE, "vllm.deep.Hidden"),  # not in __all__
        ("vllm.deep.near.helper", State.FOUND, ""),
        ("vllm.deep.helper", State.FOUND, ""),
        ("vllm.deep.near.there.Hidden", State.FOUND, ""),
        ("vllm.stars.helper", State.FOUND, ""),
        ("vllm.stars._private", State.GONE, "vllm.stars._private"),
        ("vllm.folder.leaf.x", State.FOUND, ""),  # a folder without __init__.py
        ("vllm.folder.other", State.GONE, "vllm.folder.other"),
        ("vllm.circle.a", State.OPEN, ""),
        ("vllm.broken.a", State.OPEN, ""),
        ("vllm._C", State.OPEN, ""),  # the build makes it
        ("vllm.flash._fa2_C.run", State.OPEN, ""),
        ("vllm.flash.other", State.GONE, "vllm.flash.other"),
        ("vllm.gone.module.name", State.GONE, "vllm.gone"),
    ],
)
def test_a_name_is_found_as_python_would(tmp_path: Path, name: str, state: State, missing: str) -> None:
    found = tree_of(tmp_path, FILES).resolve(name)
    assert (found.state, found.missing) == (state, missing)


def test_for_type_checkers_names_under_type_checking_count(tmp_path: Path) -> None:
    assert tree_of(tmp_path, FILES).resolve("vllm.entry.Params", typing=True).state is State.FOUND


def test_a_name_is_looked_for_in_the_whole_package(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path,
        {
            "vllm/a.py": "def f():\n    def inner(): pass\n",
            "vllm/b/f.py": "x: int = 1\ng = 2\n",
            "vllm/c.py": "async def f(): pass\nf = f\n",
        },
    )
    found = tree.defining(["f", "x", "inner"])
    assert {name: sorted(places) for name, places in found.items()} == {
        "f": ["vllm.a.f", "vllm.b.f", "vllm.c.f"],
        "x": ["vllm.b.f.x"],
        "inner": [],
    }
    assert tree.defining([]) == {}
