"""A commit that moves a pin brings hundreds of commits of another upstream: the one among them is what people need."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from patchkit.errors import RequestError
from patchkit.report.bisect import event_text
from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.evidence import read_evidence
from patchkit.workflows.bisect import BisectRequest, read_records
from patchkit.workflows.repro import ReproRequest, run_repros
from tests.support.packages import serve_index
from tests.workflows.pairs import PIN, Pair, make_pair


def moved_pins(folder: Path) -> tuple[Pair, list[str], list[str]]:
    """Three pins; the engine loses `b` between the second and the third of them."""
    pair = make_pair(folder)
    engines = pair.engines("a b", "a b c", "a b d", "a b e", "a e", "a e f", "a e g")
    pins = [engines[0], engines[2], engines[6]]
    plugins = [pair.wants("a", pins[0]), pair.wants("a b")]
    plugins += [pair.wants("a b", pins[1]), pair.wants("b a")]
    plugins += [pair.wants("a b", pins[2]), pair.wants("b a"), pair.wants("b")]
    return pair, engines, plugins


def test_a_pin_move_is_drilled_into_and_both_commits_are_named(toolkit: Toolkit, tmp_path: Path) -> None:
    pair, engines, plugins = moved_pins(tmp_path)
    result, events = pair.bisect(toolkit, plugins[0], plugins[-1])
    assert (result["first_bad"], result["last_good"], result["confirmed"]) == (plugins[4], plugins[3], True)
    assert result["pair"]["before"]["commit"] == engines[2]
    assert result["pair"]["culprit"]["commit"] == engines[6]
    assert (result["pair"]["culprit"]["place"], result["pair"]["culprit"]["text"]) == (f"{PIN}:1", engines[6])
    inside = result["inside"]
    assert (inside["upstream"], inside["first_bad"], inside["last_good"]) == ("engine", engines[4], engines[3])
    assert inside["fixed"] == {"upstream": "plugin", "commit": plugins[4]}
    assert inside["culprit"]["subject"] == "engine: a e"
    assert {event["reason"] for event in events if event["event"] == "probe"} <= {"passed", "signature"}
    text = event_text(result)
    assert f"it moves engine from {engines[2][:12]} to {engines[6][:12]} ({PIN}:1" in text
    assert f"inside it, engine, at plugin {plugins[4][:12]}:" in text


def test_each_commit_runs_beside_what_its_own_files_name(toolkit: Toolkit, tmp_path: Path) -> None:
    pair, engines, plugins = moved_pins(tmp_path)
    named = dict(zip(plugins, [engines[0]] * 2 + [engines[2]] * 2 + [engines[6]] * 3, strict=True))
    pair.bisect(toolkit, plugins[0], plugins[-1])
    drilled = {plugins[4]}
    assert {(plugin, engine) for plugin, engine in pair.runs if plugin not in drilled} <= set(named.items())


def test_what_the_commit_itself_changes_is_no_fault_of_its_pin(toolkit: Toolkit, tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    engines = pair.engines("a", "a b", "a b c")
    plugins = [pair.wants("a", engines[0]), pair.wants("a z", engines[2]), pair.wants("z a")]
    result, _ = pair.bisect(toolkit, plugins[0], plugins[-1])
    assert result["first_bad"] == plugins[1]
    assert result["inside"]["first_bad"] is None
    assert result["inside"]["inside"]["fixed"]["commit"] == plugins[0]
    assert "engine alone brings no turn" in result["inside"]["inside"]["note"]
    assert "the other way" in event_text({**result["inside"], "event": "step"})


def test_a_plugin_that_was_adapted_to_the_new_engine_is_searched_beside_its_parent(
    toolkit: Toolkit, tmp_path: Path
) -> None:
    pair = make_pair(tmp_path)
    engines = pair.engines("a old", "a old c", "a c", "a new c")
    # The move also wants `new`, so it is bad beside every engine between; its parent tells when `old` went.
    plugins = [pair.wants("a old", engines[0]), pair.wants("a old new", engines[3]), pair.wants("new old a")]
    result, _ = pair.bisect(toolkit, plugins[0], plugins[-1])
    assert result["first_bad"] == plugins[1]
    second = result["inside"]["inside"]
    assert (second["first_bad"], second["fixed"]["commit"]) == (engines[2], plugins[0])


def test_a_culprit_that_moves_no_pin_is_all_there_is_to_say(toolkit: Toolkit, tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    engines = pair.engines("a b", "a b c")
    plugins = [pair.wants("a", engines[0]), pair.wants("b", engines[1]), pair.wants("z"), pair.wants("a z")]
    result, _ = pair.bisect(toolkit, plugins[0], plugins[-1])
    assert result["first_bad"] == plugins[2]
    assert "inside" not in result
    assert f"with engine {engines[1][:12]} before and after ({PIN}:1)" in event_text(result)


def test_a_pin_that_goes_back_says_where_to_look(toolkit: Toolkit, tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    engines = pair.engines("a", "a b", "a b c")
    plugins = [pair.wants("b", engines[2]), pair.wants("b", engines[0]), pair.wants("b a")]
    result, _ = pair.bisect(toolkit, plugins[0], plugins[-1])
    assert result["first_bad"] == plugins[1]
    assert "between which nothing is new" in result["note"]
    assert f"{engines[0][:12]}..{engines[2][:12]}" in result["note"]


def test_a_commit_without_a_pin_is_told_and_skipped(toolkit: Toolkit, tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    engines = pair.engines("a")
    plugins = [pair.wants("a", engines[0])]
    plugins += [pair.plugin.commit({PIN: None, "plugin/wants.txt": "a  "}, "no pin")]
    plugins += [pair.wants("z", engines[0])]
    result, events = pair.bisect(toolkit, plugins[0], plugins[-1])
    skips = [event for event in events if event.get("answer") == "skip"]
    assert {(event["node"], event["reason"]) for event in skips} == {(plugins[1], "no-pair")}
    assert result["first_bad"] is None
    assert [suspect["node"] for suspect in result["candidates"]] == plugins[1:]


def test_the_release_that_is_named_beside_the_commit_counts_when_asked_for(toolkit: Toolkit, tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    engines = pair.engines("a", "a b")
    pair.engine.tag("v1.0.0", engines[0])
    tag = ".github/engine-release-tag.commit"
    plugins = [pair.wants("a", engines[1], **{tag: "v1.0.0"}), pair.wants("a b"), pair.wants("b a z")]
    newest, _ = pair.bisect(toolkit, plugins[0], plugins[-1])
    release, _ = pair.bisect(toolkit, plugins[0], plugins[-1], pin="release")
    assert (newest["first_bad"], release["first_bad"]) == (plugins[2], plugins[1])


def test_a_release_that_the_mirror_has_no_tag_for_comes_from_the_index(tmp_path: Path, toolkit: Toolkit) -> None:
    pair = make_pair(tmp_path, package="engine")
    pair.engines("a")
    tag = ".github/engine-release-tag.commit"
    with serve_index() as index:
        for version, names in (("1.0", "a b"), ("1.1", "a b"), ("1.2", "a"), ("1.3", "a")):
            index.add("engine", version, {"engine/names.txt": names})
        plugins = [pair.wants("b", **{tag: "v1.0"}), pair.wants("b a", **{tag: "v1.3"}), pair.wants("a b")]
        online = Toolkit(toolkit.cache, env={**toolkit.env, **index.env})
        result, _ = pair.bisect(online, plugins[0], plugins[-1])
    assert result["first_bad"] == plugins[1]
    assert (result["inside"]["axis"], result["inside"]["first_bad"]) == ("releases", "v1.2")


def test_both_trees_carry_their_series_and_a_file_of_either_is_evidence(toolkit: Toolkit, tmp_path: Path) -> None:
    pair, _, plugins = moved_pins(tmp_path)
    script = tmp_path / "issues" / "missing" / "repro.py"
    script.write_text(
        script.read_text().replace(
            'sys.exit("MISS',
            "print((plugin / 'note.txt').read_text(), (engine / 'note.txt').read_text())\nsys.exit(\"MISS",
        )
    )
    _, events = pair.bisect(toolkit, plugins[0], plugins[-1])
    evidence = [read_evidence(Path(event["evidence"])) for event in events if event["event"] == "probe"]
    assert {one.loaded for one in evidence} == {
        ("engine:engine/names.txt", "engine:note.txt", "note.txt", "plugin/wants.txt")
    }
    assert evidence[0].runs[0].output.split()[:2] == ["plugin", "engine"]


def test_repro_takes_the_recipes_own_pair_and_elsewhere_what_the_commit_names(toolkit: Toolkit, tmp_path: Path) -> None:
    pair, engines, plugins = moved_pins(tmp_path)
    own = run_repros(toolkit, ReproRequest(pair.recipe, "git", series="with"))
    assert own.verdicts[0].pair == pair.engine.head()
    named = run_repros(toolkit, ReproRequest(pair.recipe, "git", at=plugins[2], series="with"))
    assert (named.verdicts[0].pair, str(named.verdicts[0].answer)) == (engines[2], "good")


def test_a_recipe_that_pairs_nothing_is_refused(toolkit: Toolkit, tmp_path: Path) -> None:
    pair, _, plugins = moved_pins(tmp_path)
    pair.recipe.write_text(pair.recipe.read_text().replace(", pairs-with: engine", ""))
    with pytest.raises(RequestError, match="pairs the upstream plugin with none"):
        pair.bisect(toolkit, plugins[0], plugins[-1])
    with pytest.raises(RequestError, match="pairs the upstream plugin with none"):
        run_repros(toolkit, ReproRequest(pair.recipe, "git", series="with"))


@pytest.mark.parametrize("finished", [3, 14])
def test_kill_9_anywhere_and_the_same_command_gives_the_same_two_commits(tmp_path: Path, finished: int) -> None:
    pair, engines, plugins = moved_pins(tmp_path)
    words = [
        "bisect",
        str(pair.recipe),
        "--source",
        "git",
        "--good",
        plugins[0],
        "--bad",
        plugins[-1],
        "--axis",
        "pair",
    ]
    command = [sys.executable, "-m", "patchkit", *words, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    seen = [json.loads(process.stdout.readline()) for _ in range(1 + finished)]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["first_bad"] == plugins[4]
    assert events[-1]["inside"]["first_bad"] == engines[4]
    searched = [(event["node"], event["stage"]) for event in [*seen, *events] if event["event"] == "probe"]
    searched = [one for one in searched if one[1] == "search"]
    assert len(searched) == len(set(searched)), "no finished probe is run again"


def test_a_patch_that_moves_the_pin_is_obeyed(toolkit: Toolkit, tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    old, new = pair.engines("a", "a b")
    plugin = pair.wants("b", f"{old}\n")
    pair.wants("b c")
    diff = f"--- a/{PIN}\n+++ b/{PIN}\n@@ -1 +1 @@\n-{old}\n+{new}\n"
    (tmp_path / "patches" / "plugin-note" / "pin.patch").write_text(diff)
    patch = tmp_path / "patches" / "plugin-note" / "patch.yaml"
    patch.write_text("format: 1\ntitle: Another engine\nupstream: plugin\nchange:\n  - {patch: pin.patch}\n")
    report = run_repros(toolkit, ReproRequest(pair.recipe, "git", at=plugin))
    assert [(verdict.series, verdict.pair, str(verdict.answer)) for verdict in report.verdicts] == [
        ("without", old, "bad"),
        ("with", new, "good"),
    ]


def test_a_plugin_that_does_not_start_is_judged_with_its_repair_beside_its_own_engine(
    toolkit: Toolkit, tmp_path: Path
) -> None:
    pair = make_pair(tmp_path)
    engines = pair.engines("a", "a b")

    def wants(name: str, state: str, pin: str = "") -> str:
        return pair.wants(f"a\n{name}\n\n\n{state}\n", pin, **{f"new-{len(plugins)}.txt": "x\n"})

    plugins: list[str] = []
    for name, state, pin in (
        *(("a", "a", engines[0]), ("a", "broken", ""), ("a", "broken", engines[1])),
        *(("z", "broken", ""), ("z", "broken", ""), ("z", "a", ""), ("z", "a", "")),
    ):
        plugins.append(wants(name, state, pin))
    alone, _ = pair.bisect(toolkit, plugins[0], plugins[-1], exhaustive=True)
    assert alone["first_bad"] is None
    assert "--axis pair" in alone["next"]
    assert f"--fix-up={plugins[5]}" in alone["next"]
    result, events = pair.bisect(toolkit, plugins[0], plugins[-1], fix_up=(plugins[5],))
    assert (result["first_bad"], result["confirmed"]) == (plugins[3], True)
    assert (plugins[2], engines[1]) in pair.runs
    assert {tuple(event["fix_up"]) for event in events if event["event"] == "probe"} == {(), (plugins[5],)}


def test_a_pin_move_in_a_hole_is_drilled_into_with_the_repair(toolkit: Toolkit, tmp_path: Path) -> None:
    """The plugin does not start where it moves its pin: the other upstream is searched beside the mended commit."""
    pair = make_pair(tmp_path)
    engines = pair.engines("a b", "a b c", "a c", "a c d")
    plugins: list[str] = []
    for state, pin in (
        *(("a", engines[0]), ("a", ""), ("broken", ""), ("broken", "")),
        *(("broken", engines[3]), ("broken", ""), ("a", ""), ("a", "")),
    ):
        plugins.append(pair.wants(f"a\nb\n\n\n{state}\n", pin, **{f"new-{len(plugins)}.txt": "x\n"}))
    alone, _ = pair.bisect(toolkit, plugins[0], plugins[-1], exhaustive=True)
    assert alone["first_bad"] is None
    assert "--pin" not in alone["next"]
    result, _ = pair.bisect(toolkit, plugins[0], plugins[-1], fix_up=(plugins[6],))
    assert (result["first_bad"], result["confirmed"]) == (plugins[4], True)
    inside = result["inside"]
    assert (inside["first_bad"], inside["confirmed"]) == (engines[2], True)
    assert inside["fixed"] == {"upstream": "plugin", "commit": plugins[4], "fix_up": [plugins[6]]}
    assert f"at plugin {plugins[4][:12]} with {plugins[6][:12]}" in event_text(result)
    request = BisectRequest(pair.recipe, "git", "", plugins[0], plugins[-1], axis="pair", fix_up=(plugins[6],))
    records = read_records(toolkit, request)
    assert len(records) == 2
    assert all(record.replay().is_same for record in records)


def test_the_offer_says_which_pin_counts(toolkit: Toolkit, tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    engines = pair.engines("a", "a b")
    pair.engine.tag("v1.0.0", engines[0])
    tag = ".github/engine-release-tag.commit"
    states = [("a", "a"), ("a", "broken"), ("z", "broken"), ("z", "a")]
    plugins = [
        pair.wants(f"{name}\n\n\n\n{state}\n", engines[1], **{tag: "v1.0.0", f"new-{number}.txt": "x\n"})
        for number, (name, state) in enumerate(states)
    ]
    alone, _ = pair.bisect(toolkit, plugins[0], plugins[-1], pin="release", exhaustive=True)
    assert "--axis pair --source git --pin release" in alone["next"]
