"""RECORD: read, edited and written without losing what it does not understand."""

from __future__ import annotations

import pytest

from patchkit.errors import RequestError
from patchkit.source.installed.record import Row, agrees, dump_record, edit_rows, parse_record, row_of

TEXT = b'a.py,sha256=x,1\r\n"odd,name.py",,\r\nd/RECORD,,\r\n'


def test_what_is_read_is_written_back_byte_for_byte() -> None:
    assert dump_record(parse_record(TEXT, "RECORD"), TEXT) == TEXT
    plain = TEXT.replace(b"\r\n", b"\n")
    assert dump_record(parse_record(plain, "RECORD"), plain) == plain


def test_a_row_is_the_digest_that_pip_writes() -> None:
    assert row_of("a", b"") == Row("a", "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU", "0")


def test_a_file_agrees_with_its_own_row_and_with_one_that_says_nothing() -> None:
    assert agrees(row_of("a", b"x"), b"x")
    assert agrees(Row("a", "", ""), b"anything")
    assert not agrees(row_of("a", b"x"), b"y")


def test_files_are_changed_in_place_added_in_order_and_taken_out() -> None:
    rows = parse_record(TEXT, "RECORD")
    edited = edit_rows(rows, {"z.py": b"z", "a.py": b"new", "b.py": b"b", "odd,name.py": None})
    assert [row.path for row in edited] == ["a.py", "d/RECORD", "b.py", "z.py"]
    assert edited[0] == row_of("a.py", b"new")


@pytest.mark.parametrize("text", [b"a,,\na,,\n", b"\xff,,\n"])
def test_a_record_that_cannot_be_right_is_refused(text: bytes) -> None:
    with pytest.raises(RequestError):
        parse_record(text, "RECORD")
