"""The third rung: changes held by what they replace and where; never by likeness, never twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.stack.outcome import Outcome
from tests.stack.upstreams import MODULE, Upstream

HEADER = "--- a/x.py\n+++ b/x.py\n"


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream.at(tmp_path / "upstream")


def hunk(*body: str, start: int = 5, heading: str = "class Loader:") -> bytes:
    """Return a diff with one hunk of a file that nobody has: its counts are right, its context need not be."""
    old, new = (sum(line[0] != tag for line in body) for tag in "+-")
    return (
        HEADER + f"@@ -{start},{old} +{start},{new} @@ {heading}\n" + "".join(f"{line}\n" for line in body)
    ).encode()


def anchored(upstream: Upstream, diff: bytes) -> str | None:
    """Return the file after a patch that must have been anchored, None when it was refused."""
    attempt = upstream.climb(diff)
    if attempt.outcome is Outcome.CONFLICT:
        return None
    assert (attempt.outcome, attempt.method) == (Outcome.ANCHORED, "anchor")
    return upstream.result(attempt)


def test_removed_lines_that_stand_once_in_the_function_are_replaced_there(upstream: Upstream) -> None:
    diff = hunk(
        "     def store(self, name, text):",
        "         # a comment that upstream never had",
        "-        path = os.path.join(self.root, name)",
        "+        path = self.path_of(name)",
        '         with open(path, "w") as stream:',
    )
    before, after = upstream.text().split("    def store")
    wanted = before + "    def store" + after.replace("os.path.join(self.root, name)", "self.path_of(name)")
    assert anchored(upstream, diff) == wanted
    assert upstream.climb(diff).detail == "x.py: hunk 1 at line 13, by what stands around it"


def test_lines_are_inserted_between_two_neighbours_that_stand_together_once(upstream: Upstream) -> None:
    diff = hunk(
        "     if not name:",
        "         return False",
        "+    name = name.strip()",
        "     return name.isidentifier()",
        "     # the end of a file that upstream never had",
        start=18,
        heading="def check(name):",
    )
    assert anchored(upstream, diff) == upstream.text().replace(
        "    return name.is", "    name = name.strip()\n    return name.is"
    )


def test_a_place_in_another_function_is_none(upstream: Upstream) -> None:
    diff = hunk(
        "     # a line that upstream never had",
        "     if not name:",
        "-        return False",
        "+        return True",
        heading="def other(name):",
    )
    assert anchored(upstream, diff) is None


def test_without_a_word_on_where_it_was_made_nothing_in_a_definition_is_its_place(upstream: Upstream) -> None:
    body = (
        "         # the end of a function that is long and was deleted",
        "         path = os.path.join(self.root, name)",
        '-        with open(path, "w") as stream:',
        '+        with open(path, "x") as stream:',
    )
    assert anchored(upstream, hunk(*body, heading="    def store(self, name, text):")) is not None
    assert anchored(upstream, hunk(*body, heading="")) is None
    imports = (" # licence", " import os", "+import re", " # and more")
    assert anchored(upstream, hunk(*imports, heading="")) is None
    upstream.git.commit({"x.py": f"LIMIT = 'of names'\nimport os\nimport sys\n{upstream.text()[10:]}"})
    replaced = (" # licence", " import os", "-import sys", "+import re", " # and more")
    assert anchored(upstream, hunk(*replaced, heading="", start=1)) is not None


def test_two_places_in_the_function_are_none(upstream: Upstream) -> None:
    upstream.edit("    if not name:\n", "    if len(name) > 9:\n        return False\n    if not name:\n")
    diff = hunk(
        " never", "-        return False", "+        return True", "     if not name:", heading="def check(name):"
    )
    assert anchored(upstream, diff) is None


@pytest.mark.parametrize(
    "body",
    [
        ("     # never", "-        return False", "+        return True", "     # never"),  # no context of it is left
        ("     # never", "-    )", "+    ]", "     # never"),  # says nothing
        ("     if not name:", "+        name = ''", "     # never"),  # one neighbour only
    ],
)
def test_too_little_that_holds_it_is_a_conflict(upstream: Upstream, body: tuple[str, ...]) -> None:
    assert anchored(upstream, hunk(*body, start=18, heading="def check(name):")) is None


def test_what_stands_there_already_is_not_made_twice(upstream: Upstream) -> None:
    upstream.edit("        return False\n", "        return False\n    name = name.strip()\n")
    diff = hunk(
        "     # never",
        "     if not name:",
        "+        name = ''",
        "         return False",
        "     # never",
        start=18,
        heading="def check(name):",
    )
    assert anchored(upstream, diff) is not None
    twice = hunk(
        "     # never",
        "         return False",
        "+    name = name.strip()",
        "     name = name.strip()",
        start=18,
        heading="def check(name):",
    )
    assert anchored(upstream, twice) is None


def test_hunks_that_fit_exactly_stand_beside_anchored_ones(upstream: Upstream) -> None:
    first = " import os\n+import re\n \n \n"
    second = "     # never\n     if not name:\n-        return False\n+        return None\n     return name.is"
    second += "identifier()\n"
    diff = f"{HEADER}@@ -1,3 +1,4 @@\n{first}@@ -18,4 +19,4 @@ def check(name):\n{second}".encode()
    wanted = upstream.text().replace("import os\n", "import os\nimport re\n").replace("return False", "return None")
    assert anchored(upstream, diff) == wanted


def test_the_name_is_the_one_it_had_where_the_patch_was_made(upstream: Upstream) -> None:
    """The heading that git writes names the class; the content that the diff names knows the function."""
    carried = upstream.carried('open(path, "w")', 'open(path, "x")')
    upstream.git.commit(
        {
            "x.py": upstream.text()
            .replace("        path = os.path.join(self.root, name)\n        with", "        path = name\n        with")
            .replace("            stream.write(text)\n", "            print(text, file=stream)\n")
        }
    )
    diff = upstream.diff(carried)
    assert upstream.climb(diff).outcome is Outcome.CONFLICT  # both neighbours of the line are others now
    upstream.edit(
        "            print(text, file=stream)\n", "            stream.write(text)\n            stream.flush()\n"
    )
    assert anchored(upstream, diff) == upstream.text().replace('"w"', '"x"')


def test_python_that_does_not_parse_has_no_scopes_to_hold_on_to(upstream: Upstream) -> None:
    upstream.git.commit({"x.py": upstream.text() + "x = (\n"})
    diff = hunk("     # never", "     if not name:", "-        return False", "+        return True", start=18)
    assert anchored(upstream, diff) is None


def test_other_languages_are_held_by_the_whole_file(upstream: Upstream) -> None:
    upstream.git.commit({"x.cu": "int f() {\n  int one = 1;\n  return one;\n}\n"})
    diff = hunk("   // never", "   int one = 1;", "-  return one;", "+  return 2;", " }").replace(b"x.py", b"x.cu")
    attempt = upstream.climb(diff)
    assert attempt.outcome is Outcome.ANCHORED
    assert upstream.result(attempt, "x.cu") == "int f() {\n  int one = 1;\n  return 2;\n}\n"


def test_a_bracket_beside_the_lines_does_not_tell_which_list_they_stand_in(upstream: Upstream) -> None:
    """vLLM's flashinfer_trtllm_moe.py: two lists of one function share their last lines, and the one that is meant lost
    them meanwhile."""
    deep = "    if kind == 8:\n        return [\n            Kind.Deep,\n            Kind.Norm,\n        ]\n"
    llama = "    return [\n            Kind.Llama,\n        ]\n"
    upstream.git.commit({"x.py": f"{MODULE}\n\ndef supports(kind):\n{deep}{llama}"})
    change = ("-            Kind.Norm,", "+            # Kind.Norm, disabled", "         ]")
    diff = hunk("             Kind.Llama,", *change, start=30, heading="def supports(kind):")
    assert anchored(upstream, diff) is None
    told = hunk("             Kind.Deep,", *change, "     # never there", start=30, heading="def supports(kind):")
    assert "# Kind.Norm, disabled" in str(anchored(upstream, told))


BLOCK = (
    "         path = os.path.join(self.root, name)",
    "         if not os.path.exists(path):",
    "             return None",
)
ADDED = ("+        self.count += 1",)
NEVER = ("         # a line that upstream never had",)


def test_three_lines_on_one_side_hold_an_insertion_where_the_other_side_has_changed(upstream: Upstream) -> None:
    wanted = upstream.text().replace("            return None\n", "            return None\n        self.count += 1\n")
    assert anchored(upstream, hunk(*BLOCK, *ADDED, *NEVER, heading="def load(self, name):")) == wanted
    wanted = upstream.text().replace("load(self, name):\n", "load(self, name):\n        self.count += 1\n")
    assert anchored(upstream, hunk(*NEVER, *ADDED, *BLOCK, heading="def load(self, name):")) == wanted


@pytest.mark.parametrize(
    "body",
    [
        (*BLOCK[1:], *ADDED, *NEVER),  # two lines only
        (*BLOCK[:2], "         ", *ADDED, *NEVER),  # one of three says nothing
        (*BLOCK, *ADDED),  # no other side: the end of the file
        (*BLOCK, *ADDED, "         path = os.path.join(self.root, name)", *NEVER),  # what should follow stands before
        (*BLOCK, *ADDED, *NEVER, "-        return None"),  # another change of the hunk has no place
        ("     def load(self, name):", *BLOCK[:2], *ADDED, *NEVER),  # a definition may have moved with what it holds
    ],
)
def test_less_than_that_on_one_side_holds_nothing(upstream: Upstream, body: tuple[str, ...]) -> None:
    assert anchored(upstream, hunk(*body, heading="def load(self, name):")) is None


def test_a_block_that_stands_in_both_branches_holds_nothing(upstream: Upstream) -> None:
    text = "".join(line[1:] + "\n" for line in BLOCK)
    upstream.edit("        with open(path) as stream:\n", text + "        with open(path) as stream:\n")
    assert anchored(upstream, hunk(*BLOCK, *ADDED, *NEVER, heading="def load(self, name):")) is None
