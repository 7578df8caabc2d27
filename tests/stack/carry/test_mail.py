"""Text around diffs: what the author wrote stays, what a program counted goes, and `git am` reads what we write."""

from __future__ import annotations

import pytest

from patchkit.stack.carry.mail import read_sheets, write_author, write_preamble
from patchkit.stack.patch import Header, parse_patches
from tests.stack.patch.test_mailbox import DIFF, FROM, MAIL


def test_a_mail_keeps_its_header_and_message_and_loses_stat_and_signature() -> None:
    (sheet,) = read_sheets(MAIL.encode())
    text = sheet.preamble.decode()
    assert text == MAIL[: MAIL.index("---\n") + 4]
    assert sheet.patch == parse_patches(MAIL.encode())[0]


def test_notes_behind_the_mark_stay() -> None:
    mail = MAIL.replace("---\n x.py", "---\nv2: shorter\n\n x.py")
    assert read_sheets(mail.encode())[0].preamble.endswith(b"---\nv2: shorter\n")


def test_every_mail_of_a_box_keeps_its_own_and_a_cover_letter_stays() -> None:
    cover = f"{FROM}From: A <a@example.org>\nSubject: [PATCH 0/2] German\n\nAll of it.\n\n-- \n2.39.5\n\n"
    second = MAIL.replace("x.py", "y.py").replace("Because", "Since")
    one, other = read_sheets((cover + MAIL + second).encode())
    assert b"All of it." in one.preamble
    assert b"Because" in one.preamble
    assert (other.preamble.startswith(FROM.encode()), b"Since" in other.preamble) == (True, True)
    assert b"2.39.5" not in other.preamble


def test_a_bare_diff_has_nothing_before_it_and_prose_stays() -> None:
    assert read_sheets(DIFF.encode())[0].preamble == b""
    assert read_sheets(f"Why: it is shorter.\n\n{DIFF}".encode())[0].preamble == b"Why: it is shorter.\n\n"
    traditional = "Index: x.py\n=====\n--- x.py.orig\n+++ x.py\n@@ -1 +1 @@\n-1\n+2\n"
    assert read_sheets(f"diff -ru a b\n{traditional}".encode(), strip=0)[0].preamble == b""


def test_reading_what_was_kept_changes_nothing() -> None:
    for text in (MAIL, f"Prose.\n\n{DIFF}", MAIL.replace("---\n x.py", "---\nnote\n x.py")):
        first = read_sheets(text.encode())[0].preamble
        assert read_sheets(first + DIFF.encode())[0].preamble == first


def test_a_mail_with_a_transfer_encoding_is_written_in_plain_text() -> None:
    head, _, body = MAIL.partition("\n\n")
    mail = f"{head}\nContent-Transfer-Encoding: quoted-printable\n\n{body.replace('=', '=3D')}".encode()
    text = read_sheets(mail)[0].preamble.decode()
    assert "From: Jörg <joerg@example.org>\n" in text
    assert "charset=UTF-8" in text
    assert parse_patches(text.encode() + DIFF.encode())[0].header == parse_patches(mail)[0].header


@pytest.mark.parametrize(
    ("author", "written"),
    [
        ("Ada Author <ada@example.org>", "Ada Author <ada@example.org>"),
        ("J. Doe <j@example.org>", '"J. Doe" <j@example.org>'),
        ('"J. Doe" <j@example.org>', '"J. Doe" <j@example.org>'),
        ('A "B" C <j@example.org>', '"A \\"B\\" C" <j@example.org>'),
        ("j@example.org", "<j@example.org>"),
        ("Ada", "Ada <nobody@localhost>"),
        ("", "nobody <nobody@localhost>"),
        ("Ada <>", "Ada <nobody@localhost>"),
    ],
)
def test_an_author_is_written_as_mail_programs_read_it(author: str, written: str) -> None:
    assert write_author(author) == written


def test_a_header_comes_back_whatever_its_message_looks_like() -> None:
    header = Header(
        "J. Doe <j@x.org>", "A [B] title: ü", "Tue, 14 Nov 2023 22:13:20 +0100", "Text.\n\n---\ndiff -u\nEnd."
    )
    again = parse_patches(write_preamble(header) + DIFF.encode())[0].header
    assert (again.subject, again.date) == (header.subject, header.date)
    assert again.body == "Text.\n\n ---\n diff -u\nEnd."


def test_an_author_without_an_address_is_not_lost_with_the_encoding() -> None:
    head, _, body = MAIL.replace("=?UTF-8?q?J=C3=B6rg?= <joerg@example.org>", "Ada").partition("\n\n")
    mail = f"{head}\nContent-Transfer-Encoding: quoted-printable\n\n{body.replace('=', '=3D')}".encode()
    assert b"\nFrom: Ada <nobody@localhost>\n" in read_sheets(mail)[0].preamble
