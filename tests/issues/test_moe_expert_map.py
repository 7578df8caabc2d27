"""The wrong fix: an expert's local id as `global id % local experts`, which every rank then takes for its own.

The lie this prevents is a repro that compares one size: modulo is right for one rank, and for one expert.
"""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from patchkit.diagnosis.deployment import Placement, local_expert, split_experts
from tests.issues.support import BAD, CANNOT_TELL, GOOD, ISSUES, Answer, ask, issue, plant

SLUG = "moe-expert-map"
FOLDER = "vllm/model_executor/layers/fused_moe"
PACKAGES = dict.fromkeys(
    ["vllm/model_executor/__init__.py", "vllm/model_executor/layers/__init__.py", f"{FOLDER}/__init__.py"], ""
)
TREE = """
class Table(list):
    def tolist(self):
        return list(self)

def split(experts, ranks):
    return [experts // ranks + (rank < experts % ranks) for rank in range(ranks)]

def determine_expert_map(ep_size, ep_rank, global_num_experts, expert_placement_strategy="linear"):
    held = split(global_num_experts, ep_size)
    if ep_size == 1:
        return global_num_experts, None, None
    table = Table([-1] * global_num_experts)
    {body}
    return held[ep_rank], table, None
"""
RIGHT = """
    first = sum(held[:ep_rank])
    for local in range(held[ep_rank]):
        linear = expert_placement_strategy == "linear"
        table[first + local if linear else ep_rank + local * ep_size] = local
"""
MODULO = """
    for expert in range(global_num_experts if held[ep_rank] else 0):
        table[expert] = expert % held[ep_rank]
"""
REVERSED = RIGHT.replace("sum(held[:ep_rank])", "sum(held[ep_rank + 1:])")
OVERLAP = RIGHT.replace("sum(held[:ep_rank])", "ep_rank * (global_num_experts // ep_size)")


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("moe_expert_map_real", ISSUES / SLUG / "real.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(tmp_path: Path, body: str, home: str = "expert_map_manager") -> Answer:
    """Ask about a tree, for small sizes: the repro's own are for a real one."""
    text = TREE.replace("{body}", body.strip())
    tree = plant(tmp_path / "tree", PACKAGES | {f"{FOLDER}/{home}.py": text})
    small = (ISSUES / SLUG / "real.py").read_text().replace("range(1, 513)", "range(1, 24)")
    script = tmp_path / "small.py"
    script.write_text(small.replace("range(1, 65)", "range(1, 9)"))
    return ask(SLUG, tree, str(script))


@pytest.mark.parametrize("home", ["expert_map_manager", "layer"])
def test_a_partition_is_good_wherever_the_function_stands(tmp_path: Path, home: str) -> None:
    answer = run(tmp_path, RIGHT, home)
    assert answer.code == GOOD, answer.output
    assert "184 pairs" in answer.output


@pytest.mark.parametrize("body", [MODULO, REVERSED, OVERLAP], ids=["modulo", "ranks reversed", "overlapping shares"])
def test_a_map_that_is_no_partition_is_bad(tmp_path: Path, body: str) -> None:
    answer = run(tmp_path, body)
    assert answer.code == BAD, answer.output
    assert re.search(issue(SLUG)["signature"], answer.output)


def test_a_tree_without_the_function_says_absent(tmp_path: Path) -> None:
    answer = ask(SLUG, plant(tmp_path, {f"{FOLDER}/layer.py": "x = 1\n"}), "real.py")
    assert answer.code == GOOD
    assert "patchkit: absent" in answer.output.splitlines()


def test_a_tree_that_is_no_vllm_cannot_be_told(tmp_path: Path) -> None:
    assert ask(SLUG, tmp_path, "real.py").code == CANNOT_TELL


def test_it_is_a_guard() -> None:
    assert issue(SLUG)["expects"] == {"without": "good", "with": "good"}


@pytest.mark.parametrize("placement", ["linear", "round_robin"])
def test_preflight_counts_as_the_repro_does(placement: Placement) -> None:
    oracle = load()
    for experts in (*range(1, 40), 60, 64, 128, 160, 256, 384, 512):
        for ranks in (*range(1, 20), 32, 60, 64):
            rows = [oracle.row(experts, ranks, rank, placement) for rank in range(ranks)]
            assert oracle.owners(rows) == [1] * experts
            assert split_experts(experts, ranks) == oracle.split(experts, ranks)
            for expert in range(0, experts, 7):
                rank, local = local_expert(expert, experts, ranks, placement)
                assert [one[expert] for one in rows] == [local if here == rank else -1 for here in range(ranks)]
