"""Make the matrix release × issue by running the repros: `python -m benchmarks.matrix [--markdown FILE]`.

Every issue that ships is judged at every minor release, without its patches and with them. Needs the package index; the
repros that are not static make their environment once and take minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from patchkit.pipeline import OpenedRecipe, Question, judge, open_recipe, resolve_commit
from patchkit.recipe.load import load_issue, load_patch
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.verdict import Answer, Reason, Verdict

ROOT = Path(__file__).parents[1]
RELEASES = tuple(f"v0.{minor}.0" for minor in range(20, 34))
FIDELITIES = ("static", "stubbed", "real", "needs-gpu")
RECIPE = """format: 1
name: matrix
upstream: {{vllm: {{package: vllm, ref: {ref}}}}}
target: {{device: cuda, arch: sm_121, python: "3.12", torch: "2.11.0"}}
pins: {{{pins}}}
series: [{series}]
issues: [{issue}]
environment: {{env: {{VLLM_TARGET_DEVICE: cpu}}}}
"""
# A fault of a pair: the DeepGEMM that these releases build has no kernels for sm_12x (the issue's README has them all).
PINS = {
    ("deepgemm-sm12x-support", "v0.24.0"): 'deepgemm: "891d57b"',
    ("deepgemm-sm12x-support", "v0.27.0"): 'deepgemm: "e21c821"',
}
HEAD = """# Which release has which issue

Made by running the repros, without and with the patches that name the issue as theirs:

```text
{command}
```

`bad → good`: the fault is there, and the patches heal it. `good`: not there. `absent`: the code is not there. `skip`:
cannot be told here, for the reason named. `needs-gpu`: the repro runs on a GPU only. What a pass proves depends on the
fidelity beside each repro: see [design](../design.md#what-a-pass-proves). Nothing in this table ran on a GPU.
The repros that run the real code on the CPU take minutes each and have [a table of their own](matrix-real.md); the
others are [here](matrix.md).

"""


def make_table(names: Sequence[tuple[str, str]], releases: Sequence[str]) -> list[list[str]]:
    """Return a row for each release with a cell for each (issue, repro)."""
    toolkit = Toolkit(Cache(cache_root()), env=dict(os.environ))
    rows = []
    with tempfile.TemporaryDirectory(prefix="patchkit-matrix-") as folder:
        for release in releases:
            opened = [open_issue(toolkit, Path(folder), issue, release) for issue, _ in names]
            cells = [judge_cell(one, repro, release) for one, (_, repro) in zip(opened, names, strict=True)]
            rows.append([release, *cells])
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    return rows


def cache_root() -> Path:
    """Return the store that the program uses."""
    return Path(os.environ.get("PATCHKIT_CACHE") or Path.home() / ".cache" / "patchkit")


def open_issue(toolkit: Toolkit, folder: Path, issue: str, release: str) -> OpenedRecipe:
    """Open a recipe of one issue and the patches that fix it."""
    patches = [load_patch(path.parent) for path in sorted((ROOT / "patches").glob("*/patch.yaml"))]
    series = [one.slug for one in patches if issue in one.patch.issue and one.patch.upstream == "vllm"]
    path = folder / issue / "recipe.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        RECIPE.format(ref=release, pins=PINS.get((issue, release), ""), series=", ".join(series), issue=issue)
    )
    return open_recipe(toolkit, path, "package")


def judge_cell(opened: OpenedRecipe, repro: str, release: str) -> str:
    """Return what one repro says of one release, in a few words."""
    (issue,) = opened.loaded.issues.values()
    chosen = next(one for one in issue.issue.repros if one.name == repro)
    commit = resolve_commit(opened, release)
    without = judge(opened, Question(commit, issue, chosen, "without"))
    if chosen.fidelity == "needs-gpu" and without.answer is Answer.SKIP:
        return "needs-gpu"
    if not opened.loaded.recipe.series:
        return word(without)
    with_ = judge(opened, Question(commit, issue, chosen, "with"))
    same = word(without) == word(with_)
    return word(without) if same and without.answer is not Answer.BAD else f"{word(without)} → {word(with_)}"


def word(verdict: Verdict) -> str:
    """Return a verdict in a word or two."""
    if verdict.reason is Reason.ABSENT:
        return "absent"
    return f"skip ({verdict.reason})" if verdict.answer is Answer.SKIP else verdict.answer.value


def list_repros(fidelities: Sequence[str], issues: Sequence[str] = ()) -> list[tuple[str, str, str]]:
    """Return issue, repro and fidelity of the table's columns. Without `issues`, all of vLLM's."""
    loaded = [load_issue(path.parent) for path in sorted((ROOT / "issues").glob("*/issue.yaml"))]
    return [
        (one.slug, repro.name, repro.fidelity)
        for one in loaded
        for repro in one.issue.repros
        if one.issue.upstream == "vllm" and repro.fidelity in fidelities and one.slug in (issues or [one.slug])
    ]


def write_page(arguments: Sequence[str], repros: Sequence[tuple[str, str, str]], rows: Sequence[Sequence[str]]) -> str:
    """Return the page: how it is made, what the words mean, the table."""
    head = ["release", *(f"{issue}<br>{repro} ({fidelity})" for issue, repro, fidelity in repros)]
    lines = [" | ".join(row) for row in [head, ["---"] * len(head), *rows]]
    command = " ".join(["python -m benchmarks.matrix", *arguments])
    return HEAD.format(command=command) + "".join(f"| {line} |\n" for line in lines)


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fidelity", action="append", choices=list(FIDELITIES), help="only these")
    parser.add_argument("--issue", action="append", default=[], help="only these issues")
    parser.add_argument("--release", action="append", help="only these releases, e.g. v0.26.0")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    return parser.parse_args(arguments)


def main() -> None:
    """Run the repros and print, or write, the table."""
    options = read_options(sys.argv[1:])
    repros = list_repros(options.fidelity or FIDELITIES, options.issue)
    rows = make_table([(issue, repro) for issue, repro, _ in repros], options.release or RELEASES)
    text = write_page(sys.argv[1:], repros, rows)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
