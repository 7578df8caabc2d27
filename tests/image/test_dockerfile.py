from __future__ import annotations

from patchkit.image.dockerfile import render_dockerfile


def test_one_layer_goes_over_the_base() -> None:
    assert render_dockerfile("vllm/vllm-openai:v0.26.0", {"b": "2", "a": "1"}, ()) == (
        'FROM vllm/vllm-openai:v0.26.0\nADD layer.tar /\nLABEL "a"="1"\nLABEL "b"="2"\n'
    )


def test_without_a_base_it_starts_from_scratch() -> None:
    assert render_dockerfile("none", {}, ()).startswith("FROM scratch\n")


def test_deletions_come_before_the_layer_and_need_no_shell() -> None:
    lines = render_dockerfile("base", {}, ("/a b/$c.py",)).splitlines()
    assert lines == ["FROM base", 'RUN ["rm", "-f", "--", "/a b/$c.py"]', "ADD layer.tar /"]


def test_a_label_cannot_become_another_instruction() -> None:
    text = render_dockerfile("base", {"a": 'x"\nRUN $HOME \\'}, ())
    assert text.splitlines()[2:] == ['LABEL "a"="x\\" RUN \\$HOME \\\\"']


def test_variables_are_set_in_order_and_quoted() -> None:
    lines = render_dockerfile("base", {}, (), {"B": "$x", "A": "0"}).splitlines()
    assert lines[-2:] == ['ENV A="0"', 'ENV B="\\$x"']
