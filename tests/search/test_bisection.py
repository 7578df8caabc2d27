from __future__ import annotations

import math
import random
import statistics
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.search import Answer, Contradiction, Costs, Probe, Settings, build_chain, build_graph, decide, fold, spent
from patchkit.search.exact import bisection
from tests.search.oracle import World, ancestors, chain, search, worlds

TO_THE_END = Settings(least_bits=0)
ENDS = [{"event": "probe", "node": "c8", "answer": "bad"}, {"event": "probe", "node": "good", "answer": "good"}]


@given(worlds(skips=False))
def test_without_skips_the_answer_is_the_culprit_and_confirmed(world: World) -> None:
    answer = search(world).decision
    assert isinstance(answer, Answer)
    assert (answer.first_bad, answer.confirmed) == (world.culprit, True)


@settings(max_examples=300)
@given(worlds(skips=True))
def test_whatever_is_skipped_the_turn_is_among_the_suspects(world: World) -> None:
    answer = search(world).decision
    assert isinstance(answer, Answer)
    suspects = {candidate.node for candidate in answer.candidates}
    assert world.culprit in suspects
    assert set(answer.skipped) <= suspects & set(world.broken)
    assert math.isclose(sum(candidate.probability for candidate in answer.candidates), 1)


@settings(max_examples=300)
@given(worlds(skips=True))
def test_a_set_of_suspects_is_as_small_as_testing_every_commit_would_make_it(world: World) -> None:
    answer = search(world, TO_THE_END).decision
    everything = set(world.parents) & ancestors(world.parents, world.bad)
    for node in everything - set(world.broken):
        below = ancestors(world.parents, node)
        everything_left = below if world.culprit in below else set(world.parents) - below
        everything &= everything_left
    assert isinstance(answer, Answer)
    assert {candidate.node for candidate in answer.candidates} == everything


def test_a_hole_that_is_not_worth_a_probe_is_left_and_said_to_be_that() -> None:
    world = World(chain(400), "c400", "c220", frozenset(f"c{at}" for at in range(200, 260)))
    answer = search(world).decision
    assert isinstance(answer, Answer)
    assert answer.untested > 0
    assert f"{answer.untested} of the {len(answer.candidates)} suspects are untested" in answer.detail
    whole = search(World(world.parents, world.bad, world.culprit, world.broken), TO_THE_END)
    assert isinstance(whole.decision, Answer)
    assert (whole.decision.untested, len(whole.decision.candidates)) == (0, 61)
    assert len(world.asked) < whole.searched - 40


def test_probes_at_once_test_a_small_hole_to_its_end_and_leave_a_large_one() -> None:
    small = World(chain(400), "c400", "c220", frozenset(f"c{at}" for at in range(200, 230)))
    large = World(chain(1000), "c1000", "c420", frozenset(f"c{at}" for at in range(400, 600)))
    whole, left = (search(world, Settings(slots=4)).decision for world in (small, large))
    assert isinstance(whole, Answer)
    assert isinstance(left, Answer)
    assert (whole.untested, len(whole.candidates)) == (0, 31)
    assert left.untested > 100


@given(worlds(skips=True))
def test_skips_that_are_known_are_never_run_and_the_answer_is_as_if_they_had_been(world: World) -> None:
    known = Settings(least_bits=0, known_skips=dict.fromkeys(world.broken, "conflict"))
    outcome = search(World(world.parents, world.bad, world.culprit, world.broken), known)
    tried = search(world, TO_THE_END).decision
    assert not {event["node"] for event in outcome.events} & set(world.broken)
    assert isinstance(outcome.decision, Answer)
    assert isinstance(tried, Answer)
    assert {one.node for one in outcome.decision.candidates} == {one.node for one in tried.candidates}


@settings(max_examples=100)
@given(worlds(skips=True), st.integers(2, 5))
def test_probes_at_once_find_what_one_after_the_other_finds(world: World, slots: int) -> None:
    alone, together = search(world, TO_THE_END).decision, search(world, Settings(slots=slots, least_bits=0)).decision
    assert isinstance(alone, Answer)
    assert isinstance(together, Answer)
    assert [c.node for c in alone.candidates] == [c.node for c in together.candidates]


@given(worlds(skips=True), st.randoms(use_true_random=False))
def test_results_that_come_in_any_order_lead_to_the_same_answer(world: World, rng: random.Random) -> None:
    graph, events, running, fresh = world.graph, [], [], {}
    for _ in range(4 * len(graph.nodes) + 20):
        decision = decide(graph, fold(events), Settings(slots=3), running)
        if not isinstance(decision, Probe):
            break
        fresh |= dict.fromkeys(decision.nodes, decision.fresh)
        running += decision.nodes
        ended = running.pop(rng.randrange(len(running)))
        events.append(world.event(ended, fresh[ended]))
    alone = search(World(world.parents, world.bad, world.culprit, world.broken), TO_THE_END).decision
    assert isinstance(decision, Answer)
    assert isinstance(alone, Answer)
    assert [c.node for c in decision.candidates] == [c.node for c in alone.candidates]


@given(worlds(skips=True))
def test_no_node_is_searched_twice_and_a_replay_decides_the_same(world: World) -> None:
    outcome = search(world)
    searched = [event["node"] for event in outcome.events if not event["fresh"]]
    assert len(searched) == len(set(searched))
    graph, replayed = world.graph, 0
    while replayed < len(outcome.events):
        decision = decide(graph, fold(outcome.events[:replayed]))
        assert isinstance(decision, Probe)
        assert list(decision.nodes) == [
            event["node"] for event in outcome.events[replayed : replayed + len(decision.nodes)]
        ]
        replayed += len(decision.nodes)


@given(worlds(skips=False, most=60))
def test_without_skips_each_probe_is_as_even_a_split_as_git_would_choose(world: World) -> None:
    events: list[dict[str, object]] = [world.event(world.bad), world.event("good")]
    while isinstance(decision := decide(world.graph, fold(events), Settings(confirmations=0)), Probe):
        bad = [e["node"] for e in events if e["answer"] == "bad"]
        good = [e["node"] for e in events if e["answer"] == "good"]
        left = set.intersection(*(ancestors(world.parents, str(node)) for node in bad))
        left -= set().union(*(ancestors(world.parents, str(node)) for node in good))
        evenness = {
            node: min(len(reach := ancestors(world.parents, node) & left), len(left) - len(reach)) for node in left
        }
        assert evenness[decision.nodes[0]] == max(evenness.values())
        events.append(world.event(decision.nodes[0]))


def test_a_probe_is_explained_by_its_bits_and_by_how_likely_the_node_is_bad() -> None:
    decision = decide(World(chain(8), "c8", "c3").graph, fold(ENDS), Settings(slots=2))
    assert isinstance(decision, Probe)
    assert list(decision.explanations) == list(decision.nodes)
    thirds = (3 / 8, 3 / 8, 2 / 8)  # two probes at once cut eight suspects into three and three and two
    bits = sum(one.gain_bits for one in decision.explanations.values())
    assert math.isclose(bits, -sum(part * math.log2(part) for part in thirds))
    assert sorted(one.bad_mass for one in decision.explanations.values()) in (
        [2 / 8, 5 / 8],
        [3 / 8, 5 / 8],
        [3 / 8, 6 / 8],
    )
    assert all(one.skip_odds == 0 for one in decision.explanations.values())


def test_a_chain_of_a_thousand_takes_log2_probes() -> None:
    parents = chain(1000)
    counts = [search(World(parents, "c1000", f"c{at}"), Settings(confirmations=0)).searched for at in range(1, 1001, 7)]
    assert statistics.mean(counts) <= math.log2(1000) + 0.1
    assert max(counts) <= 10


@pytest.mark.parametrize(("slots", "bar"), [(2, 6.8), (4, 4.9), (8, 3.8)])
def test_probes_at_once_save_rounds(slots: int, bar: float) -> None:
    parents = chain(1000)
    culprits = random.Random(slots).sample(range(1, 1001), 60)
    rounds = [search(World(parents, "c1000", f"c{at}"), Settings(slots, confirmations=0)).rounds for at in culprits]
    assert statistics.mean(rounds) <= bar


def test_a_hole_of_broken_commits_is_left_behind_in_a_few_probes() -> None:
    broken = frozenset(f"c{at}" for at in range(400, 600))
    counts = []
    for culprit in (100, 250, 390, 610, 800, 950):
        world = World(chain(1000), "c1000", f"c{culprit}", broken)
        assert search(world, Settings(confirmations=0)).decision.first_bad == f"c{culprit}"
        counts.append(sum(node in broken for node in world.asked))
    assert max(counts) <= 7


def test_one_decision_on_ten_thousand_commits_takes_no_time_that_a_person_notices() -> None:
    rng = random.Random(10)
    parents: dict[str, tuple[str, ...]] = {"c0": ("good",)}
    for number in range(1, 10_014):
        side = (f"c{rng.randrange(max(0, number - 50), number)}",) if rng.random() < 0.3 else ()
        parents[f"c{number}"] = (f"c{number - 1}", *side)
    graph = World(parents, "c10013", "c77").graph
    state = fold(
        [{"event": "probe", "node": "c10013", "answer": "bad"}, {"event": "probe", "node": "good", "answer": "good"}]
    )
    started = time.process_time()
    decide(graph, state)
    assert time.process_time() - started < 0.3  # a tenth of a second on an idle machine


def test_both_ends_come_first_the_bad_one_before_the_good_one() -> None:
    graph = World(chain(8), "c8", "c3").graph
    first = decide(graph, fold([]))
    assert isinstance(first, Probe)
    assert (first.nodes, first.stage) == (("c8",), "ends")
    both = decide(graph, fold([]), Settings(slots=4))
    assert isinstance(both, Probe)
    assert both.nodes == ("c8", "good")
    waiting = decide(graph, fold([]), Settings(slots=4), running=("c8", "good"))
    assert isinstance(waiting, Probe)
    assert waiting.nodes == ()


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([{"event": "probe", "node": "c8", "answer": "good"}], "the bad end c8 is good: nothing to find"),
        ([ENDS[0], {"event": "probe", "node": "good", "answer": "bad"}], "the good end good is bad: nothing to find"),
        (
            [{"event": "probe", "node": "c8", "answer": "skip", "reason": "build-failed"}],
            "the bad end c8 cannot be told: build-failed",
        ),
        (
            [
                *ENDS,
                {"event": "probe", "node": "c4", "answer": "bad"},
                {"event": "probe", "node": "c6", "answer": "good"},
            ],
            "c4 is bad, but its descendant c6 is good",
        ),
        (
            [
                *ENDS,
                {"event": "probe", "node": "c4", "answer": "bad"},
                {"event": "probe", "node": "c4", "answer": "good"},
            ],
            "c4 was bad in one run and good in another",
        ),
    ],
)
def test_verdicts_that_cannot_all_be_true_are_told_as_that(events: list[dict[str, object]], message: str) -> None:
    decision = decide(World(chain(8), "c8", "c3").graph, fold(events))
    assert isinstance(decision, Contradiction)
    assert decision.message == message
    assert decision.hint


def test_two_bad_branches_with_nothing_in_common_are_two_causes() -> None:
    parents = {"a": ("good",), "b": ("good",), "merge": ("a", "b")}
    events = [
        {"event": "probe", "node": "merge", "answer": "bad"},
        {"event": "probe", "node": "good", "answer": "good"},
        {"event": "probe", "node": "a", "answer": "bad"},
        {"event": "probe", "node": "b", "answer": "bad"},
    ]
    decision = decide(World(parents, "merge", "a").graph, fold(events))
    assert isinstance(decision, Contradiction)
    assert "two causes" in decision.message


def test_a_culprit_inside_a_merged_branch_is_found_there_not_at_the_merge() -> None:
    parents = {
        **{f"m{at}": (f"m{at - 1}" if at else "good",) for at in range(6)},
        **{f"s{at}": (f"s{at - 1}" if at else "m1",) for at in range(4)},
        "merge": ("m5", "s3"),
        "tip": ("merge",),
    }
    answer = search(World(parents, "tip", "s2")).decision
    assert isinstance(answer, Answer)
    assert (answer.first_bad, answer.last_good) == ("s2", "s1")


def test_a_merge_that_breaks_what_both_sides_had_is_confirmed_against_all_parents() -> None:
    parents = {"m": ("good",), "s": ("good",), "merge": ("m", "s"), "tip": ("merge",)}
    world = World(parents, "tip", "merge")
    outcome = search(world)
    assert isinstance(outcome.decision, Answer)
    assert outcome.decision.first_bad == "merge"
    assert [event["node"] for event in outcome.events if event["fresh"]] == ["merge", "m", "s"]


def test_a_culprit_that_changes_its_verdict_in_the_fresh_run_is_not_confirmed() -> None:
    events = [*ENDS, *({"event": "probe", "node": f"c{at}", "answer": "bad" if at > 2 else "good"} for at in (4, 2, 3))]
    graph = World(chain(8), "c8", "c3").graph
    confirm = decide(graph, fold(events))
    assert isinstance(confirm, Probe)
    assert (confirm.nodes, confirm.stage, confirm.fresh) == (("c3",), "confirm", True)
    flaky = decide(graph, fold([*events, {"event": "probe", "node": "c3", "answer": "good", "fresh": True}]))
    assert isinstance(flaky, Contradiction)


def test_a_culprit_that_cannot_be_run_again_is_an_answer_without_confirmation() -> None:
    events = [*ENDS, *({"event": "probe", "node": f"c{at}", "answer": "bad" if at > 2 else "good"} for at in (4, 2, 3))]
    fresh = {"event": "probe", "node": "c3", "answer": "skip", "reason": "infrastructure", "fresh": True}
    answer = decide(World(chain(8), "c8", "c3").graph, fold([*events, fresh]))
    assert isinstance(answer, Answer)
    assert (answer.first_bad, answer.confirmed) == ("c3", False)


def test_a_fault_that_the_good_end_had_repaired_on_its_own_branch_is_no_find() -> None:
    """The good end is a release branch that forked at `fork`, which is bad: git calls that a bad merge base."""
    graph = build_graph({"a": ("fork",), "b": ("a",), "c": ("b",)}, "good", "c")
    events = [{"event": "probe", "node": node, "answer": "good" if node == "good" else "bad"} for node in ("c", "good")]
    while isinstance(decision := decide(graph, fold(events)), Probe):
        events += [
            {"event": "probe", "node": node, "answer": "bad", "fresh": decision.fresh} for node in decision.nodes
        ]
    assert isinstance(decision, Contradiction)
    assert decision.message == "fork is bad, although the good end good has it"


def test_more_confirmations_are_that_many_fresh_runs_of_each() -> None:
    world = World(chain(8), "c8", "c3")
    outcome = search(world, Settings(confirmations=3))
    assert isinstance(outcome.decision, Answer)
    fresh = [event["node"] for event in outcome.events if event["fresh"]]
    assert sorted(fresh) == ["c2"] * 3 + ["c3"] * 3


def test_an_end_that_stands_next_to_the_other_is_confirmed_at_once() -> None:
    outcome = search(World(chain(1), "c1", "c1"))
    assert isinstance(outcome.decision, Answer)
    assert (outcome.decision.first_bad, outcome.decision.last_good, outcome.searched) == ("c1", "good", 0)


@settings(max_examples=150)
@given(worlds(skips=True), st.data())
def test_a_running_probe_is_spent_only_where_every_culprit_that_is_left_gives_the_same_answer(
    world: World, data: st.DataObject
) -> None:
    graph = world.graph
    asked = data.draw(st.lists(st.sampled_from(graph.nodes), max_size=4, unique=True))
    events = [world.event(node) for node in dict.fromkeys([graph.bad, "good", *asked])]
    running = [node for node in graph.nodes if node not in {"good", graph.bad, *asked}][:6]
    found = spent(graph, fold(events), Settings(slots=8), running)
    left = [node for node in graph.nodes if bisection.suspects(graph, fold(events)) >> graph.index[node] & 1]
    for node in running:
        answers = {culprit in ancestors(world.parents, node) for culprit in left}
        needed = len(left) == 1 and node in {left[0], *graph.parents[left[0]]}
        assert (node in found) is (bool(left) and len(answers) == 1 and not needed)


def test_a_probe_that_makes_a_build_which_a_suspect_needs_is_not_spent() -> None:
    graph = build_chain(["good", *(f"c{at}" for at in range(1, 9))])
    events = [
        {"event": "probe", "node": node, "answer": answer}
        for node, answer in (("c8", "bad"), ("good", "good"), ("c4", "bad"))
    ]
    for shared, expected in (("new", ()), ("other", ("c6",))):
        keys = {"c3": "new", "c6": shared}
        how = Settings(slots=2, costs=Costs(1.0, 40.0, build_keys=keys))
        assert spent(graph, fold(events), how, ["c6"]) == expected
