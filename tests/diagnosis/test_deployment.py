"""The arithmetic of a deployment. tests/issues/test_moe_expert_map.py compares the split with the repro's oracle."""

from __future__ import annotations

import pytest

from patchkit.diagnosis.deployment import (
    Deployment,
    local_expert,
    parse_arch,
    parse_release,
    split_experts,
    split_layers,
)
from patchkit.errors import RequestError


def test_experts_need_not_divide() -> None:
    assert split_experts(256, 7) == (37, 37, 37, 37, 36, 36, 36)


def test_an_expert_has_one_owner_and_modulo_is_not_its_local_id() -> None:
    assert local_expert(200, 256, 8) == (6, 8)
    assert local_expert(200, 256, 8, "round_robin") == (0, 25)
    assert 200 % 32 == 8  # what every rank would take it for


@pytest.mark.parametrize("placement", ["linear", "round_robin"])
def test_every_expert_has_its_own_place(placement: str) -> None:
    for experts in (1, 7, 60, 128, 257):
        for ranks in (1, 2, 3, 7, 8, 64, 300):
            places = {local_expert(one, experts, ranks, placement) for one in range(experts)}  # type: ignore[arg-type]
            assert len(places) == experts
            held = split_experts(experts, ranks)
            assert all(rank < ranks and local < held[rank] for rank, local in places)


def test_without_expert_parallelism_dp_cuts_the_experts_too() -> None:
    assert (Deployment(tp=4, dp=2).moe_tp, Deployment(tp=4, dp=2).ep_size) == (8, 1)
    both = Deployment(tp=4, dp=2, pcp=3, expert_parallel=True)
    assert (both.moe_tp, both.ep_size) == (1, 24)


def test_layers_that_remain_go_to_the_stages_before_the_last() -> None:
    assert split_layers(61, 4) == (15, 15, 16, 15)
    assert split_layers(62, 4) == (15, 16, 16, 15)
    assert split_layers(2, 4) == (0, 1, 1, 0)


@pytest.mark.parametrize(
    ("text", "arch"), [("sm_121", (12, 1)), ("sm90a", (9, 0)), ("12.1", (12, 1)), ("100f", (10, 0)), ("sm_89", (8, 9))]
)
def test_an_architecture_is_read_in_its_spellings(text: str, arch: tuple[int, int]) -> None:
    assert parse_arch(text) == arch


@pytest.mark.parametrize("text", ["gb10", "sm_", "9", "12.12", "sm_90aa"])
def test_what_is_no_architecture_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="no architecture"):
        parse_arch(text)


def test_a_release_may_carry_a_v() -> None:
    assert parse_release("v0.26.0") == parse_release("0.26.0")
    with pytest.raises(RequestError, match="no version of vLLM"):
        parse_release("main")
