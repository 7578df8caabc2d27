"""Every log of the corpus has its one true answer beside it: a log taken for another sends people after a wrong fix."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from patchkit.diagnosis.diagnose import Diagnosis, diagnose
from patchkit.diagnosis.log.kinds import KINDS, find_kind
from patchkit.diagnosis.log.prefixes import read_line
from patchkit.diagnosis.matching import KnownIssue, match_issues
from patchkit.diagnosis.progress import Change, compare
from patchkit.recipe.load import load_issue

LOGS = sorted((Path(__file__).parent / "logs").glob("*.log"))
NAMES = [path.stem for path in LOGS]
SHIPPED = sorted((Path(__file__).parents[2] / "issues").glob("*/issue.yaml"))
# Which log is of which issue, by vLLM's own words; the shipped issues are held against the same logs below.
SIGNATURES = {
    "auto-functionalized-e8m0": "auto_functionalized was not removed",
    "deepgemm-sm12x-support": r"layout\.hpp:\d+\): Unknown (SF transformation|recipe)",
    "deepgemm-fp8-einsum": r"fp8_einsum[\s\S]{0,2000}Assertion error \([^)]*(layout|einsum)\.hpp:\d+\)",
    "deepgemm-unsupported-arch": r"hyperconnection\.hpp:\d+.*Unsupported architecture",
    "e8m0-triton-scale": r"KeyError: 'float8_e8m0fnu'",
    "e8m0-scale-dtype": r"b_scales\.scalar_type\(\) ==.*ScalarType::Float",
    "moe-config-check": r"assert (self\.)?intermediate_size %|EPLB currently only supports even distribution of",
    "routed-expert-capture-ascend": r"vllm_ascend/.*capture\.py\", line \d+, in capture",
    "routed-expert-capture-layout": r"RoutedExpertsCapturer: unexpected topk_ids batch dim \d+",
}
ISSUES = [
    KnownIssue(slug, slug, (signature,), upstream="vllm-ascend" if slug.endswith("-ascend") else "vllm")
    for slug, signature in SIGNATURES.items()
]
# How bringing up new hardware goes: each fix shows the next blocker.
BLOCKERS = (
    "c3-unknown-sf-transformation",
    "c1-mhc-unsupported-arch",
    "d-e8m0-triton-l20",
    "c2-fp8-einsum",
    "b-capture-layout",
    "c3-unknown-recipe",
    "journald-graph-capture-oom",
    "illegal-memory-access",
)


def expected(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    document.pop("family", None)
    return document


def family_of(stem: str) -> str:
    document = json.loads((Path(__file__).parent / "logs" / f"{stem}.json").read_text(encoding="utf-8"))
    return str(document.get("family", ""))


def blocks(data: bytes, size: int = 4096) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def summary(found: Diagnosis) -> dict[str, Any]:
    cause, progress = found.root_cause, found.progress
    if cause is None:
        return {"root_cause": None, "stage": progress.stage}
    frame = cause.frame
    return {
        "kind": cause.kind,
        "type": cause.failure.root.type,
        "message": cause.message,
        "frame": frame.product_path or frame.path if frame else "",
        "function": frame.function if frame else "",
        "rank": cause.rank,
        "ranks_failed": cause.ranks_failed,
        "ranks_total": found.ranks_total or None,
        "stage": progress.stage,
        "part": progress.part,
        "certain": cause.certain,
        "done": progress.done,
    }


def identity(found: Diagnosis) -> tuple[str, str, str] | None:
    return found.root_cause.failure.identity if found.root_cause else None


@pytest.mark.parametrize("path", LOGS, ids=NAMES)
def test_a_log_has_the_answer_that_stands_beside_it(path: Path) -> None:
    wanted = expected(path)
    found = diagnose(blocks(path.read_bytes()))
    matches = [match.issue.slug for match in match_issues(found.texts, ISSUES)]
    told = {"certain": True, **summary(found), "matches": matches}
    assert {name: told[name] for name in wanted} == wanted


def test_the_corpus_has_all_families_and_most_kinds() -> None:
    documents = [json.loads(path.with_suffix(".json").read_text(encoding="utf-8")) for path in LOGS]
    assert {document["family"] for document in documents if "family" in document} == set("ABCDE")
    kinds = {document.get("kind") for document in documents if "family" not in document}
    assert len(kinds - {"", None}) >= 15
    assert all(find_kind(kind) for kind in kinds if kind)


def test_no_issue_claims_another_ones_log() -> None:
    """The whole matrix: every log against every issue, those that are shipped and those that the corpus knows.

    An issue that the corpus does not know may be about several logs, but of one family only: then it is a wider issue.
    """
    shipped = [load_issue(path.parent) for path in SHIPPED]
    known = [
        KnownIssue(one.slug, one.issue.title, one.issue.log_signatures, upstream=one.issue.upstream) for one in shipped
    ]
    claimed: dict[str, set[str]] = defaultdict(set)
    for path in LOGS:
        texts = diagnose(blocks(path.read_bytes())).texts
        for match in match_issues(texts, [*ISSUES, *known]):
            claimed[match.issue.slug].add(path.stem)
    rightful = {slug: {path.stem for path in LOGS if slug in expected(path)["matches"]} for slug in SIGNATURES}
    assert {slug: claimed[slug] for slug in SIGNATURES} == rightful
    wider = {slug: {family_of(stem) for stem in stems} for slug, stems in claimed.items() if slug not in SIGNATURES}
    assert {slug: families for slug, families in wider.items() if len(families) > 1 or "" in families} == {}


@pytest.mark.parametrize("path", SHIPPED, ids=[path.parent.name for path in SHIPPED])
def test_a_shipped_issue_of_the_corpus_is_found_by_its_own_signatures(path: Path) -> None:
    issue = load_issue(path.parent)
    own = [log for log in LOGS if issue.slug in expected(log)["matches"]]
    known = [KnownIssue(issue.slug, issue.issue.title, issue.issue.log_signatures)]
    for log in own:
        assert match_issues(diagnose(blocks(log.read_bytes())).texts, known), log.name
    claimed = [log for log in LOGS if match_issues(diagnose(blocks(log.read_bytes())).texts, known)]
    assert bool(claimed) == bool(issue.issue.log_signatures)


def test_each_fix_on_new_hardware_is_told_to_have_moved_the_failure_on() -> None:
    found = [diagnose([(Path(__file__).parent / "logs" / f"{stem}.log").read_bytes()]) for stem in BLOCKERS]
    told = [(one.progress, one.root_cause) for one in found]
    for older, newer in pairwise(told):
        assert compare(older, newer) is Change.MOVED_ON
        assert compare(newer, older) is Change.WENT_BACK
    healthy = diagnose([(Path(__file__).parent / "logs" / "healthy.log").read_bytes()])
    assert {compare(one, (healthy.progress, None)) for one in told} == {Change.GONE}


@pytest.mark.parametrize("path", LOGS, ids=NAMES)
def test_a_log_cut_anywhere_still_gives_an_answer(path: Path) -> None:
    """At the front the facts go, at the end the outer errors: never an exception that is whole in what is left."""
    data = path.read_bytes()
    whole = diagnose([data])
    for seed in range(12):
        position = random.Random(seed).randrange(len(data))
        for part in (data[:position], data[position:]):
            found = diagnose(blocks(part))
            assert found.progress is not None
            cause = found.root_cause
            if cause is not None:
                assert cause.message or cause.failure.root.type or cause.frame
    if whole.root_cause and whole.root_cause.failure.root.frames:
        lines = data.split(b"\n")
        first = next(
            number
            for number in range(whole.root_cause.failure.line - 1, -1, -1)
            if re.search(rb"Traceback|Fatal Python", lines[number])
        )
        assert identity(diagnose([b"\n".join(lines[first:])])) == identity(whole)


@pytest.mark.parametrize("path", LOGS, ids=NAMES)
def test_interleaving_the_writers_does_not_change_the_root_cause(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    wanted = identity(diagnose([path.read_bytes()]))
    for seed in range(4):
        shuffled = interleave(lines, random.Random(seed))
        assert identity(diagnose(blocks("\n".join(shuffled).encode()))) == wanted


def interleave(lines: list[str], chance: random.Random) -> list[str]:
    """Return the lines in another order, that of each writer kept."""
    queues: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        queues[read_line(line).writer].append(line)
    result = []
    while queues:
        name = chance.choice(sorted(queues))
        result.append(queues[name].pop(0))
        if not queues[name]:
            del queues[name]
    return result


@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_the_size_of_blocks_does_not_matter(size: int) -> None:
    data = (Path(__file__).parent / "logs" / "d-e8m0-scales.log").read_bytes()
    assert summary(diagnose(blocks(data, size))) == summary(diagnose([data]))


@pytest.mark.parametrize(
    ("prefix", "host"),
    [
        ("vllm-1  | ", True),
        ("[pod/vllm-0/server] ", True),
        ("2026-11-29T09:00:01.123456789Z ", False),
        ("2026-11-29T09:00:01.123456789+00:00 stderr F ", False),
        ("Nov 29 09:00:01 node7 vllm[812]: ", True),
        (" 3: ", False),
        ("node7 | ", True),
    ],
)
def test_what_carries_a_log_does_not_change_the_answer(prefix: str, host: bool) -> None:
    data = (Path(__file__).parent / "logs" / "d-e8m0-scales.log").read_text(encoding="utf-8")
    carried = "".join(f"{prefix}{line}\n" for line in data.splitlines())
    plain, found = diagnose([data.encode()]), diagnose([carried.encode()])
    assert identity(found) == identity(plain)
    assert found.root_cause is not None
    assert found.root_cause.ranks_failed == 4
    assert found.root_cause.rank.startswith("TP2")
    assert (" on " in found.root_cause.rank) == host


def test_colours_change_nothing() -> None:
    path = Path(__file__).parent / "logs" / "d-e8m0-scales.log"
    text = path.read_text(encoding="utf-8")
    coloured = text.replace("(Worker", "\x1b[0;36m(Worker").replace(") ERROR", ")\x1b[0;0m \x1b[31mERROR\x1b[0m")
    coloured = coloured.replace(" [multiproc", " \x1b[90m[multiproc").replace(":1007]", ":1007]\x1b[0m")
    assert "\x1b" in coloured
    assert summary(diagnose([coloured.encode()])) == summary(diagnose([text.encode()]))


def test_every_kind_has_words_and_a_name_of_its_own() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert all(kind.sentence and kind.hint for kind in KINDS)
