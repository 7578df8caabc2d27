"""A plugin that sets `think_start_str` finds it no more; and vLLM must be importable by this Python at all."""

import os
import pathlib
import sys

tree = pathlib.Path(os.environ["PATCHKIT_TREE"], "vllm")
for path in sorted(tree.joinpath("compilation").rglob("*.py")):
    compile(path.read_text(), str(path.relative_to(tree)), "exec")  # as an import would
if "think_start_str" not in tree.joinpath("config", "reasoning.py").read_text():
    sys.exit("REGRESSION: ReasoningConfig has no think_start_str")
