"""Ways in which a text is spoiled on its way: by mail readers, editors, hands, and by somebody who means harm."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

FEW = 40  # examples of each test in the normal suite; `nox -s fuzz` has its own profile
EXAMPLES = settings.default.max_examples if settings.get_current_profile_name() == "fuzz" else FEW  # type: ignore[union-attr]
FUZZ = settings(max_examples=EXAMPLES, deadline=None)
PATHS = (
    b"../x",
    b"/etc/x",
    b".git/config",
    b"a//b",
    b"vllm",
    b"vllm/a.py/x",
    b"\xff",
    b"dev/null",
    b"x" * 5000,
    b'"\\',
)
LINES = (
    b"diff --git a/vllm/a.py b/vllm/a.py",
    b"--- /dev/null",
    b"+++ b/../../x",
    b"@@ -1,3 +1,3 @@",
    b"@@ -0,0 +1 @@",
    b"@@ -99999999999999999999,1 +1,1 @@",
    b"@@@ -1 -1 +1 @@@",
    b"new file mode 120000",
    b"deleted file mode 100644",
    b"old mode 100644",
    b"rename from vllm/a.py",
    b"rename to ../b.py",
    b"copy from vllm/a.py",
    b"similarity index 101%",
    b"index 0000000..fffffff 160000",
    b"GIT binary patch",
    b"literal 99999999999",
    b"delta 3",
    b"zcmZ",
    b"Binary files a/x and b/x differ",
    b"\\ No newline at end of file",
    b"From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001",
    b"Subject: =?utf-8?b?w6T?=",
    b"Content-Transfer-Encoding: base64",
    b"Content-Transfer-Encoding: quoted-printable",
    b"Content-Type: multipart/mixed; boundary=x",
    b"---",
    b"-- ",
    b"",
    b" ",
    b"\x00",
)


@st.composite
def mangled(draw: st.DrawFn, texts: list[bytes], words: tuple[bytes, ...] = LINES) -> bytes:
    """Return one of the texts with up to four things done to it, or some lines that look like it."""
    if draw(st.integers(0, 19)) == 0:
        return b"\n".join(draw(st.lists(st.sampled_from(words), max_size=12)))
    lines = draw(st.sampled_from(texts)).split(b"\n")
    for _ in range(draw(st.integers(1, 4))):
        lines = _spoil(draw, lines, words)
    return b"\n".join(lines)


def _spoil(draw: st.DrawFn, lines: list[bytes], words: tuple[bytes, ...]) -> list[bytes]:
    at = draw(st.integers(0, max(0, len(lines) - 1)))
    line = lines[at] if lines else b""
    cut = draw(st.integers(0, len(line)))
    kind = draw(st.sampled_from(["drop", "double", "swap", "insert", "spoil", "cut", "path", "strip", "count", "all"]))
    if kind == "cut":
        return [*lines[:at], line[:cut]]
    if kind == "all":
        return [one + b"\r" for one in lines]
    word = draw(st.sampled_from(words))
    spoiled = {
        "drop": [],
        "double": [line, line],
        "swap": [word],
        "insert": [line, word],
        "spoil": [line[:cut] + draw(st.binary(max_size=3)) + line[cut + 1 :]],
        "path": [line.replace(b"vllm/a.py", draw(st.sampled_from(PATHS)))],
        "strip": [line.rstrip()],
        "count": [bytes(byte ^ 1 if 48 <= byte < 58 else byte for byte in line)],
    }
    return [*lines[:at], *spoiled[kind], *lines[at + 1 :]]
