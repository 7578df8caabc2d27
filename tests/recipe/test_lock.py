"""The lock is committed and compared byte for byte: it must read back as it was written, and know when it is old."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.errors import InvalidFile
from patchkit.recipe.load import check_files, load_recipe
from patchkit.recipe.lock import (
    Lock,
    LockedImage,
    LockedPatch,
    LockedPull,
    LockedUpstream,
    dump_lock,
    is_stale,
    lock_digests,
    read_lock,
)
from tests.recipe.files import ISSUE, RECIPE, RECIPE_FILE, write_files, write_library

COMMIT, TREE, SHA = "0123456" + "7" * 33, "1e10" + "0" * 36, "9" * 64


def make_lock(recipe: Path) -> Lock:
    return Lock(
        patchkit="0.1.0",
        upstream={"vllm": LockedUpstream(kind="package", ref="v0.26.0", commit=COMMIT, tree=TREE, archive_sha256=SHA)},
        series=(LockedPatch(patch="guard", sha256=SHA, outcome="rewritten", method="rewrite", files=("vllm/a.py",)),),
        pulls=(LockedPull(upstream="vllm", pull=53055, commit=COMMIT),),
        image=LockedImage(base="vllm/vllm-openai:v0.26.0", digest=f"sha256:{SHA}"),
        tree=TREE,
        tools={"git": "2.39.5", "ast-grep": "0.39"},
        **lock_digests(load_recipe(recipe)),
    )


def test_a_lock_reads_back_as_it_was_written(tmp_path: Path) -> None:
    lock = make_lock(write_library(tmp_path))
    path = tmp_path / "recipe.lock"
    path.write_bytes(dump_lock(lock))
    assert read_lock(path) == lock
    assert dump_lock(read_lock(path) or lock) == path.read_bytes()
    assert check_files((path,)) == ()


def test_ids_and_versions_are_quoted_so_that_every_yaml_reader_keeps_them_text(tmp_path: Path) -> None:
    text = dump_lock(make_lock(write_library(tmp_path))).decode()
    assert f'commit: "{COMMIT}"' in text
    assert f'tree: "{TREE}"' in text  # a float for a YAML 1.2 reader, unless quoted
    assert 'git: "2.39.5"' in text
    assert yaml.safe_load(text)["upstream"]["vllm"]["commit"] == COMMIT


def test_a_lock_is_sorted_and_holds_no_time(tmp_path: Path) -> None:
    recipe = write_library(tmp_path)
    first, second = make_lock(recipe), make_lock(recipe)
    turned = second.model_copy(update={"tools": dict(reversed(second.tools.items()))})
    assert dump_lock(first) == dump_lock(turned)
    keys = [line.split(":")[0] for line in dump_lock(first).decode().splitlines() if line[0].isalpha()]
    assert keys == sorted(keys)


def test_there_is_no_lock_where_there_is_no_file(tmp_path: Path) -> None:
    assert read_lock(tmp_path / "recipe.lock") is None


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (f'commit: "{COMMIT}"', "commit: 0123456", "pulls[0].commit: YAML reads 0123456 as 42798"),
        ("recipe:", "recipee:", "recipe: is missing"),
        ("format: 1", "format: 2", "format: format 2 is not known to this patchkit (knows 1)"),
        ("outcome: rewritten", "outcome: [", "is not YAML: "),
    ],
)
def test_a_corrupt_lock_is_told_at_its_place(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    path = tmp_path / "recipe.lock"
    text = dump_lock(make_lock(write_library(tmp_path))).decode()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InvalidFile) as caught:
        read_lock(path)
    assert all(problem.file == str(path) and problem.line > 0 for problem in caught.value.problems)
    assert any(
        f"{problem.where}: {problem.message}".removeprefix(": ").startswith(complaint)
        for problem in caught.value.problems
    )


def test_a_lock_is_fresh_until_something_that_counts_changes(tmp_path: Path) -> None:
    recipe = write_library(tmp_path)
    lock = make_lock(recipe)
    assert is_stale(lock, load_recipe(recipe)) == ""
    write_files(tmp_path, {RECIPE_FILE: RECIPE + "description: only words\n"})
    assert is_stale(lock, load_recipe(recipe)) == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"patches/guard/new.py": "x = 3\n"}, "patch guard has changed"),
        ({"issues/crash/issue.yaml": ISSUE + "affects: [vllm > 1]\n"}, "issue crash has changed"),
        ({RECIPE_FILE: RECIPE.replace("[guard]", "[]")}, "patch guard is gone"),
        ({RECIPE_FILE: RECIPE.replace("v0.26.0", "v0.27.0")}, "ref of vllm has changed"),
        ({RECIPE_FILE: RECIPE + "pins: {deepgemm: '2'}\n"}, "the recipe has changed"),
        ({RECIPE_FILE: RECIPE.replace("[guard]", "[guard, {pull: 7}]")}, "the recipe has changed"),
        ({"recipes/environments/cpu.txt": "torch==2\n"}, "the recipe has changed"),
    ],
)
def test_a_stale_lock_says_what_has_changed(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    recipe = write_library(tmp_path)
    lock = make_lock(recipe)
    write_files(tmp_path, changes)
    assert is_stale(lock, load_recipe(recipe)) == reason


def test_the_content_of_a_diff_that_the_recipe_names_counts(tmp_path: Path) -> None:
    text = RECIPE.replace("[guard]", "[guard, {file: fix.patch}]")
    recipe = write_library(tmp_path, {RECIPE_FILE: text, "recipes/demo/fix.patch": "one"})
    lock = make_lock(recipe)
    write_files(tmp_path, {"recipes/demo/fix.patch": "two"})
    assert is_stale(lock, load_recipe(recipe)) == "the recipe has changed"


HEX = st.text("0123456789abcdef", min_size=40, max_size=40)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
LOCKS = st.builds(
    Lock,
    patchkit=WORDS,
    recipe=st.just(SHA),
    upstream=st.dictionaries(
        st.sampled_from(["vllm", "vllm-ascend"]),
        st.builds(LockedUpstream, kind=st.sampled_from(["git", "package"]), ref=WORDS, commit=HEX, tree=HEX, git=WORDS),
    ),
    series=st.lists(
        st.builds(
            LockedPatch,
            patch=WORDS,
            sha256=HEX,
            outcome=WORDS,
            method=WORDS,
            files=st.lists(WORDS, max_size=2).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    tree=HEX,
    tools=st.dictionaries(WORDS, WORDS, max_size=3),
)


@settings(max_examples=40, deadline=None)
@given(LOCKS)
def test_whatever_a_lock_holds_reads_back(tmp_path_factory: pytest.TempPathFactory, lock: Lock) -> None:
    path = tmp_path_factory.getbasetemp() / "any.lock"
    path.write_bytes(dump_lock(lock))
    assert read_lock(path) == lock


def test_a_lock_that_has_the_old_name_of_an_archives_digest_is_read(tmp_path: Path) -> None:
    lock = make_lock(write_library(tmp_path))
    path = tmp_path / "recipe.lock"
    path.write_bytes(dump_lock(lock).replace(b"archive-sha256", b"sdist-sha256"))
    assert b"sdist-sha256" in path.read_bytes()
    assert read_lock(path) == lock
