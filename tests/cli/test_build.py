"""The verb `build`: patch, repros before and after, image; and nothing written when one of them is not right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli.run import run
from patchkit.image.overlay import BARE_ROOT
from tests.image.plans import read_back
from tests.workflows.pairs import make_pair
from tests.workflows.worlds import World, engine, make_world

HEALED = f"{BARE_ROOT}/vllm/engine.txt"


def add(world: World, number: int, word: str, above: str = "top") -> str:
    files = {"vllm/engine.txt": engine(number, word, above), "vllm/__init__.py": "", "fault.txt": word}
    return world.upstream.commit(files, f"commit {number}")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose engine lies in the package, with one faulty commit; the current folder is empty."""
    made = make_world(tmp_path / "world")
    for name in ("patches/heal/heal.patch", "issues/fault/repro.py"):
        path = made.folder / name
        path.write_text(path.read_text().replace("engine.txt", "vllm/engine.txt"))
    add(made, 0, "fault")
    made.upstream.tag("v1.0.0")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return made


def build(world: World, *options: str) -> int:
    return run(["-q", "build", str(world.recipe), "--engine", "oci", *options])


def build_json(world: World, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    code = build(world, "--json", *options)
    return code, json.loads(capsys.readouterr().out)


def here() -> list[str]:
    return sorted(path.name for path in Path.cwd().iterdir())


def test_a_build_is_verified_written_and_told(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = build_json(world, capsys)
    assert code == 0
    assert [(one["series"], one["answer"]) for one in document["verdicts"]] == [("without", "bad"), ("with", "good")]
    assert [one["outcome"] for one in document["series"]] == ["clean"]
    image = document["image"]
    assert image["tags"] == [f"product:1.0.0-{document['tree'][:12]}"]
    assert image["archive"] == str(Path.cwd() / "product-1.0.0.oci.tar")
    written = read_back(Path(image["archive"]))
    assert written.index["manifests"][0]["digest"] == image["digest"]
    assert written.read(HEALED).decode() == engine(0, "healed")


def test_people_see_before_and_after_and_what_is_next(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["build", str(world.recipe), "--engine", "oci", "--output", "my image.tar"]) == 0
    out, err = capsys.readouterr()
    rows = [line.split() for line in out.splitlines()]
    assert [row[:3] for row in rows if row[0] == "heal"] == [["heal", "clean", "exact"]]
    assert ["issue", "before", "after", "fidelity", "time", "result"] in rows
    assert [row[:4] for row in rows if row[0] == "fault/read"] == [["fault/read", "bad", "good", "static"]]
    assert "archive my image.tar" in out
    assert "next: docker load -i 'my image.tar'" in err


def test_the_same_recipe_gives_the_same_digest(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    digests = {build_json(world, capsys, "--output", name)[1]["image"]["digest"] for name in ("a.tar", "b.tar")}
    assert len(digests) == 1
    assert Path("a.tar").read_bytes() == Path("b.tar").read_bytes()


def test_a_conflict_exits_1_and_writes_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    add(world, 1, "fault", above="drifted")
    code, document = build_json(world, capsys)
    assert (code, document["image"], document["tree"], document["verdicts"]) == (1, None, None, [])
    assert document["base"]["at"] == "main"
    assert here() == []


def test_a_repro_that_stays_bad_exits_1_and_writes_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    patch = world.folder / "patches/heal/heal.patch"
    patch.write_text(patch.read_text().replace("+healed", "+faulty"))
    code, document = build_json(world, capsys)
    assert (code, document["image"]) == (1, None)
    assert [one["answer"] for one in document["verdicts"]] == ["bad", "bad"]
    assert here() == []


def test_a_repro_that_cannot_tell_exits_125_and_writes_nothing(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    patch = world.folder / "patches/heal/heal.patch"
    patch.write_text(patch.read_text().replace("+healed", "+broken"))
    assert build(world) == 125
    assert "log of fault/read with the series" not in capsys.readouterr().out
    assert here() == []


def test_without_verification_no_repro_runs(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = build_json(world, capsys, "--no-verify")
    assert (code, document["verdicts"], world.runs) == (0, [], [])
    assert here() == ["product-1.0.0.oci.tar"]


def test_another_commit_can_be_built(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    add(world, 1, "fault")
    _, document = build_json(world, capsys, "--at", "v1.0.0")
    assert document["base"]["at"] == "v1.0.0"
    assert read_back(Path(document["image"]["archive"])).read(HEALED).decode() == engine(0, "healed")


@pytest.mark.parametrize("tag", ["Not A Name", "x:{commit}"])
def test_a_wrong_tag_is_told_before_any_repro_runs(world: World, tag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert build(world, "--tag", tag) == 128
    assert "hint:" in capsys.readouterr().err
    assert (world.runs, here()) == ([], [])


def test_tags_of_the_command_line_replace_the_recipe_s(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    _, document = build_json(world, capsys, "--tag", "me/{name}:1", "--tag", "localhost:5000/x:{version}")
    assert document["image"]["tags"] == ["me/product:1", "localhost:5000/x:1.0.0"]


def test_an_archive_cannot_be_asked_of_docker(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["build", str(world.recipe), "--engine", "docker", "--output", "a.tar"]) == 129
    assert "--output" in capsys.readouterr().err


def test_a_matching_lock_goes_into_the_image(world: World) -> None:
    assert build(world, "--locked") == 128
    assert run(["-q", "lock", str(world.recipe)]) == 0
    assert build(world, "--locked") == 0
    written = read_back(Path("product-1.0.0.oci.tar"))
    assert written.read("/opt/patchkit/recipe.lock") == world.recipe.with_name("recipe.lock").read_bytes()
    assert json.loads(written.read("/opt/patchkit/provenance.json"))["lock"]["path"] == "/opt/patchkit/recipe.lock"


def test_a_lock_of_another_commit_does_not(world: World) -> None:
    assert run(["-q", "lock", str(world.recipe)]) == 0
    commit = add(world, 1, "fault")
    assert build(world, "--at", commit, "--output", "a.tar") == 0
    assert "opt/patchkit/recipe.lock" not in read_back(Path("a.tar")).own()


def test_a_lock_whose_tree_the_series_no_longer_gives_is_refused(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["-q", "lock", str(world.recipe)]) == 0
    lock = world.recipe.with_name("recipe.lock")
    tree = next(line for line in lock.read_text().splitlines() if line.startswith("tree: "))
    lock.write_text(lock.read_text().replace(tree, f'tree: "{"0" * 40}"'))
    assert build(world) == 128
    assert "the lock says 000000000000" in capsys.readouterr().err
    assert here() == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--output", ""], ": is a folder"),
        ([], "there is no base image here"),
        (["--engine", "docker"], "the Docker engine does not answer"),
        (["--tag", "A b"], "not the name of an image"),
    ],
)
def test_what_cannot_be_built_is_told_before_a_repro_runs(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    told: str,
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    base = "oci:nope" if "base" in told else "none"
    world.recipe.write_text(f"{world.recipe.read_text()}image: {{base: '{base}'}}\n")
    assert build(world, *options) == 128
    assert told in capsys.readouterr().err
    assert world.runs == []
    assert here() == []


def test_both_upstreams_of_a_pair_go_into_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = make_pair(tmp_path / "pair")
    for name in ("engine", "plugin"):
        path = pair.folder / "patches" / f"{name}-note" / "patch.yaml"
        path.write_text(path.read_text().replace("file: note.txt", f"file: {name}/note.txt"))
    pair.engines("a")
    pair.wants("a")
    monkeypatch.chdir(pair.folder)
    assert run(["-q", "build", str(pair.recipe), "--engine", "oci", "--no-verify", "--json", "--output", "a.tar"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["patch"] for one in document["series"]] == ["plugin-note"]
    assert [one["patch"] for part in document["beside"] for one in part["series"]] == ["engine-note"]
    written = read_back(pair.folder / "a.tar")
    assert written.read(f"{BARE_ROOT}/plugin/note.txt") == b"plugin\n"
    assert written.read(f"{BARE_ROOT}/engine/note.txt") == b"engine\n"
    assert written.read(f"{BARE_ROOT}/engine/names.txt") == b"a"


def test_a_patch_of_the_other_upstream_that_does_not_stand_stops_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = make_pair(tmp_path / "pair")
    pair.engine.commit({"engine/names.txt": "a", "note.txt": "theirs\n"}, "engine: a note of its own")
    pair.wants("a")
    monkeypatch.chdir(pair.folder)
    assert run(["build", str(pair.recipe), "--engine", "oci", "--output", "a.tar"]) == 1
    assert "no image: not all patches stand" in capsys.readouterr().err
    assert not (pair.folder / "a.tar").exists()
