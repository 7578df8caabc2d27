"""DYNAMIC_EPLB=true must switch the patched executor on, and nothing must when the variable is unset."""

import ast
import os
import pathlib
import sys
import types

file = pathlib.Path(os.environ["PATCHKIT_TREE"], "vllm_ascend/patch/platform/__init__.py")
tests = [node.test for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.If)]
chosen = [test for test in tests if "DYNAMIC_EPLB" in ast.unparse(test)]
if not chosen:
    print("patchkit: absent")
    sys.exit(0)


def holds(value):
    """Evaluate the condition with the variable set to a value, or unset."""
    variables = {} if value is None else {"DYNAMIC_EPLB": value}
    fake = types.SimpleNamespace(getenv=variables.get, environ=variables)
    setting = types.SimpleNamespace(DYNAMIC_EPLB=variables.get("DYNAMIC_EPLB", "false").lower())
    return bool(eval(compile(ast.Expression(chosen[0]), "condition", "eval"), {"os": fake, "envs_ascend": setting}))


if not holds("true") or holds(None):
    sys.exit(f"REGRESSION: set to true {holds('true')}, unset {holds(None)}")
