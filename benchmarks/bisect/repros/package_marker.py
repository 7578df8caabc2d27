"""A folder of modules that is there must be a package: without __init__.py an installed wheel lacks it."""

import os
import pathlib
import sys

tree = pathlib.Path(os.environ["PATCHKIT_TREE"])
place = {"vllm-ascend": "vllm_ascend/models/layer", "vllm": "vllm/v1/spec_decode"}[os.environ["PATCHKIT_UPSTREAM"]]
folder = tree / place
above = {path.name for path in folder.parent.iterdir()} if folder.parent.is_dir() else {"": list(tree.iterdir())}
modules = sorted(folder.rglob("*.py")) if folder.name in above else []
for module in modules:
    module.read_bytes()
if not modules:
    print("patchkit: absent")
elif folder / "__init__.py" not in modules:
    sys.exit(f"REGRESSION: {place} has no __init__.py")
