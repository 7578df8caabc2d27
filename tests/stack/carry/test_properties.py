"""Whatever bytes come from outside: a complaint, or a patch that reads back as itself; never a traceback."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchkit.errors import RequestError
from patchkit.stack.carry.intake.arrival import take_text
from patchkit.stack.carry.mail import read_sheets
from patchkit.stack.patch import parse_patches
from tests.stack.patch.test_mailbox import DIFF, MAIL

BINARY = """diff --git a/b.bin b/b.bin
index ba7b90be2e9ff03d9c6de3a1d2a5fd8b6f0a7b0b..1f2a4f5ef3df7f7456d91c961da36fc58904f2f1 100644
GIT binary patch
literal 3
Kcmb1PWMlyV0QdkI

literal 2
JcmZP)VF&;K00aO4

"""
MOVED = (
    "diff --git a/old b/new\nold mode 100644\nnew mode 100755\nsimilarity index 100%\nrename from old\nrename to new\n"
)
INSTALLED = DIFF.replace("a/x.py", "/usr/lib/python3/dist-packages/v/x.py").replace(
    "b/x.py", "/usr/lib/python3/dist-packages/v/x.py"
)
SEEDS = [
    text.encode()
    for text in (DIFF, MAIL, MAIL + MAIL, BINARY, MOVED, INSTALLED, MAIL.replace("\n", "\r\n"), f"Why.\n\n{DIFF}")
]
PIECES = st.sampled_from(
    [
        *(b"", b"\n", b"--- ", b"+++ b/", b"@@ -1 +1 @@\n", b"From ", b"---\n", b"\r", b"\0", b"\xff", b"../"),
        *(b"diff --git a/x b/x\n", b" | 2 +-\n"),
    ]
)
MANY = settings(
    max_examples=int(os.environ.get("PATCHKIT_FUZZ", "200")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """Return a patch file of which pieces were cut out, doubled, or put in."""
    data = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(0, 4))):
        at, end = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        kind = draw(st.integers(0, 2))
        if kind == 0:
            data = data[:at] + data[min(end, at + 40) :]
        elif kind == 1:
            data = data[:end] + data[at:]
        else:
            data = data[:at] + draw(PIECES) + data[at:]
    return data


@MANY
@given(data=mangled())
def test_what_comes_in_is_refused_or_reads_back_as_itself(data: bytes) -> None:
    try:
        arrivals = take_text("x.patch", data)
    except RequestError:
        return
    for arrival in arrivals:
        (again,) = take_text("x.patch", arrival.text)
        assert again.text == arrival.text
        assert again.parts == arrival.parts
        assert again.header == arrival.header or not arrival.preamble  # no mail can hold such a header


@MANY
@given(data=mangled())
def test_a_preamble_that_was_read_stays_as_it_is(data: bytes) -> None:
    try:
        patches = parse_patches(data)
    except ValueError:
        return
    sheets = read_sheets(data)
    assert tuple(sheet.patch for sheet in sheets) == patches
    for sheet in sheets:
        (again,) = read_sheets(sheet.preamble + DIFF.encode())
        assert again.preamble == sheet.preamble
