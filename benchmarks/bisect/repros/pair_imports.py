"""Whatever a file of one tree imports from the package of the other must be there. Nothing is run, all is read.

PATCHKIT_PIN_FILE names the file. Imports under `if` and `try` are left out: the file copes with their absence.
Exit code: 0 good, 1 bad, 125 cannot tell; `patchkit: absent` without the file.
"""

import ast
import os
import sys
from pathlib import Path

TREE, PAIR = Path(os.environ["PATCHKIT_TREE"]), Path(os.environ["PATCHKIT_PAIR_TREE"])
PACKAGE = os.environ["PATCHKIT_PAIR_UPSTREAM"]


def main() -> int:
    file = TREE / os.environ["PATCHKIT_PIN_FILE"]
    if not file.is_file():
        print("patchkit: absent")
        return 0
    missing = [name for module, name in imports(parse(file)) if not resolves(module, name)]
    if missing:
        print(f"REGRESSION: not in {PACKAGE}: {', '.join(missing)}")
    return 1 if missing else 0


def parse(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError) as error:
        print(f"{file}: {error}")
        sys.exit(125)


def imports(tree: ast.Module) -> list[tuple[str, str]]:
    """Return module and name of each import of the package at the top of a file."""
    found = []
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and not statement.level:
            module = statement.module or ""
            found += [(module, alias.name) for alias in statement.names if module.partition(".")[0] == PACKAGE]
    return found


def resolves(module: str, name: str) -> bool:
    """Return whether a module has a name: as a module inside it, or in its text at any depth."""
    path = PAIR / module.replace(".", "/")
    inner = path / name
    if inner.is_dir() or inner.with_suffix(".py").is_file():
        return True
    file = next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
    if file is None:
        return False
    known = names(parse(file))
    return name in known or "*" in known or "__getattr__" in known


def names(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return found


sys.exit(main())
