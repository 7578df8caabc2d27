"""A prior may only order the probes: one that excluded a commit would name an innocent one whenever it is wrong."""

from __future__ import annotations

import math
import statistics

from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.search import Answer, Settings, favour
from tests.search.oracle import World, chain, search, worlds


def line(size: int, culprit: int) -> World:
    return World(chain(size), f"c{size}", f"c{culprit}")


@settings(max_examples=200)
@given(worlds(skips=True), st.data())
def test_whatever_the_prior_favours_the_answer_is_the_same(world: World, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(world.parents)), unique=True))
    plain = search(world, Settings(least_bits=0)).decision
    prior = search(world, Settings(least_bits=0, prior=favour(world.graph, names))).decision
    assert isinstance(plain, Answer)
    assert isinstance(prior, Answer)
    assert {candidate.node for candidate in prior.candidates} == {candidate.node for candidate in plain.candidates}
    assert math.isclose(sum(candidate.probability for candidate in prior.candidates), 1)


def test_the_favoured_commits_share_four_fifths_and_a_share_of_the_rest() -> None:
    graph = line(10, 5).graph
    prior = favour(graph, ["c3", "c5", "older"])
    masses = [share.weight * share.members.bit_count() for share in prior]
    assert sum(share.members for share in prior) == graph.whole
    assert math.isclose(masses[0] / sum(masses), 0.8 + 0.2 * 2 / len(graph.nodes))


def test_favouring_none_or_all_is_no_prior() -> None:
    graph = line(10, 5).graph
    assert favour(graph, []) == ()
    assert favour(graph, graph.nodes) == ()


def probes(size: int, culprit: int, favoured: list[int]) -> int:
    world = line(size, culprit)
    prior = favour(world.graph, [f"c{number}" for number in favoured])
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
