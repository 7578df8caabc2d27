"""How uses stand in a tree, and what of that is a problem."""

from __future__ import annotations

from pathlib import Path

from patchkit.stack.symbols.downstream.use import Kind, Use
from patchkit.stack.symbols.examine import Answer, Finding, Judge, Judged, find_problems
from tests.stack.symbols.trees import tree_of, uses_of

OLD = {
    "vllm/a.py": "class C:\n    def run(self, x): pass\ndef f(x): pass\ndef g(): pass\n",
    "vllm/plugins/__init__.py": 'GROUP = "vllm.general_plugins"\n',
}
NEW = {
    "vllm/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from vllm.b import g\n"
    "class C:\n    def go(self, x): pass\ndef f(x, y): pass\n",
    "vllm/b.py": "def g(): pass\nclass D: pass\n",
}


def judged(
    folder: Path, files: dict[str, str], uses: tuple[Use, ...], version: str | None = None
) -> tuple[Judged, ...]:
    folder.mkdir()
    provided = frozenset(use.symbol for use in uses if use.kind is Kind.REPLACES)
    judge = Judge(tree_of(folder, files), version, provided)
    return tuple(judge.judge(use) for use in uses)


def answers(folder: Path, files: dict[str, str], text: str, version: str | None = None) -> list[str]:
    return [one.answer.value for one in judged(folder, files, uses_of(text), version)]


def problems(tmp_path: Path, text: str) -> list[Finding]:
    uses = uses_of(text)
    before = {one.use: one for one in judged(tmp_path / "old", OLD, uses)}
    after = judged(tmp_path / "new", NEW, uses)
    (tmp_path / "again").mkdir()
    return list(find_problems(tree_of(tmp_path / "again", NEW), after, before))


def test_names_are_there_gone_hidden_or_caught(tmp_path: Path) -> None:
    text = """
        from vllm.a import f, g, h
        try:
            from vllm.a import h
        except ImportError:
            pass
        """
    assert answers(tmp_path / "new", NEW, text) == ["there", "hidden", "gone", "caught"]


def test_what_mock_and_monkeypatch_set_must_be_there_and_gives_no_name(tmp_path: Path) -> None:
    text = """
        from vllm import a
        mock.patch("vllm.a.f")
        mock.patch("vllm.a.never")
        mock.patch.dict("vllm.a.table", {})
        patch.object(a, "never")
        monkeypatch.setattr(a, "never", 1)
        a.never
        a.mine = 1
        mock.patch("vllm.a.mine")
        """
    expected = ["there", "there", "gone", "gone", "gone", "gone", "gone", "nothing", "there"]
    assert answers(tmp_path / "new", NEW, text) == expected


def test_a_line_that_is_not_reached_at_a_version_is_not_looked_at(tmp_path: Path) -> None:
    text = """
        if vllm_version_is("0.27.1"):
            from vllm.a import old
        else:
            from vllm.a import new
        """
    assert answers(tmp_path / "a", NEW, text, "0.27.1") == ["gone", "not-run"]
    assert answers(tmp_path / "b", NEW, text, "0.28.0") == ["not-run", "gone"]


def test_the_way_out_of_a_failed_import_must_be_there(tmp_path: Path) -> None:
    text = """
        try:
            from vllm.new import f
        except ImportError:
            from vllm.old import f
        """
    assert answers(tmp_path / "none", {}, text) == ["caught", "gone"]
    assert answers(tmp_path / "new", {"vllm/new.py": "f = 1\n"}, text) == ["there", "not-run"]


def test_what_the_package_puts_in_is_there_for_it(tmp_path: Path) -> None:
    text = "import sys, vllm.a\nvllm.a.mine = 1\nvllm.a.mine.x\nsys.modules['vllm.m'] = 1\nfrom vllm.m import y\n"
    found = [one for one in judged(tmp_path / "a", NEW, uses_of(text)) if one.use.kind is not Kind.REPLACES]
    assert {one.answer for one in found} == {Answer.THERE}


def test_a_group_of_plugins_that_nobody_loads_is_gone(tmp_path: Path) -> None:
    uses = uses_of("import vllm\n")
    group = Use("vllm.general_plugins", Kind.PLUGIN, uses[0].need, "setup.py", 1)
    assert [one.answer for one in judged(tmp_path / "old", OLD, (group,))] == [Answer.THERE]
    assert [one.answer for one in judged(tmp_path / "new", NEW, (group,))] == [Answer.GONE]


def test_problems_are_told_by_name_with_the_place_where_it_is_now(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, "from vllm.a import g\nfrom vllm import a\na.g()\n")
    assert (found.symbol, found.answer, found.moved_to) == ("vllm.a.g", Answer.HIDDEN, ("vllm.b.g",))
    assert [(use.line, use.kind) for use in found.uses] == [(1, Kind.IMPORT), (3, Kind.ATTRIBUTE)]


def test_replacing_or_overriding_nothing_is_a_problem_only_since_it_was_something(tmp_path: Path) -> None:
    text = """
        from vllm.a import C
        import vllm.a
        class Mine(C):
            def run(self, x): pass
            def own(self): pass
        vllm.a.g = lambda: 1
        vllm.a.new = 1
        """
    found = problems(tmp_path, text)
    assert [(one.symbol, one.answer) for one in found] == [
        ("vllm.a.C.run", Answer.NOTHING),
        ("vllm.a.g", Answer.NOTHING),
    ]


def test_of_other_arguments_only_those_that_are_new_are_told(tmp_path: Path) -> None:
    text = "import vllm.a\ndef mine(z): pass\nvllm.a.f = mine\n"
    (found,) = problems(tmp_path, text)
    assert (found.symbol, found.answer, found.detail) == ("vllm.a.f", Answer.DIFFERS, "lacks y")


def test_where_an_import_fails_its_attributes_are_not_told_again(tmp_path: Path) -> None:
    text = "from vllm.gone import K\nK.x\nK.y = 1\nclass L(K):\n    def run(self): pass\n"
    (found,) = problems(tmp_path, text)
    assert (found.symbol, found.missing, len(found.uses)) == ("vllm.gone.K", "vllm.gone", 1)


def test_two_imports_of_one_name_are_two_ways(tmp_path: Path) -> None:
    text = """
        if x:
            from vllm.b import D as K
        else:
            from vllm.a import C as K
        K.go
        """
    assert answers(tmp_path / "new", NEW, text) == ["there", "there", "there"]
