"""A bisect as a picture: what was believed of each commit, probe by probe, as SVG that needs nothing from outside.

Commits stand on the x axis in the order of history, oldest left. Thousands do not fit on a screen: they share columns,
and a column is as dark as the likeliest of its commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

COLUMNS = 240  # of the picture: more would be narrower than a pixel on a phone
WIDTH, LEFT, ROW, TALL = 960, 96, 18, 120
TONES = {"good": "var(--good)", "bad": "var(--bad)", "skip": "var(--unknown)"}


@dataclass(frozen=True)
class Moment:
    """A probe, and what was believed after it: the probability of each node. `place` -1 is the good end or older."""

    node: str
    place: int
    answer: str
    belief: tuple[float, ...]


@dataclass(frozen=True)
class Picture:
    """All moments of one search over its nodes, oldest first."""

    nodes: tuple[str, ...]
    moments: tuple[Moment, ...]


def svg(picture: Picture) -> str:
    """Return the picture: a row a probe that narrowed the search or was a skip, and the last posterior below."""
    rows = _narrowing(picture.moments)
    height = ROW * len(rows) + TALL + 64
    parts = [
        f'<svg class="posterior" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="what was believed of each commit, probe by probe">'
    ]
    parts += [_row(picture, moment, number) for number, moment in enumerate(rows)]
    if rows:
        parts.append(_final(picture, rows[-1], ROW * len(rows) + 16))
    return "\n".join([*parts, "</svg>"])


def _narrowing(moments: Sequence[Moment]) -> list[Moment]:
    """Return the moments that changed what is believed, and the skips; the last of all is always there."""
    kept = [one for before, one in zip([None, *moments], moments, strict=False) if not before or before != one]
    pairs = zip([None, *kept], kept, strict=False)
    return [one for before, one in pairs if not before or one.answer == "skip" or one.belief != before.belief]


def _row(picture: Picture, moment: Moment, number: int) -> str:
    """Draw the suspects after a probe, each as dark as it is likely beside the likeliest, and the probe as a dot."""
    y = number * ROW + 4
    shares = _columns(moment.belief)
    most = max(shares, default=0.0) or 1.0
    step = (WIDTH - LEFT) / max(len(shares), 1)
    bars = "".join(
        f'<rect x="{LEFT + at * step:.1f}" y="{y}" width="{max(step, 1):.1f}" height="{ROW - 8}" '
        f'fill="var(--patched)" opacity="{0.15 + 0.85 * share / most:.2f}"/>'
        for at, share in enumerate(shares)
        if share > 0
    )
    x = LEFT + (_column(moment.place, len(picture.nodes)) + 0.5) * step if moment.place >= 0 else LEFT - 6
    title = f"<title>{escape(moment.node)}: {escape(moment.answer)}</title>"
    dot = f'<circle cx="{x:.1f}" cy="{y + ROW / 2 - 4:.1f}" r="5" fill="{TONES[moment.answer]}">{title}</circle>'
    label = f'<text x="0" y="{y + 9}">{escape(moment.node[:12])}</text>'
    track = f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y + ROW / 2 - 4:.1f}" y2="{y + ROW / 2 - 4:.1f}"/>'
    return f"<g>{track}{bars}{dot}{label}</g>"


def _final(picture: Picture, moment: Moment, top: int) -> str:
    """Draw the last belief as bars from 0 to 1."""
    shares = _columns(moment.belief)
    step = (WIDTH - LEFT) / max(len(shares), 1)
    base = top + TALL
    bars = "".join(
        f'<rect x="{LEFT + at * step:.1f}" y="{base - TALL * share:.1f}" width="{max(step, 2):.1f}" '
        f'height="{TALL * share:.1f}" fill="var(--bad)"><title>{share:.3f}</title></rect>'
        for at, share in enumerate(shares)
        if share > 0
    )
    axis = f'<line x1="{LEFT}" x2="{WIDTH}" y1="{base}" y2="{base}"/>'
    ticks = "".join(
        f'<text x="0" y="{base - TALL * share + 4:.0f}">{share:.0%}</text>'
        f'<line x1="{LEFT - 4}" x2="{WIDTH}" y1="{base - TALL * share:.0f}" y2="{base - TALL * share:.0f}"/>'
        for share in (0.5, 1.0)
    )
    first, last = picture.nodes[0][:12], picture.nodes[-1][:12]
    names = (
        f'<text x="{LEFT}" y="{base + 16}">{escape(first)} (oldest)</text>'
        f'<text x="{WIDTH}" y="{base + 16}" text-anchor="end">{escape(last)} (bad end)</text>'
    )
    return f"<g>{ticks}{axis}{bars}{names}</g>"


def _columns(belief: Sequence[float]) -> list[float]:
    """Return the belief in at most `COLUMNS` columns, each with the greatest of its shares."""
    count = min(len(belief), COLUMNS)
    columns = [0.0] * count
    for at, share in enumerate(belief):
        column = _column(at, len(belief))
        columns[column] = max(columns[column], share)
    return columns


def _column(place: int, total: int) -> int:
    return place * min(total, COLUMNS) // total
