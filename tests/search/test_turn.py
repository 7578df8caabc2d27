from __future__ import annotations

from patchkit.search import Answer, build_chain, find_turn


def test_the_turn_is_found_and_no_node_is_asked_twice() -> None:
    asked: list[str] = []
    names = [f"v{number}" for number in range(20)]

    def ask(node: str) -> str:
        asked.append(node)
        return "bad" if names.index(node) >= 13 else "good"

    answer = find_turn(build_chain(names), ask)
    assert isinstance(answer, Answer)
    assert answer.first_bad == "v13"
    assert len(asked) == len(set(asked)) <= 7
