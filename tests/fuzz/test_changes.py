"""Spoiled diffs, mailboxes and rewrites: an error of ours or a whole tree. `nox -s fuzz` tries 10,000 of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.errors import InvalidFile
from patchkit.recipe.load import load_patch
from patchkit.recipe.model import ChangePatch, ChangeRewrite
from tests.fuzz.ground import Ground
from tests.fuzz.mangle import FUZZ, mangled

STEPS = b"""- file: vllm/a.py
  inside: first
  match: g($A)
  replace: h($A)
  expect: 1
- file: vllm/a.py
  import: from math import pi
- file: vllm/b.py
  inside: second
  after: return g($$$)
  insert: |
    print("$A", {x})
- file: csrc/k.cu
  match: return $X;
  replace: return $X + 1;
- file: vllm/end.txt
  append: three
- file: vllm/new.py
  create: new.py
"""
WORDS = (
    b"- file: ../x",
    b"- file: vllm/crlf.py",
    b"- file: vllm/latin.txt",
    b"- file: data.bin",
    b"  inside: first.second",
    b"  inside: ''",
    b"  match: $$$",
    b"  match: '$A('",
    b"  match: ''",
    b"  match: if $X:\\n",
    b"  replace: $B",
    b"  replace: ''",
    b"  insert: '    $A'",
    b"  expect: 0",
    b"  expect: 99",
    b"  expect: -1",
    b"  before: import os",
    b"  append: |",
    b"  create: /etc/passwd",
    b"  when: vllm >=",
    b"  <<: *a",
    b"&a !!python/object x",
    b"\t",
)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return Ground.at(tmp_path_factory.mktemp("fuzz"))


@FUZZ
@given(st.data())
def test_a_spoiled_diff_or_mailbox_is_an_error_of_ours_or_a_whole_tree(ground: Ground, data: st.DataObject) -> None:
    strip = data.draw(st.sampled_from([1, 1, 1, 0, 2]))
    root = data.draw(st.sampled_from(["", "", "", "vllm", "a/b"]))
    change = ChangePatch.model_validate({"patch": "x.patch", "strip": strip, "root": root})
    ground.apply(change, data.draw(mangled(ground.texts)))


@FUZZ
@given(mangled([STEPS, *(b"- file" + one for one in STEPS.split(b"- file")[1:])], WORDS))
def test_a_spoiled_rewrite_is_an_error_of_ours_or_a_whole_tree(ground: Ground, folder: Path, text: bytes) -> None:
    (folder / "x.yaml").write_bytes(text)
    try:
        loaded = load_patch(folder)
    except InvalidFile:
        return
    ground.apply(ChangeRewrite.model_validate({"rewrite": "x.yaml"}), text, tuple(loaded.rewrites["x.yaml"]))


@pytest.fixture(scope="module")
def folder(ground: Ground) -> Path:
    """The folder of a patch with that rewrite; what it creates lies beside it."""
    (ground.folder / "patch.yaml").write_text("format: 1\ntitle: t\nchange: [{rewrite: x.yaml}]\n")
    (ground.folder / "new.py").write_text("y = 1\n")
    return ground.folder
