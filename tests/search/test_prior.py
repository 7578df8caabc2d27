"""A prior may only order the probes: one that excluded a commit would name an innocent one whenever it is wrong."""

from __future__ import annotations

import math
import statistics

from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.search import Answer, Clues, CommitGraph, Settings, favour
from patchkit.search.decision import Share
from tests.search.oracle import World, chain, search, worlds


def line(size: int, culprit: int) -> World:
    return World(chain(size), f"c{size}", f"c{culprit}")


@settings(max_examples=200)
@given(worlds(skips=True), st.data())
def test_whatever_the_prior_favours_the_answer_is_the_same(world: World, data: st.DataObject) -> None:
    names = st.lists(st.sampled_from(sorted(world.parents)), unique=True)
    clues = Clues(*(data.draw(names) for _ in range(4)))
    plain = search(world, Settings(least_bits=0)).decision
    prior = search(world, Settings(least_bits=0, prior=favour(world.graph, clues))).decision
    assert isinstance(plain, Answer)
    assert isinstance(prior, Answer)
    assert {candidate.node for candidate in prior.candidates} == {candidate.node for candidate in plain.candidates}
    assert math.isclose(sum(candidate.probability for candidate in prior.candidates), 1)


def test_the_favoured_commits_share_four_fifths_and_a_share_of_the_rest() -> None:
    graph = line(10, 5).graph
    prior = favour(graph, Clues(["c3", "older"], ["c5"]))
    assert sum(share.members for share in prior) == graph.whole
    assert math.isclose(chance(prior, graph, "c3", "c5"), 0.8 + 0.2 * 2 / len(graph.nodes))


def chance(prior: tuple[Share, ...], graph: CommitGraph, *nodes: str) -> float:
    """Return the probability that one of some nodes is the culprit."""
    weights = {node: next(s.weight for s in prior if s.members >> at & 1) for node, at in graph.index.items()}
    return sum(weights[node] for node in nodes) / sum(weights.values())


def test_what_titles_tell_multiplies_what_a_commit_has() -> None:
    graph = line(10, 5).graph
    prior = favour(graph, Clues(["c3", "c5"], (), ["c5", "c7"], ["c9"]))
    of = {node: chance(prior, graph, node) for node in graph.nodes}
    assert math.isclose(of["c5"], 2 * of["c3"])
    assert math.isclose(of["c7"], 2 * of["c1"])
    assert math.isclose(of["c9"], 8 * of["c1"])
    assert math.isclose(of["c3"] / of["c1"], 1 + 0.8 / 2 / (0.2 / len(graph.nodes)))


def test_titles_alone_are_a_prior() -> None:
    graph = line(10, 5).graph
    assert math.isclose(chance(favour(graph, Clues(turns=["c2"])), graph, "c2"), 2 / 11)


def test_favouring_none_or_all_is_no_prior() -> None:
    graph = line(10, 5).graph
    assert favour(graph, Clues()) == ()
    assert favour(graph, Clues(graph.nodes, graph.nodes, graph.nodes, graph.nodes)) == ()


def probes(size: int, culprit: int, favoured: list[int]) -> int:
    world = line(size, culprit)
    prior = favour(world.graph, Clues([f"c{number}" for number in favoured]))
    return search(world, Settings(prior=prior)).searched


def test_a_culprit_among_few_favoured_commits_is_found_in_half_the_probes() -> None:
    culprits = range(50, 950, 90)
    guided = [probes(1000, culprit, [culprit, 120, 480, 700]) for culprit in culprits]
    plain = [probes(1000, culprit, []) for culprit in culprits]
    assert statistics.mean(guided) <= statistics.mean(plain) / 2


def test_a_culprit_that_is_not_favoured_costs_few_probes_more() -> None:
    culprits = range(50, 950, 90)
    misled = [probes(1000, culprit, [120, 481, 701]) for culprit in culprits]
    plain = [probes(1000, culprit, []) for culprit in culprits]
    assert statistics.mean(misled) <= statistics.mean(plain) + 5


@settings(max_examples=200)
@given(worlds(skips=False), st.data())
def test_where_all_can_be_tested_a_prior_that_is_sure_ends_no_search_early(world: World, data: st.DataObject) -> None:
    names = st.lists(st.sampled_from(sorted(world.parents)), unique=True, max_size=3)
    clues = Clues(*(data.draw(names) for _ in range(4)))
    found = search(world, Settings(prior=favour(world.graph, clues))).decision
    assert isinstance(found, Answer)
    assert [candidate.node for candidate in found.candidates] == [world.culprit]


def test_what_is_nearly_sure_is_probed_nevertheless() -> None:
    """By the prior no probe tells .04 bits, but without one no answer names the culprit."""
    for broken in (frozenset[str](), frozenset({"c149", "c152", "c290"})):
        world = World(chain(300), "c300", "c150", broken)
        found = search(world, Settings(prior=favour(world.graph, Clues(["c150"], (), ["c150"], ["c150"])))).decision
        assert isinstance(found, Answer)
        assert {candidate.node for candidate in found.candidates} == {"c150", *(broken & {"c149"})}
