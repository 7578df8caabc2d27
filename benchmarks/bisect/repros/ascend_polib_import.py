"""The script that makes the Chinese docs must import without polib; its unit test came days after the fault."""

import ast
import os
import pathlib
import sys

folder = pathlib.Path(os.environ["PATCHKIT_TREE"], "tools")
if "generate_zh_docs.py" not in {path.name for path in folder.iterdir()}:
    print("patchkit: absent")
    sys.exit(0)
for node in ast.parse((folder / "generate_zh_docs.py").read_text()).body:
    names = [node.module] if isinstance(node, ast.ImportFrom) else [one.name for one in getattr(node, "names", [])]
    if isinstance(node, ast.Import | ast.ImportFrom) and "polib" in names:
        sys.exit(f"REGRESSION: line {node.lineno} imports polib unguarded")
