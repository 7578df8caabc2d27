"""Runs at the start of every Python process of a probe: notes which files of the tree are really read.

A repro that never touches the tree under test proves nothing, whatever it prints. So each file below PATCHKIT_TREE
that is opened, imported or executed is appended to the file PATCHKIT_LOADED as `F <path>`; a look that found no file (a
folder that is listed, a path that is not there) as `L <path>`. The paths of PATCHKIT_PAIR_TREE, the tree beside it,
begin with the name of its upstream and a colon. Every line is written at once: it survives `os._exit` and SIGKILL.

Executed is a file whose code object runs, wherever that came from (byte code, a pickle, a cache), and one that is named
to a program that is started: a shell script, a binary, a script for a Python that loads no sitecustomize (`-I`, `-S`).

This runs inside the repro, on whatever Python that has: standard library only, and no error of its own may escape.
"""
# Neither pathlib nor typing: every process of a probe would pay for their import.
# ruff: noqa: PTH100, PTH118, PTH120

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LOOKS = frozenset({"os.listdir", "os.scandir"})
STARTS = frozenset({"subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"})  # a program, its words, a folder
RUNS = frozenset({"exec", "code.__new__"})
WATCHED = frozenset({"open", "import", "ctypes.dlopen", *LOOKS, *STARTS, *RUNS})
IMPORTER = "<frozen importlib._bootstrap_external>"
FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
MISHAPS = (OSError, ValueError, TypeError, IndexError, AttributeError, RecursionError)
_os = (os.open, os.write, os.close, os.fsdecode, os.path.isfile, os.path.abspath, os.getpid)  # before anyone mocks them


class Recorder:
    """The audit hook of one process."""

    def __init__(self, tree: str, log: str, label: str = "") -> None:
        """Watch a tree, under the name it was given and under its real one; its paths are noted after the label."""
        self.log = log
        self.label = label
        self.tree = os.path.abspath(tree)
        self.roots = tuple({self.tree, os.path.realpath(tree)})
        self.bytecode = (sys.pycache_prefix or "").rstrip("/")
        self.prefixes = tuple(root + "/" for root in self.roots)
        if self.bytecode:
            self.prefixes += tuple(self.bytecode + prefix for prefix in self.prefixes)
        self.seen: set[str] = set()

    def __call__(self, event: str, arguments: Sequence[object]) -> None:
        """Take an audit event; whatever goes wrong here must not reach the program."""
        if event in WATCHED:
            try:
                self.take(event, arguments)
            except MISHAPS:
                return

    def take(self, event: str, arguments: Sequence[object]) -> None:
        """Note the path of an event, if it lies in the tree and is new."""
        if event in STARTS:
            self.take_command(arguments[:2], arguments[2] if event == "subprocess.Popen" else None)
            return
        given = arguments[1] if event in ("import", "code.__new__") else arguments[0]
        if event == "exec":
            given = getattr(given, "co_filename", None)
        if not isinstance(given, (str, bytes, os.PathLike)) or (event == "open" and _only_writes(arguments[2])):
            return
        path = self.place_of(_os[3](given))
        if path is None or path in self.seen or (event in RUNS and not self.is_there(path)):
            return
        if event in LOOKS and path in self.roots and sys._getframe(2).f_code.co_filename == IMPORTER:
            return  # every import lists the folders of sys.path: that is no look at the tree
        self.seen.add(path)
        self.note(path, looks=event in LOOKS)

    def take_command(self, given: Sequence[object], folder: object) -> None:
        """Note the files of the tree that a command names, a line for a shell too, from the folder where it is."""
        start = _os[3](folder) if isinstance(folder, (str, bytes, os.PathLike)) else ""
        words: list[str] = []
        for part in given:
            for word in part if isinstance(part, (list, tuple)) else (part,):
                if isinstance(word, (str, bytes, os.PathLike)):
                    words += [_os[3](word), *_os[3](word).split()]
        before = ""
        for word in words:
            if before == "cd":
                start = os.path.join(start, word.strip("'\";&"))
            before = word
            path = self.place_of(os.path.join(start, word))
            if path is not None and path not in self.seen and self.is_there(path):
                self.seen.add(path)
                self.note(path, looks=False)

    def is_there(self, path: str) -> bool:
        """Return whether a path is a file: code may be named after one that never was."""
        return _os[4](path)

    def place_of(self, path: str) -> str | None:
        """Return the absolute path if it lies in the tree, the source's where it is byte code of it, else None."""
        if path.startswith("/") and "/." not in path and not path.startswith(self.prefixes):
            return path if path in self.roots else None
        path = _os[5](path)
        if path not in self.roots and not path.startswith(self.prefixes):
            return None
        if self.bytecode and path.startswith(self.bytecode + "/"):
            folder, _, name = path[len(self.bytecode) :].rpartition("/")
            return folder + "/" + name.partition(".")[0] + ".py"
        return path

    def note(self, path: str, looks: bool) -> None:
        """Append a line for a path, relative to the tree."""
        inside = [path[len(root) + 1 :] for root in self.roots if path == root or path.startswith(root + "/")]
        if not inside:
            return
        found = not looks and _os[4](os.path.join(self.tree, inside[0]))
        line = ("F " if found else "L ") + self.label + (inside[0].replace("\n", "?") or ".") + "\n"
        descriptor = _os[0](self.log, FLAGS, 0o600)
        try:
            _os[1](descriptor, line.encode("utf-8", "surrogateescape"))
        finally:
            _os[2](descriptor)


def _only_writes(flags: object) -> bool:
    """Return whether a file is opened to be written only: that is not reading the tree."""
    return isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY


def _chain() -> None:
    """Run the sitecustomize that this one hides, if the environment has one."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    own = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", own)


if os.environ.get("PATCHKIT_TREE") and os.environ.get("PATCHKIT_LOADED"):
    sys.addaudithook(Recorder(os.environ["PATCHKIT_TREE"], os.environ["PATCHKIT_LOADED"]))
    if os.environ.get("PATCHKIT_PAIR_TREE"):
        _label = os.environ.get("PATCHKIT_PAIR_UPSTREAM", "pair") + ":"
        sys.addaudithook(Recorder(os.environ["PATCHKIT_PAIR_TREE"], os.environ["PATCHKIT_LOADED"], _label))
if __name__ == "sitecustomize":
    _chain()
