"""Whatever bytes come from outside: a complaint, or a patch that reads back as itself; never a traceback."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from patchkit.errors import RequestError
from patchkit.stack.carry.intake.arrival import take_text
from patchkit.stack.carry.mail import read_sheets, write_author
from patchkit.stack.patch import parse_patches
from tests.fuzz.mangle import FUZZ, mangled
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


@FUZZ
@given(data=mangled(SEEDS))
def test_what_comes_in_is_refused_or_reads_back_as_itself(data: bytes) -> None:
    try:
        arrivals = take_text("x.patch", data)
    except RequestError:
        return
    for arrival in arrivals:
        (again,) = take_text("x.patch", arrival.text)
        assert again.text == arrival.text
        assert again.parts == arrival.parts
        if arrival.preamble:  # none: no mail can hold such a header
            names = [write_author(one.header.author) for one in (again, arrival)]
            assert names[0] == names[1]
            assert replace(again.header, author="") == replace(arrival.header, author="")


@FUZZ
@given(data=mangled(SEEDS))
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
