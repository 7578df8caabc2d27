"""One line of a log → its writer: who wrote it, on which rank, when, and the text behind all prefixes.

Logs of many processes reach one file through docker, kubectl, journald, slurm, Ray and vLLM, and each puts a prefix in
front.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

MOST_LINE_CHARACTERS = 16_000  # the rest of a longer line (a config, a base64 image) tells nothing and costs memory
MOST_PREFIXES = 8  # docker + compose + slurm + Ray + vLLM's two are six

PROCESS = re.compile(r"\((?P<name>[A-Za-z_][\w.]*(?: [A-Z]\w*)?) pid=(?P<pid>\d+)(?:, ip=(?P<host>[\w.:-]+))?\) ?")
USUAL = re.compile(  # vLLM's own two prefixes, which nearly all lines have, read in one go; no further prefix behind
    r"\((\w+) pid=(\d+)\) (?:(DEBUG|INFO|WARNING|ERROR|CRITICAL)"
    r"(?: (\d\d)-(\d\d) (\d\d:\d\d:\d\d) \[([\w./]+:\d+)\] ?|:\s+)|(?![(\[{]|\d|[A-Z]+:? ))"
)
RANK = re.compile(r"\[(?:rank|default)(?P<rank>\d+)\]: ?")
POD = re.compile(r"\[(?P<host>pod/[\w./-]+)\] ")
ISO_TIME = re.compile(
    r"\[?(?P<month>\d\d(?=-\d\d[T ]))?(?:\d{4}-(?P<month2>\d\d))?-(?P<day>\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)"
    r"(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?(?: std(?:out|err) [FP])? "
)
TASK = re.compile(r" {0,3}(?P<rank>\d{1,5}): (?!\d)")
HEADER = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<month>\d\d)-(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)(?:\.\d+)? "
    r"\[(?P<place>[^\]]{1,200}:\d+)\] ?"
)
COMPOSE = re.compile(r"(?P<host>[A-Za-z0-9][\w./-]{0,100}) *\| ")
JOURNAL = re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?P<host>[\w.-]+) [\w@./-]+(?:\[\d+\])?: ")
BARE_LEVEL = re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):\s+")
FOREIGN = re.compile(  # whatever else stands in front of what is surely vLLM's own
    r".{1,120}?(?=\((?:Worker|EngineCore|APIServer|RayWorker)\w* pid=\d"
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[)"
)
WORD = re.compile(r"[A-Za-z][\w./-]*")
REPEATED = re.compile(r" ?\[repeated (\d+)x across cluster\].*$")
WORKER_RANK = re.compile(r"_(DP|PP|PCP|TP)(\d+)")
SPAWNED = re.compile(r"(?:Vllm|Ray)?Worker(?:Proc)?-(\d+)$")


# Where docker, fluent-bit, journald (-o json), Stackdriver and most loggers put the line.
TEXT_KEYS = ("log", "MESSAGE", "message", "msg", "textPayload", "line", "body")


class LogLine(NamedTuple):
    """One line, or the lines of a record, which stand together behind equal prefixes. `number` counts from 1.

    `numbers`: those of all lines of a record. `writer` tells processes apart; `rank` is '' where no prefix tells it.

    `level` and `place` (`core.py:1330`) are those of vLLM's logger, '' for output that bypassed it. `stamp` sorts as
    time (`11-29 12:00:00`), '' when unknown. `repeats`: on how many more ranks Ray saw the same line.
    """

    number: int
    writer: str
    process: str
    rank: str
    host: str
    level: str
    place: str
    stamp: str
    text: str
    repeats: int
    numbers: tuple[int, ...] = ()


def read_line(text: str, number: int = 1) -> LogLine:
    """Return a line with its prefixes read."""
    usual = USUAL.match(text)
    if usual:
        name, pid, level, month, day, clock, place = usual.groups()
        stamp = f"{month}-{day} {clock}" if month else ""
        writer, rank = _identity(name, pid, "", "")
        return LogLine(number, writer, name, rank, "", level or "", place or "", stamp, text[usual.end() :], 0)
    return _read_unusual(text, number)


def _read_unusual(text: str, number: int) -> LogLine:
    host, repeats = "", 0
    if text.startswith("{"):
        text, host = _open_record(text)
    if "x across cluster]" in text and (repeated := REPEATED.search(text)):
        repeats, text = int(repeated.group(1)[:6]), text[: repeated.start()]
    found = {"host": host} if host else dict[str, str]()
    for _ in range(MOST_PREFIXES):
        match = _prefix(text)
        if match is None:
            text, foreign = _cut_foreign(text)
            if not foreign:
                break
            found.setdefault("host", foreign)
            continue
        found.update({name: part for name, part in match.groupdict().items() if part})
        text = text[match.end() :]
        if match.re is HEADER or match.re is BARE_LEVEL:
            break
    process, host, month = found.get("name", ""), found.get("host", ""), found.get("month") or found.get("month2", "")
    writer, rank = _identity(process, found.get("pid", ""), host, found.get("rank", ""))
    stamp = f"{month}-{found['day']} {found['clock']}" if month else ""
    level, place = found.get("level", ""), found.get("place", "")
    return LogLine(number, writer, process, rank, host, level, place, stamp, text, repeats)


def _prefix(text: str) -> re.Match[str] | None:
    """Return the prefix that a text begins with; the first character tells which ones it may be."""
    first = text[:1]
    if first == "(":
        return PROCESS.match(text)
    if first == "[":
        return RANK.match(text) or POD.match(text) or ISO_TIME.match(text)
    if first.isdigit():
        return ISO_TIME.match(text) or TASK.match(text) or COMPOSE.match(text)
    if first == " ":
        return TASK.match(text)
    if "A" <= first <= "Z":
        return HEADER.match(text) or BARE_LEVEL.match(text) or JOURNAL.match(text) or COMPOSE.match(text)
    return COMPOSE.match(text) if first.isalpha() else None


def _cut_foreign(text: str) -> tuple[str, str]:
    """Return the text from vLLM's own prefix on, and the last word before it; '' where there is nothing to cut."""
    match = FOREIGN.match(text) if " pid=" in text or " [" in text else None
    if match is None:
        return text, ""
    return text[match.end() :], (WORD.findall(match.group()) or ["?"])[-1]


def read_record(text: str, number: int) -> Iterator[LogLine]:
    """Yield the lines of a record of vLLM's JSON logger, or the text as a line where it is none."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or "levelname" not in record:
        yield read_line(text[:MOST_LINE_CHARACTERS], number)
        return
    process = str(record.get("processName", ""))[:100]
    writer, rank = _identity(process, str(record.get("process", ""))[:20], "", "")
    time = ISO_TIME.match(f"{record.get('asctime', '')} ")
    stamp = f"{time['month'] or time['month2']}-{time['day']} {time['clock']}" if time else ""
    level, place = str(record["levelname"]), str(record.get("name", ""))
    for line in f"{record.get('message', '')}\n{record.get('exc_info') or ''}".rstrip().split("\n"):
        yield LogLine(number, writer, process, rank, "", level, place, stamp, line[:MOST_LINE_CHARACTERS], 0)


@lru_cache(maxsize=4096)
def _identity(process: str, pid: str, host: str, rank: str) -> tuple[str, str]:
    """Return what tells the writer apart, and the name of its rank."""
    writer = f"{host}/{process}/{pid}/{rank}"
    parallel = " ".join(f"{kind}{index}" for kind, index in WORKER_RANK.findall(process))
    if parallel:
        return writer, parallel
    spawned = SPAWNED.match(process)
    if rank or spawned:
        return writer, f"rank {int(rank or (spawned[1] if spawned else 0))}"
    if process == "Worker" or process.startswith("RayWorker"):  # before vLLM has set up its groups, or for good
        return writer, f"pid {pid}" + (f" on {host}" if host else "")
    return writer, ""


def _open_record(text: str) -> tuple[str, str]:
    """Return the line within a JSON record of whatever collects logs, and its host; the text where it is none."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text, ""
    if not isinstance(record, dict):
        return text, ""
    inner = next((record[key] for key in TEXT_KEYS if isinstance(record.get(key), str)), None)
    if inner is None:
        return text, ""
    pod = record.get("kubernetes")
    hosts = (pod.get("pod_name") if isinstance(pod, dict) else None, record.get("_HOSTNAME"), record.get("hostname"))
    return inner.rstrip("\r\n"), next((host[:100] for host in hosts if isinstance(host, str)), "")
