"""os.sched_getaffinity must not be called unguarded: macOS has none."""

import ast
import os
import pathlib
import sys

tree = pathlib.Path(os.environ["PATCHKIT_TREE"], "vllm")
unguarded = []


def visit(node, guarded, file):
    """Walk down; an `if` that asks for the name or the platform, and a `try`, guard what is below them."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "os.sched_getaffinity" and not guarded:
        unguarded.append(f"{file}:{node.lineno}")
    if isinstance(node, ast.If | ast.IfExp):
        asks = ast.unparse(node.test)
        guarded = guarded or "sched_getaffinity" in asks or "platform" in asks
    for child in ast.iter_child_nodes(node):
        visit(child, guarded or isinstance(node, ast.Try), file)


for pattern in ("platforms/cpu.py", "utils/omp*.py", "v1/worker/cpu_worker.py"):
    for path in sorted(tree.glob(pattern)):
        visit(ast.parse(path.read_text()), False, path.relative_to(tree))
if unguarded:
    sys.exit(f"REGRESSION: {', '.join(unguarded)}")
