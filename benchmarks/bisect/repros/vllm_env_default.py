"""Defaults of vllm/envs.py: VLLM_RPC_PORT must not follow VLLM_PORT; the chunk of fused MoE must not be 32k."""

import ast
import os
import pathlib
import sys

WANTED = {
    "vllm-rpc-port": ("VLLM_RPC_PORT", {"VLLM_PORT": "29500"}, lambda value: value == 5570),
    "rocm-fused-moe-chunk": ("VLLM_FUSED_MOE_CHUNK_SIZE", {}, lambda value: value != 32 * 1024),
}
name, variables, is_good = WANTED[os.environ["PATCHKIT_PIN_CASE"]]
tree = ast.parse(pathlib.Path(os.environ["PATCHKIT_TREE"], "vllm/envs.py").read_text())
found = [
    value
    for node in ast.walk(tree)
    if isinstance(node, ast.Dict)
    for key, value in zip(node.keys, node.values)
    if isinstance(key, ast.Constant) and key.value == name
]
if not found:
    print("patchkit: absent")
    sys.exit(0)
for key in [key for key in os.environ if key.startswith("VLLM_")]:
    del os.environ[key]
os.environ.update(variables)
value = eval(compile(ast.Expression(found[0]), "envs", "eval"), {"os": os})()
if not is_good(value):
    sys.exit(f"REGRESSION: {name} is {value}")
