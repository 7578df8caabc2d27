"""A recipe is loaded whole or not at all, and nothing that it names leaves the folder it belongs to."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchkit.errors import InvalidFile, RequestError
from patchkit.recipe.library import LoadedRecipe
from patchkit.recipe.load import check_files, load_issue, load_patch, load_recipe
from patchkit.recipe.model import RewriteCreate, RewriteReplace
from tests.recipe.files import (
    ISSUE,
    PATCH,
    RECIPE,
    RECIPE_FILE,
    REWRITE,
    complaints_of,
    write_files,
    write_library,
)

PATCH_FILE, ISSUE_FILE = "patches/guard/patch.yaml", "issues/crash/issue.yaml"


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


def test_a_recipe_is_loaded_with_everything_that_it_names(tmp_path: Path) -> None:
    loaded = load_recipe(write_library(tmp_path))
    assert loaded.recipe.name == "demo"
    assert loaded.root == tmp_path
    assert list(loaded.patches) == ["guard"]
    steps = loaded.patches["guard"].rewrites["guard.yaml"]
    assert [type(step) for step in steps] == [RewriteReplace, RewriteCreate]
    assert [(issue.slug, repro.name) for issue, repro in loaded.selected] == [("crash", "static"), ("crash", "stubbed")]
    assert loaded.requirements("cpu") == tmp_path / "recipes/environments/cpu.txt"
    assert loaded.own_requirements is None


def test_one_repro_of_an_issue_can_be_named(tmp_path: Path) -> None:
    recipe = write_library(tmp_path, {RECIPE_FILE: changed(RECIPE, "[crash]", "[crash/stubbed, crash/stubbed]")})
    assert [repro.name for _, repro in load_recipe(recipe).selected] == ["stubbed"]


def test_a_recipe_can_be_named_by_its_folder_and_by_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = write_library(tmp_path)
    assert load_recipe(recipe.parent).path == recipe
    monkeypatch.chdir(recipe.parent)
    assert load_recipe(Path("recipe.yaml")).path == recipe
    assert load_recipe(Path("recipe.yaml")).root == tmp_path


def test_messages_show_paths_relative_to_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = write_library(tmp_path, {RECIPE_FILE: "format: 2\n", "elsewhere/x": ""})
    for folder, expected in ((tmp_path, RECIPE_FILE), (recipe.parent, "recipe.yaml")):
        monkeypatch.chdir(folder)
        with pytest.raises(InvalidFile) as caught:
            load_recipe(recipe)
        assert caught.value.problems[0].file == expected
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(InvalidFile) as caught:
        load_recipe(Path("..") / RECIPE_FILE)
    assert caught.value.problems[0].file == f"../{RECIPE_FILE}"


def test_a_recipe_that_does_not_exist_is_no_invalid_file(tmp_path: Path) -> None:
    for path in (tmp_path / "nope", tmp_path, Path("no-such-recipe")):
        with pytest.raises(RequestError, match=r"there is no such recipe|holds no recipe\.yaml") as caught:
            load_recipe(path)
        assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (RECIPE_FILE, changed(RECIPE, "[guard]", "[gaurd]"), "5:10: series[0]: there is no patch gaurd"),
        (RECIPE_FILE, changed(RECIPE, "[guard]", "[{patch: gaurd}]"), "5:18: series[0].patch: there is no patch gaurd"),
        (
            RECIPE_FILE,
            changed(RECIPE, "[guard]", "[guard, guard]"),
            "5:17: series[1]: guard stands twice in the series",
        ),
        (RECIPE_FILE, changed(RECIPE, "[crash]", "[crush]"), "6:10: issues[0]: there is no issue crush"),
        (RECIPE_FILE, changed(RECIPE, "[crash]", "[crash/x]"), "6:10: issues[0]: crash has no repro x"),
        (
            RECIPE_FILE,
            changed(RECIPE, "ref: v0.26.0", "ref: v0.26.0, pairs-with: vllm"),
            "4:51: upstream.vllm.pairs-with: vllm is no other upstream of this recipe",
        ),
        (
            RECIPE_FILE,
            changed(RECIPE, "[guard]", "[guard, {pull: 1, when: vlm > 1}]"),
            "5:33: series[1].when: nobody knows a version of vlm",
        ),
        (
            RECIPE_FILE,
            RECIPE + "environment: {requirements: nope.txt}\n",
            "7:29: environment.requirements: there is no file nope.txt in recipes/demo",
        ),
        (
            RECIPE_FILE,
            changed(RECIPE, "[guard]", "[guard, {file: ../../../x.patch}]"),
            "5:24: series[1].file: ../../../x.patch leads out of ",
        ),
        (PATCH_FILE, changed(PATCH, "guard.yaml", "gone.yaml"), "6:36: change[0].rewrite: there is no file gone.yaml"),
        (
            PATCH_FILE,
            changed(PATCH, ": new.py", ": ../../x"),
            "7:33: change[1].source: ../../x leads out of patches/guard",
        ),
        (
            PATCH_FILE,
            changed(PATCH, ": new.py", ": /etc/passwd"),
            "7:33: change[1].source: '/etc/passwd' must be a relative",
        ),
        (
            PATCH_FILE,
            changed(PATCH, "vllm/new.py", "vllm/../../x"),
            "7:12: change[1].file: must be a path of the upstream tree",
        ),
        (
            PATCH_FILE,
            changed(PATCH, "vllm/new.py", ".GIT/x"),
            "7:12: change[1].file: must be a path of the upstream tree",
        ),
        (
            PATCH_FILE,
            changed(PATCH, "vllm < 0.30", "vllm < "),
            "6:12: change[0].when: condition, column 8: expected a value",
        ),
        (PATCH_FILE, changed(PATCH, "vllm >= 0.26", "vlm >= 0.26"), "4:7: when: nobody knows a version of vlm"),
        (PATCH_FILE, changed(PATCH, "[crash]", "[crush]"), "3:9: issue[0]: there is no issue crush"),
        (PATCH_FILE, PATCH + "requires: [gurd]\n", "8:12: requires[0]: there is no patch gurd"),
        (PATCH_FILE, PATCH + "upstream-status: Merged\n", "8:18: upstream-status: must begin with one of Pending"),
        (
            PATCH_FILE,
            PATCH + "remove-when: merged(x)\n",
            "8:14: remove-when: condition, column 8: 'x' is not the number",
        ),
        (
            "patches/guard/guard.yaml",
            changed(REWRITE, "match", "mach"),
            "1:3: [0]: needs one of the keys match, import, insert, append, create",
        ),
        (
            "patches/guard/guard.yaml",
            changed(REWRITE, "create: new", "create: old"),
            "2:29: [1].create: there is no file old.py",
        ),
        ("patches/guard/guard.yaml", "- {file: a, insert: x}\n", "1:3: [0]: needs exactly one of `after` and `before`"),
        ("patches/guard/guard.yaml", "[]\n", "1:1: needs at least 1 entry"),
        (
            ISSUE_FILE,
            changed(ISSUE, '"Unsupported architecture"', "'('"),
            "3:12: signature: is not a regular expression",
        ),
        (
            ISSUE_FILE,
            changed(ISSUE, '"Unsupported architecture"', "'[[a]'"),
            "3:12: signature: is not a regular expression",
        ),
        (ISSUE_FILE, ISSUE + "log-signatures: ['a', '*']\n", "7:23: log-signatures[1]: is not a regular expression"),
        (
            ISSUE_FILE,
            changed(ISSUE, "environment: cpu", "environment: cup"),
            "6:72: repros[1].environment: there is no environment",
        ),
        (
            ISSUE_FILE,
            changed(ISSUE, "name: stubbed", "name: static"),
            "6:12: repros[1].name: there is another repro static at line 5",
        ),
        (ISSUE_FILE, ISSUE + "affects: [vllm]\n", "7:11: affects[0]: condition, column 5: expected one of =="),
        (ISSUE_FILE, ISSUE + "expects: {without: bad, wit: good}\n", "7:25: expects.wit: unknown key"),
    ],
)
def test_what_is_wrong_in_any_file_of_a_recipe_is_told_at_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, complaint: str
) -> None:
    recipe = write_library(tmp_path, {name: text, "../x.patch": "", "x": ""})
    monkeypatch.chdir(tmp_path)
    (told,) = complaints_of(recipe, tmp_path)
    assert told.startswith(f"{name}:{complaint}")


def test_problems_of_several_files_are_told_together_file_by_file(tmp_path: Path) -> None:
    recipe = write_library(
        tmp_path,
        {
            RECIPE_FILE: RECIPE + "wrong: 1\nimage: {bas: x}\n",
            PATCH_FILE: changed(PATCH, "title", "titel"),
            ISSUE_FILE: "format: 3\n",
        },
    )
    assert [line.rsplit(": ", 1)[0] for line in complaints_of(recipe, tmp_path)] == [
        "recipes/demo/recipe.yaml:7:1: wrong",
        "recipes/demo/recipe.yaml:8:9: image.bas",
        "patches/guard/patch.yaml:1:1: title",
        "patches/guard/patch.yaml:2:1: titel",
        "issues/crash/issue.yaml:1:9: format",
    ]


def test_a_required_patch_must_stand_before_in_the_series(tmp_path: Path) -> None:
    second = {"patches/second/patch.yaml": "format: 1\ntitle: t\nrequires: [guard]\nchange: [{pull: 1}]\n"}
    for series, hint in (("[second, guard]", "move guard up"), ("[second]", "add guard before it")):
        recipe = write_library(tmp_path, {**second, RECIPE_FILE: changed(RECIPE, "[guard]", series)})
        with pytest.raises(InvalidFile) as caught:
            load_recipe(recipe)
        (problem,) = caught.value.problems
        assert (problem.line, problem.column, problem.where, problem.hint) == (5, 10, "series[0]", hint)
        assert problem.message == "second needs guard before it in the series"
    recipe = write_library(tmp_path, {**second, RECIPE_FILE: changed(RECIPE, "[guard]", "[guard, second]")})
    assert list(load_recipe(recipe).patches) == ["guard", "second"]


def test_a_patch_or_issue_of_another_upstream_is_told(tmp_path: Path) -> None:
    recipe = write_library(tmp_path, {RECIPE_FILE: changed(RECIPE, "vllm:", "other:")})
    assert complaints_of(recipe, tmp_path) == [
        f"{RECIPE_FILE}:5:10: series[0]: guard patches vllm, which is no upstream of this recipe",
        f"{RECIPE_FILE}:6:10: issues[0]: crash is about vllm, which is no upstream of this recipe",
    ]


def test_a_symlink_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    recipe = write_library(tmp_path, {"secret": "x"})
    for name in ("patches/guard/new.py", "issues/crash/data"):
        (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / name).symlink_to(tmp_path / "secret")
    told = complaints_of(recipe, tmp_path)
    assert len(told) == 3  # the patch names the file twice
    assert sum("leads out of patches/guard" in line.replace(f"{tmp_path}/", "") for line in told) == 2
    assert any("issues/crash/data: is a symbolic link out of" in line for line in told)


def test_a_slug_cannot_climb_out_of_the_library(tmp_path: Path) -> None:
    recipe = write_library(
        tmp_path, {RECIPE_FILE: changed(changed(RECIPE, "[guard]", "['..']"), "[crash]", "['../crash']")}
    )
    assert [line.split(" must")[0] for line in complaints_of(recipe, tmp_path)] == [
        f"{RECIPE_FILE}:5:10: series[0]: '..'",
        f"{RECIPE_FILE}:6:10: issues[0]: '../crash'",
    ]


@pytest.mark.parametrize("name", [RECIPE_FILE, PATCH_FILE, ISSUE_FILE, "patches/guard/guard.yaml"])
def test_a_file_that_is_a_folder_is_told_and_not_opened(tmp_path: Path, name: str) -> None:
    recipe = write_library(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(RequestError):
        load_recipe(recipe)


def test_a_pipe_in_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    recipe = write_library(tmp_path)
    (tmp_path / PATCH_FILE).unlink()
    os.mkfifo(tmp_path / PATCH_FILE)
    assert complaints_of(recipe, tmp_path) == [f"{PATCH_FILE}: is not a file"]


# --- digests ---------------------------------------------------------------------------------------------------------


def digests(loaded: LoadedRecipe) -> tuple[str, str]:
    return loaded.patches["guard"].sha256, loaded.issues["crash"].sha256


def test_digests_cover_what_counts_and_nothing_else(tmp_path: Path) -> None:
    recipe = write_library(tmp_path)
    patch, issue = digests(load_recipe(recipe))
    noise = (
        "patches/guard/README.md",
        "patches/guard/__pycache__/x.pyc",
        "issues/crash/__pycache__/x.pyc",
        "issues/crash/.x",
    )
    write_files(tmp_path, dict.fromkeys(noise, "x"))
    assert digests(load_recipe(recipe)) == (patch, issue)
    write_files(tmp_path, {"patches/guard/new.py": "x = 2\n"})
    assert digests(load_recipe(recipe))[0] != patch
    write_files(tmp_path, {"issues/crash/helper.py": ""})
    assert digests(load_recipe(recipe))[1] != issue


def test_digests_are_the_same_on_every_machine(tmp_path: Path) -> None:
    first = digests(load_recipe(write_library(tmp_path / "one")))
    assert digests(load_recipe(write_library(tmp_path / "other" / "place"))) == first
    assert first[0] == "d31183f553a9663a66e62c56a50fecfbf951d8ea289b090d350f72426f2e904a"
    assert first[1] == "fbf5265c51793ef94ebbb49c5487bd9f74ccee2a87722fd89433394d47e46a91"


# --- include ---------------------------------------------------------------------------------------------------------


def test_lists_append_mappings_merge_and_scalars_override(tmp_path: Path) -> None:
    base = "format: 1\ndescription: base\npins: {a: '1', b: '1'}\nseries: [{pull: 1}]\n"
    base += "upstream: {vllm: {git: g, ref: v0}}\n"
    text = RECIPE + "include: ../base.yaml\npins: {b: '2'}\n"
    recipe = load_recipe(write_library(tmp_path, {"recipes/base.yaml": base, RECIPE_FILE: text})).recipe
    assert recipe.description == "base"
    assert recipe.pins == {"a": "1", "b": "2"}
    assert [getattr(entry, "pull", entry) for entry in recipe.series] == [1, "guard"]
    assert (recipe.upstream["vllm"].git, recipe.upstream["vllm"].ref) == ("g", "v0.26.0")


def test_problems_of_an_included_file_are_told_in_that_file(tmp_path: Path) -> None:
    base = "format: 1\npins:\n  a: 1.10\nseries: [nope]\n"
    recipe = write_library(tmp_path, {"recipes/base.yaml": base, RECIPE_FILE: RECIPE + "include: ../base.yaml\nx: 1\n"})
    assert complaints_of(recipe, tmp_path) == [
        f"{RECIPE_FILE}:8:1: x: unknown key",
        "recipes/base.yaml:3:6: pins.a: YAML reads 1.10 as 1.1",
        "recipes/base.yaml:4:10: series[0]: there is no patch nope",
    ]


def test_paths_of_an_included_file_stay_relative_to_it(tmp_path: Path) -> None:
    files = {
        "recipes/shared/base.yaml": "format: 1\nseries: [{file: own.patch}]\n"
        "environment: {requirements: ../environments/cpu.txt}\n",
        "recipes/shared/own.patch": "",
        RECIPE_FILE: RECIPE + "include: ../shared/base.yaml\n",
    }
    loaded = load_recipe(write_library(tmp_path, files))
    entry = loaded.recipe.series[0]
    assert not isinstance(entry, str)
    assert (loaded.folder / getattr(entry, "file")).resolve() == tmp_path / "recipes/shared/own.patch"  # noqa: B009
    assert loaded.own_requirements is not None
    assert loaded.own_requirements.resolve() == tmp_path / "recipes/environments/cpu.txt"


def test_includes_in_a_circle_are_refused_with_the_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        RECIPE_FILE: RECIPE + "include: ../a.yaml\n",
        "recipes/a.yaml": "format: 1\ninclude: b.yaml\n",
        "recipes/b.yaml": "format: 1\ninclude: a.yaml\n",
    }
    recipe = write_library(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    circle = "recipes/a.yaml → recipes/b.yaml → recipes/a.yaml"
    assert complaints_of(recipe, tmp_path) == [f"recipes/b.yaml:2:10: include: goes in a circle: {circle}"]


@pytest.mark.parametrize(
    ("include", "complaint"),
    [
        ("../../../x.yaml", "../../../x.yaml leads out of the current folder"),
        ("/etc/passwd", "'/etc/passwd' must be a relative path"),
        ("../gone.yaml", "there is no file ../gone.yaml in recipes/demo"),
        ("x" * 300, f"{'x' * 300} cannot be read: "),
    ],
)
def test_an_include_stays_inside_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, include: str, complaint: str
) -> None:
    recipe = write_library(tmp_path, {RECIPE_FILE: RECIPE + f"include: {include}\n", "../x.yaml": RECIPE})
    monkeypatch.chdir(tmp_path)
    (told,) = complaints_of(recipe, tmp_path)
    assert told.startswith(f"{RECIPE_FILE}:7:10: include: {complaint}")


def test_an_included_file_of_an_unknown_format_is_refused_alone(tmp_path: Path) -> None:
    files = {"recipes/base.yaml": "format: 9\nzzz: 1\n", RECIPE_FILE: RECIPE + "include: ../base.yaml\n"}
    assert complaints_of(write_library(tmp_path, files), tmp_path) == [
        "recipes/base.yaml:1:9: format: format 9 is not known to this patchkit (knows 1)"
    ]


# --- single folders, and check ---------------------------------------------------------------------------------------


def test_patch_and_issue_folders_load_on_their_own(tmp_path: Path) -> None:
    write_library(tmp_path)
    assert load_patch(tmp_path / "patches/guard").patch.title == "Guard the call"
    issue = load_issue(tmp_path / "issues/crash")
    assert [repro.name for repro in issue.issue.repros] == ["static", "stubbed"]


def test_an_issue_alone_means_the_repros_that_the_recipe_selects(tmp_path: Path) -> None:
    write_library(tmp_path)
    loaded = load_recipe(tmp_path / RECIPE_FILE)
    assert loaded.repros_named("crash") == loaded.selected
    assert [repro.environment for _, repro in loaded.repros_named("crash/stubbed")] == ["cpu"]
    for name, message in (("crash/nope", "no repro named nope"), ("fire", "no issue named fire")):
        with pytest.raises(RequestError, match=message):
            loaded.repros_named(name)


def test_a_repro_that_needs_a_gpu_runs_only_when_it_is_named(tmp_path: Path) -> None:
    gpu = "  - {name: gpu, fidelity: needs-gpu, script: static.py}\n"
    loaded = load_recipe(write_library(tmp_path, {"issues/crash/issue.yaml": ISSUE + gpu}))
    assert [repro.name for _, repro in loaded.selected] == ["static", "stubbed"]
    assert [repro.name for _, repro in loaded.repros_named("crash/gpu")] == ["gpu"]
    alone = ISSUE[: ISSUE.index("  - {name: static")] + gpu
    loaded = load_recipe(write_library(tmp_path, {"issues/crash/issue.yaml": alone}))
    assert [repro.name for _, repro in loaded.repros_named("crash")] == ["gpu"]


def test_check_reads_files_folders_and_folders_of_folders_once(tmp_path: Path) -> None:
    write_library(tmp_path, {"patches/guard/guard.yaml": "- {file: a}\n"})
    one = check_files((tmp_path / "patches/guard/guard.yaml",))
    assert [problem.where for problem in one] == ["[0]"]
    assert check_files((tmp_path,)) == one
    assert check_files((tmp_path / "patches", tmp_path / "patches/guard", tmp_path / RECIPE_FILE)) == one
    assert check_files((tmp_path / ISSUE_FILE, tmp_path / "issues")) == ()


def test_check_tells_the_kind_of_a_file_by_its_keys(tmp_path: Path) -> None:
    write_files(tmp_path, {"mine.yaml": RECIPE, "other.yaml": "a: 1\n"})
    assert {problem.where for problem in check_files((tmp_path / "mine.yaml",))} == {"series[0]", "issues[0]"}
    (problem,) = check_files((tmp_path / "other.yaml",))
    assert problem.message == "is no recipe, patch, issue or rewrite file"


def test_check_refuses_paths_at_which_there_is_nothing(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone.yaml", tmp_path / ("x" * 300)):
        with pytest.raises(RequestError):
            check_files((path,))


# --- anything at all -------------------------------------------------------------------------------------------------

SNIPPETS = st.sampled_from(
    [
        *"\n :[]{},-'\"|&*!?#<\0\té~",
        *("  ", "12", "no", "<pull>", "[key]", "format: 1\n", "name: x\n", "upstream: {vllm: {git: x, ref: v1}}\n"),
        *("series:", "issues: [crash]", "include: ../a.yaml\n", "when: vllm > 1", "file: x", "pull: 1"),
        *("change:\n", "repros:\n", "signature: (", "script: ../x", "rewrite: guard.yaml", "environment: cpu"),
    ]
)
ANYTHING = st.one_of(st.binary(max_size=80), st.lists(SNIPPETS, max_size=25).map(lambda parts: "".join(parts).encode()))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([RECIPE_FILE, PATCH_FILE, ISSUE_FILE, "patches/guard/guard.yaml"]), ANYTHING)
def test_no_text_makes_loading_fail_otherwise_than_as_an_invalid_file(tmp_path: Path, name: str, data: bytes) -> None:
    recipe = write_library(tmp_path, {name: data})
    with contextlib.suppress(InvalidFile):
        assert load_recipe(recipe).recipe.format == 1
    assert all(problem.file and problem.message for problem in check_files((tmp_path,)))


@pytest.mark.parametrize(
    ("path", "message", "hint"),
    [
        ("recipes/demo", None, None),
        ("recipes", "holds no recipe.yaml", "give a file"),
        ("recipes/demo/recpe.yaml", "there is no such recipe", "did you mean recipe.yaml?"),
        ("patches/guard", "patch.yaml: is a patch, not a recipe", "add guard to the series of a recipe"),
        (PATCH_FILE, "patch.yaml: is a patch, not a recipe", "add guard to the series of a recipe"),
        (ISSUE_FILE, "issue.yaml: is an issue, not a recipe", "add crash to the issues of a recipe"),
        ("extra", "holds no recipe.yaml", "name a file: "),
    ],
)
def test_what_is_no_recipe_is_told_with_what_was_meant(
    tmp_path: Path, path: str, message: str | None, hint: str | None
) -> None:
    write_library(tmp_path, {"extra/mine.yaml": RECIPE})
    if message is None or hint is None:
        assert load_recipe(tmp_path / path).recipe.name == "demo"
        return
    with pytest.raises(RequestError) as caught:
        load_recipe(tmp_path / path)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_check_tells_a_missing_file_as_such_and_names_its_neighbour(tmp_path: Path) -> None:
    write_library(tmp_path)
    with pytest.raises(RequestError, match="there is no such file or folder") as caught:
        check_files((tmp_path / "patches/guard/pach.yaml",))
    assert caught.value.hint.startswith("did you mean patch.yaml")


def test_a_recipe_under_another_name_is_read_as_one_however_wrong_it_is(tmp_path: Path) -> None:
    write_files(tmp_path, {"patches/x": "", "mine.yaml": "format: 1\nname: mine\nupstream: vllm\n"})
    (problem,) = check_files((tmp_path / "mine.yaml",))
    assert (problem.line, problem.where, problem.message) == (3, "upstream", "must be a mapping, not text")
