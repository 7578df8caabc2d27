from __future__ import annotations

from patchkit.report.bisect import Tally, answer_document, event_text, probe_document
from patchkit.search import Answer, Contradiction
from patchkit.search.decision import Candidate
from patchkit.tools.git.objects import CommitRecord
from tests.report.pictures import verdict

ABOUT = {"issue": "fault", "repro": "read", "axis": "releases", "series": "others", "fidelity": "static", "next": ""}
TALLY = Tally(probes=7, nodes=5, builds=0)


def test_a_confirmed_answer_names_the_culprit_and_what_was_tested() -> None:
    record = CommitRecord("c" * 40, "t" * 40, (), 1_700_000_000, 1_700_000_000, "break it\x1b[2J", ("Ada", "a@b.c"))
    answer = Answer((Candidate("v3", 1.0),), "v2", "v3", (), confirmed=True)
    document = answer_document(answer, {"v3": "c" * 40, "v2": "b" * 40}, record, TALLY)
    assert (document["first_bad"], document["first_bad_commit"], document["last_good_commit"]) == (
        "v3",
        "c" * 40,
        "b" * 40,
    )
    assert event_text({**document, **ABOUT}).splitlines() == [
        "v3 is the first bad release (confirmed); last good: v2",
        "    break it\N{REPLACEMENT CHARACTER}[2J",
        "    Ada, 2023-11-14",
        "fidelity: static (the code was read, not run)",
        "7 probes of 5 releases",
    ]


def test_builds_are_counted_where_there_were_any() -> None:
    answer = Answer((Candidate("v3", 1.0),), "v2", "v3", (), confirmed=True)
    document = answer_document(answer, {}, None, Tally(probes=7, nodes=5, builds=2))
    assert event_text({**document, **ABOUT}).splitlines()[-1] == "7 probes of 5 releases, 2 builds"


def test_a_set_of_suspects_names_each_and_what_was_skipped() -> None:
    answer = Answer((Candidate("v3", 0.5), Candidate("v4", 0.5)), "v2", "v4", ("v3",), confirmed=False, detail="stuck")
    document = answer_document(answer, {}, None, TALLY)
    assert (document["first_bad"], document["confirmed"]) == (None, False)
    text = event_text({**document, **ABOUT})
    assert (
        "stuck; the first bad one is among 2 releases:\n     50.0 %  v3  (skipped)\n     50.0 %  v4\nlast good: v2"
        in text
    )


def test_a_contradiction_says_what_next() -> None:
    document = answer_document(
        Contradiction("the bad end v9 is good", "choose a newer bad end", ("v9",)), {}, None, TALLY
    )
    assert document["candidates"] == []
    assert event_text({**document, **ABOUT}).startswith("the bad end v9 is good\nhint: choose a newer bad end\n")


def test_a_probe_shows_how_far_the_search_is() -> None:
    event = probe_document("v3", verdict("unknown", "others", "v3", detail="no answer"), stage="search", fresh=False)
    words = event_text({**event, "left": 5}).split()
    assert " ".join(words) == "v3 skip timeout 1.2 s 5 left, about 3 steps no answer"
