"""Mailboxes and the text around diffs."""

from __future__ import annotations

import base64
import quopri

import pytest

from patchkit.stack.patch import MalformedPatch, parse_patches

DIFF = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-one\n+eins\n"
FROM = "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n"
MAIL = (
    f"{FROM}From: =?UTF-8?q?J=C3=B6rg?= <joerg@example.org>\nDate: Tue, 14 Nov 2023 22:13:20 +0000\n"
    "Subject: [PATCH v2 1/2] count in\n =?UTF-8?q?German_=C3=BC?=\n\nBecause it is shorter.\n\nFrom here on.\n---\n"
    f" x.py | 2 +-\n 1 file changed\n\n{DIFF}-- \n2.39.5\n\n"
)


def test_a_mail_tells_author_date_subject_and_why() -> None:
    (patch,) = parse_patches(MAIL.encode())
    assert patch.header.author == "Jörg <joerg@example.org>"
    assert patch.header.date == "Tue, 14 Nov 2023 22:13:20 +0000"
    assert patch.header.subject == "count in German ü"
    assert patch.header.body == "Because it is shorter.\n\nFrom here on."
    assert [file.path for file in patch.files] == ["x.py"]


def test_a_mailbox_holds_several_patches_and_a_cover_letter() -> None:
    cover = f"{FROM}From: A <a@example.org>\nSubject: [PATCH 0/2] German\n\nAll of it.\n\n-- \n2.39.5\n\n"
    second = MAIL.replace("x.py", "y.py").replace("1/2", "2/2")
    patches = parse_patches((cover + MAIL + second).encode())
    assert [patch.files[0].path for patch in patches] == ["x.py", "y.py"]


def test_an_error_in_the_second_mail_has_its_line_in_the_file() -> None:
    data = (MAIL + MAIL.replace("+eins\n", "")).encode()
    with pytest.raises(MalformedPatch) as caught:
        parse_patches(data)
    assert data.split(b"\n")[caught.value.line - 1] == b"-- "
    assert caught.value.line > MAIL.count("\n")


def test_a_from_line_that_begins_the_text_is_the_author() -> None:
    mail = MAIL.replace("Because it", "From: Eva <eva@example.org>\n\nBecause it")
    header = parse_patches(mail.encode())[0].header
    assert (header.author, header.body.split("\n")[0]) == ("Eva <eva@example.org>", "Because it is shorter.")


@pytest.mark.parametrize(
    ("encoding", "encode"), [("quoted-printable", quopri.encodestring), ("base64", base64.encodebytes)]
)
def test_the_transfer_encoding_of_a_mail_is_undone(encoding: str, encode: object) -> None:
    head, _, body = MAIL.replace("+eins", "+é = 1").partition("\n\n")
    mail = f"{head}\nContent-Transfer-Encoding: {encoding}\n\n".encode() + encode(body.encode())  # type: ignore[operator]
    (patch,) = parse_patches(mail)
    assert patch.files[0].hunks[0].new == ["é = 1\n".encode()]


def test_a_base64_text_that_cannot_be_read_is_refused() -> None:
    head = MAIL.partition("\n\n")[0]
    with pytest.raises(MalformedPatch, match="base64"):
        parse_patches(f"{head}\nContent-Transfer-Encoding: base64\n\nabc\n".encode())


def test_a_quilt_patch_has_its_header_in_front() -> None:
    (patch,) = parse_patches(f"Description: count in German\nAuthor: Eva <eva@example.org>\n\n{DIFF}".encode())
    assert (patch.header.author, patch.header.subject) == ("Eva <eva@example.org>", "count in German")


def test_a_broken_encoded_word_is_kept_as_it_is() -> None:
    (patch,) = parse_patches(MAIL.replace("=?UTF-8?q?J=C3=B6rg?=", "=?no-such-charset?q?J?=").encode())
    assert "J" in patch.header.author


def test_a_byte_order_mark_is_passed_over_and_utf16_is_refused() -> None:
    assert parse_patches(b"\xef\xbb\xbf" + DIFF.encode())[0].files[0].git
    with pytest.raises(MalformedPatch, match="UTF-16"):
        parse_patches(DIFF.encode("utf-16"))


def test_prose_and_index_lines_around_a_plain_diff_are_passed_over() -> None:
    text = f"Hello,\n\nIndex: x.py\n{'=' * 67}\n{DIFF[DIFF.index('---') :]}\nOnly in b: y.py\n"
    assert [file.path for file in parse_patches(text.encode())[0].files] == ["x.py"]


@pytest.mark.parametrize("letter", [b"\0", b"\xff"])
def test_a_charset_that_is_no_name_leaves_the_header_as_it_is_written(letter: bytes) -> None:
    mail = MAIL.encode().replace(b"=?UTF-8?q?J", b"=?" + letter + b"UTF-8?q?J")
    assert parse_patches(mail)[0].header.author.endswith("<joerg@example.org>")
