"""A change that was prepared and not ended: what the next run makes of it. Kills are tested through the workflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.environment.installed.change import Standing, plan_change
from patchkit.environment.installed.transaction import INTENT, commit, hold, prepare, recover
from patchkit.errors import RequestError
from patchkit.source.installed.folder import find_info, read_installed
from patchkit.source.installed.journal import PENDING
from tests.support.wheels import install, make_wheel, snapshot

NEW = b"two = 22\n"
STANDING = Standing("r", "1" * 40, "2" * 40, (), {"vllm/x.py": NEW})


@pytest.fixture
def info(tmp_path: Path) -> Path:
    return install(make_wheel(tmp_path), tmp_path / "site")


def prepared(info: Path, standing: Standing | None = STANDING) -> None:
    plan = plan_change(read_installed(info.parent, info), standing)
    assert plan is not None
    prepare(info, plan)


def decide(info: Path) -> None:
    (info / "patchkit" / INTENT).rename(info / "patchkit" / PENDING)


def test_what_was_prepared_and_not_decided_is_taken_back(info: Path) -> None:
    before = snapshot(info.parent)
    prepared(info)
    assert (info.parent / "vllm/x.py").read_bytes() != NEW
    assert recover(info) == "taken back"
    assert snapshot(info.parent) == before
    assert recover(info) == ""


def test_what_was_decided_is_finished(info: Path) -> None:
    prepared(info)
    decide(info)
    with pytest.raises(RequestError, match="begun and not finished"):
        read_installed(info.parent, info)
    assert recover(info) == "finished"
    assert (info.parent / "vllm/x.py").read_bytes() == NEW
    assert read_installed(info.parent, info).journal is not None


def test_a_file_that_somebody_changed_in_between_is_not_overwritten(info: Path) -> None:
    prepared(info)
    decide(info)
    (info.parent / "vllm/x.py").write_text("mine\n")
    with pytest.raises(RequestError, match="was changed while a patch was half applied"):
        recover(info)
    assert (info.parent / "vllm/x.py").read_text() == "mine\n"


def test_a_journal_that_cannot_be_read_is_told(info: Path) -> None:
    prepared(info)
    commit(info)
    (info / "patchkit/journal.json").write_text('{"format": 7}')
    with pytest.raises(RequestError, match="is no journal of this patchkit"):
        read_installed(info.parent, info)


def test_what_was_there_before_is_checked_when_it_is_needed(info: Path) -> None:
    prepared(info)
    commit(info)
    for blob in (info / "patchkit/blobs").iterdir():
        blob.write_bytes(b"damaged")
    with pytest.raises(RequestError, match=r"what vllm/x\.py was before the patch is lost"):
        read_installed(info.parent, info)


def test_a_link_that_waits_beside_a_file_is_not_written_through(info: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (info.parent / "vllm/.x.py.patchkit").symlink_to(outside)
    prepared(info)
    commit(info)
    assert outside.read_text() == "precious"
    assert not (info.parent / "vllm/x.py").is_symlink()


def test_the_lock_leaves_no_file(info: Path) -> None:
    before = snapshot(info.parent)
    with hold(info):
        assert snapshot(info.parent) == before
    found = find_info(info.parent, "vllm")
    assert found == info
