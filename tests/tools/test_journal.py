from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.errors import StoreFailure
from patchkit.tools.journal import Journal

EVENTS = st.lists(
    st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=9), st.none())), max_size=6
)


@settings(max_examples=25, deadline=None)  # each example waits for the disk
@given(EVENTS, st.integers(0, 400))
def test_whatever_was_cut_off_the_whole_events_remain_and_writing_goes_on(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, object]], cut: int
) -> None:
    journal = Journal(tmp_path_factory.mktemp("journal") / "deep" / "journal.jsonl")
    ends = [0]
    for event in events:
        journal.append(event)
        ends.append(journal.path.stat().st_size)
    assert journal.read() == tuple(events)
    kept = min(cut, ends[-1])
    if events:
        os.truncate(journal.path, kept)
    whole = sum(end <= kept for end in ends) - 1
    assert journal.read() == tuple(events[:whole])
    journal.append({"next": 1})
    assert journal.read() == (*events[:whole], {"next": 1})


def test_an_event_is_on_the_disk_when_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    really = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: (synced.append(os.fstat(descriptor).st_size), really(descriptor))
    )
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append({"a": 1})
    journal.append({"b": 2})
    sizes = [size for size in synced if size in (8, 16)]
    assert sizes == [8, 16]
    assert len(synced) == 3, "the folder once, when the file is new"


def test_a_line_in_the_middle_that_is_no_event_is_told_with_its_place(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.path.write_bytes(b'{"a":1}\n[3]\n{"b":2}\n')
    with pytest.raises(StoreFailure, match=r"journal\.jsonl:2: not an event") as caught:
        journal.read()
    assert "--restart" in caught.value.hint


def test_a_folder_that_cannot_be_written_is_a_failure_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreFailure):
        Journal(tmp_path / "file" / "journal.jsonl").append({})


def test_a_cleared_journal_is_empty_and_one_that_never_was_is_too(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    assert journal.read() == ()
    journal.append({"a": 1})
    journal.clear()
    journal.clear()
    assert journal.read() == ()
