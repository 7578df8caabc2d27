"""Read the fenced blocks of a Markdown file, with what a comment above a block says about running it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--\s*(not run|test command)(?::\s*(.*?))?\s*-->\s*$")


@dataclass(frozen=True)
class Block:
    """A fenced block. `remark`: what the comment above says, `not run` or `test command`; `reason`: why."""

    file: str
    line: int
    language: str
    text: str
    remark: str
    reason: str


def read_blocks(path: Path, root: Path) -> list[Block]:
    """Return the blocks of a file in order."""
    text = path.read_text(encoding="utf-8")
    blocks = []
    for match in FENCE.finditer(text):
        comment = COMMENT.search(text[: match.start()])
        remark, reason = (comment.group(1), comment.group(2) or "") if comment else ("", "")
        line = text.count("\n", 0, match.start()) + 1
        blocks.append(Block(str(path.relative_to(root)), line, match.group(1), match.group(2), remark, reason))
    return blocks


def transcript_parts(text: str) -> list[tuple[str, str]]:
    """Split a console transcript into (command, expected output) pairs."""
    parts: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            parts.append((line[2:], ""))
        elif parts:
            command, output = parts[-1]
            parts[-1] = (command, f"{output}{line}\n")
    return parts


def normalise(text: str) -> str:
    """Replace what differs between runs: seconds, hashes, sizes, run folders; trailing white space goes."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    text = re.sub(r"\b\d+(\.\d+)? ?(s|ms)\b", "N s", text)
    text = re.sub(r"\b\d+(\.\d+)? (kB|MB|GB|MiB)\b", "N MB", text)
    text = re.sub(r"\b[0-9a-f]{12,64}\b", "HASH", text)
    text = re.sub(r"/\S*/", "…/", text)
    return "\n".join(re.sub(r"\s+", " ", line).strip() for line in text.strip().splitlines())
