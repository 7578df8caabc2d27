"""Binary patches as git itself writes them: literal and delta, forward and back."""

from __future__ import annotations

import random
import zlib

import pytest

from patchkit.stack.outcome import Outcome
from patchkit.stack.patch import MalformedPatch, parse_patches
from patchkit.stack.patch.binary import BinaryHunk, blob_id, decode_hunk
from tests.stack.bench import Desk
from tests.stack.realgit import RealGit

NOISE = random.Random(7).randbytes(3000)
EDITED = NOISE[:1000] + b"\0 in the middle" + NOISE[1500:]


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (NOISE, EDITED, "delta"),
        (b"\0one", b"\0two and more", "literal"),
        (None, NOISE, "literal"),
        (NOISE, None, "literal"),
    ],
)
def test_a_binary_patch_of_git_applies_and_reverses(
    desk: Desk, real_git: RealGit, old: bytes | None, new: bytes | None, kind: str
) -> None:
    before = {} if old is None else {"w.bin": old}
    after = {} if new is None else {"w.bin": new}
    diff = real_git.diff(before, after)
    assert f"\n{kind} ".encode() in diff
    attempt, files = desk.apply(before, diff)
    assert (attempt.outcome, files) == (Outcome.CLEAN, after)
    again, _ = desk.apply(after, diff)
    assert again.outcome is Outcome.ALREADY_UPSTREAM
    (patch,) = parse_patches(diff)
    assert patch.reverse().reverse() == patch


def test_a_binary_patch_on_another_content_is_a_conflict(desk: Desk, real_git: RealGit) -> None:
    attempt, files = desk.apply({"w.bin": b"\0other"}, real_git.diff({"w.bin": NOISE}, {"w.bin": EDITED}))
    assert (attempt.outcome, files) == (Outcome.CONFLICT, {"w.bin": b"\0other"})


def test_a_binary_patch_without_full_ids_is_broken(desk: Desk, real_git: RealGit) -> None:
    diff = real_git.diff({"w.bin": NOISE}, {"w.bin": EDITED})
    shortened = diff.replace(blob_id(NOISE).encode(), blob_id(NOISE)[:10].encode())
    attempt, _ = desk.apply({"w.bin": NOISE}, shortened)
    assert attempt.outcome is Outcome.BROKEN
    assert "full ids" in attempt.detail


def test_damaged_binary_data_is_refused(real_git: RealGit) -> None:
    diff = real_git.diff({}, {"w.bin": NOISE})
    at = diff.index(b"\nz") + 20
    with pytest.raises(MalformedPatch):
        parse_patches(diff[:at] + b"#" + diff[at + 1 :])


@pytest.mark.parametrize(("size", "data"), [(1 << 40, b""), (3, zlib.compress(b"four")), (4, b"no zlib")])
def test_a_size_that_is_wrong_or_enormous_is_refused(size: int, data: bytes) -> None:
    import base64

    line = bytes([ord("A") + len(data) - 1]) + base64.b85encode(data.ljust(-(-len(data) // 4) * 4, b"\0"))
    with pytest.raises(ValueError, match="binary"):
        decode_hunk("literal", size, [line] if data else [])


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        (b"\x03\x01\x90\x01", "another content"),
        (b"\x02\x05\x91\x01\x09", "beyond the end"),
        (b"\x02\x01\x00", "unknown instruction"),
        (b"\x02\x05\x01x", "another length"),
        (b"\x02\x05\x91", "too early"),
    ],
)
def test_a_delta_that_does_not_fit_is_refused(delta: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BinaryHunk("delta", delta).apply(b"ab")
