from __future__ import annotations

import random
import time

import pytest
from hypothesis import given

from patchkit.search import build_chain, build_graph
from patchkit.search.graph import positions
from tests.search.oracle import Parents, ancestors, graphs


@given(graphs())
def test_bitsets_hold_the_ancestors_that_a_plain_walk_finds(history: tuple[Parents, str]) -> None:
    parents, bad = history
    graph = build_graph(parents, "good", bad)
    assert set(graph.nodes) == ancestors(parents, bad)
    for node in graph.nodes:
        assert set(graph.names(graph.ancestors_of(node))) == ancestors(parents, node)
        assert all(graph.index[parent] < graph.index[node] for parent in parents[node] if parent in graph.index)


def test_a_side_branch_stays_in_one_piece_before_its_merge() -> None:
    parents = {
        "a": ("good",),
        "s1": ("a",),
        "b": ("a",),
        "s2": ("s1",),
        "c": ("b",),
        "merge": ("c", "s2"),
        "d": ("merge",),
    }
    assert build_graph(parents, "good", "d").nodes == ("a", "b", "c", "s1", "s2", "merge", "d")


def test_releases_are_a_chain_above_the_good_one() -> None:
    graph = build_chain(["v1", "v2", "v3"])
    assert (graph.good, graph.bad, graph.nodes) == ("v1", "v3", ("v2", "v3"))
    assert graph.parents["v2"] == ("v1",)


@pytest.mark.parametrize(
    ("parents", "good", "bad", "complaint"),
    [
        ({"a": ()}, "good", "b", "b is not between the ends"),
        ({"a": ("b",), "b": ("a",)}, "good", "a", "is its own ancestor"),
        ({"a": ("b",), "b": ()}, "b", "a", "b is among the commits that it lacks"),
    ],
)
def test_a_graph_that_is_none_is_refused(parents: Parents, good: str, bad: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        build_graph(parents, good, bad)


def test_a_line_of_one_release_has_nothing_to_search() -> None:
    with pytest.raises(ValueError, match="two ends"):
        build_chain(["v1"])


def test_positions_are_those_of_the_set_bits() -> None:
    assert list(positions(0b1011001)) == [0, 3, 4, 6]
    assert list(positions(0)) == []


def test_as_many_commits_as_vllm_made_in_a_year_take_less_than_a_second() -> None:
    rng = random.Random(14)
    parents: dict[str, tuple[str, ...]] = {}
    for number in range(14_207):
        older = (f"c{number - 1}",) if number else ("good",)
        side = (f"c{rng.randrange(max(0, number - 50), number)}",) if number > 50 and rng.random() < 0.3 else ()
        parents[f"c{number}"] = (*older, *side)
    started = time.process_time()
    graph = build_graph(parents, "good", "c14206")
    assert time.process_time() - started < 1
    assert len(graph.nodes) == 14_207
