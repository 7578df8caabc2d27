"""Patches that are kept, as lines for people: refreshed ones, range-diffs."""

from __future__ import annotations

from collections.abc import Sequence

from patchkit.stack.carry.compare import Pair, Sign
from patchkit.stack.carry.refresh import Refreshed


def range_diff(pairs: Sequence[Pair]) -> list[str]:
    """Return two versions of a series as `git range-diff` prints them: a row a patch, what changed below it."""
    lines = []
    for pair in pairs:
        numbers = [str(number) if number else "-" for number in (pair.old, pair.new)]
        lines.append(f"{numbers[0]}:  {pair.sign} {numbers[1]}:  {pair.title}")
        lines += [f"    {line}" for line in pair.lines]
    return lines


def refreshed_lines(patch: Refreshed, written: bool) -> list[str]:
    """Return what became of a refresh as lines; `written`: the files were written, else they would be."""
    if patch.refused:
        return [f"{patch.patch}: refused: {patch.outcome}: {patch.detail}", f"  next: {patch.refused}"]
    if patch.data is None:
        return [f"{patch.patch}: unchanged: {patch.detail}"]
    if not patch.changed:
        return [f"{patch.patch}: fresh"]
    head = f"{patch.patch}: {'refreshed' if written else 'would change'} ({patch.outcome}): {patch.path}"
    same = all(pair.sign is Sign.SAME for pair in patch.pairs)
    return [head, "  the same change"] if same else [head, *(f"  {line}" for line in range_diff(patch.pairs))]
