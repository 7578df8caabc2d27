"""A failure as one process told it, and how much it counts when several tell theirs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

# Frames that only hand a call on: where an error passes through, never where it comes from.
WRAPPERS = re.compile(
    r"vllm/(?:v1/executor/|v1/engine/|v1/serial_utils|v1/worker/worker_base|v1/utils|entrypoints/|compilation/|utils/|tracing"
    r"|_custom_ops|env_override|executor/|ir/op|model_executor/custom_op|distributed/(?:parallel_state|utils|communication_op"
    r"|device_communicators)|logger|plugins/|v1/worker/ubatch)"
)
PRODUCT = re.compile(r"(?:^|/)(vllm(?:_[a-z]+)?/(?!.*site-packages/).*)$")
VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\d+")


class Weight(IntEnum):
    """How much a failure says about the cause; the smallest is the cause."""

    CAUSE = 0  # ended its process
    DEATH = 1  # a process that was killed or crashed without a word
    ERROR = 2  # told as an error, but perhaps survived: a request that failed
    SECONDARY = 3  # what other processes see of a cause: time-outs, closed connections
    CUT = 4  # a traceback without its end
    WRAPPER = 5  # "see root cause above"
    HANDLED = 6  # a warning that shows a traceback


@dataclass(frozen=True)
class Frame:
    """One frame of a traceback; `code` is its source line, '' when the log does not show it."""

    path: str
    line: int
    function: str
    code: str = ""

    @cached_property
    def product_path(self) -> str:
        """Return the path from vllm/ (or vllm_ascend/ …) on, '' for other code."""
        match = PRODUCT.search(self.path.replace("\\", "/"))
        return match.group(1) if match else ""

    @cached_property
    def wraps(self) -> bool:
        """Return whether the frame only hands a call on."""
        return bool(WRAPPERS.match(self.product_path))

    def __str__(self) -> str:
        return f"{self.product_path or self.path}:{self.line} in {self.function}"


@dataclass(frozen=True)
class Raised:
    """One exception: type, message as it stands in the log (many lines), frames outermost first.

    `link` says how it came out of the one before it: `cause`, `context` or ''.
    """

    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    link: str = ""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.type and self.message else self.type or self.message


@dataclass(frozen=True)
class Story:
    """What was told, whoever told it and when: a chain of exceptions, first raised first, or one fatal line.

    `kind` is the name of its kind (`kinds.KINDS`), '' for one that is not known.
    """

    chain: tuple[Raised, ...]
    root: Raised
    weight: Weight
    kind: str

    @cached_property
    def frame(self) -> Frame | None:
        """Return the innermost frame in product code that is not a mere wrapper; without one, the innermost at all.

        An exception that a library raised is followed outwards: the product's frames are those of the later exceptions.
        """
        after = self.chain[self.chain.index(self.root) :] if self.root in self.chain else ()
        frames = [frame for raised in reversed((self.root, *after[1:])) for frame in raised.frames]
        frames = frames or [frame for raised in self.chain for frame in raised.frames]
        product = [frame for frame in frames if frame.product_path]
        own = [frame for frame in product if not frame.wraps]
        return next(iter(own[-1:] or product[-1:] or frames[-1:]), None)

    @cached_property
    def identity(self) -> tuple[str, str, str]:
        """Return what is the same for the same failure on another rank or in another run: numbers do not count."""
        frame = self.frame
        where = f"{frame.product_path or frame.path}:{frame.function}" if frame else ""
        return self.root.type, VARIABLE.sub("N", self.root.message[:300]), where

    @cached_property
    def by_ray(self) -> bool:
        """Return whether Ray told it of a worker, in the process that waited for that one."""
        return any(raised.type.startswith("ray.exceptions.") for raised in self.chain)

    @property
    def text(self) -> str:
        """Return the chain and its frames as text, as signatures are searched in."""
        parts = []
        for raised in self.chain:
            parts += [
                f'  File "{one.path}", line {one.line}, in {one.function}\n    {one.code}' for one in raised.frames
            ]
            parts.append(str(raised))
        return "\n".join(parts)


@dataclass(frozen=True)
class Failure:
    """A story with the process that told it; `stamp` and `line` say where it stands in the log.

    `repeats`: on how many more ranks Ray saw it.
    """

    story: Story
    process: str
    rank: str
    host: str
    stamp: str
    line: int
    repeats: int = 0

    @property
    def chain(self) -> tuple[Raised, ...]:
        """Return the exceptions, first raised first."""
        return self.story.chain

    @property
    def root(self) -> Raised:
        """Return the exception that tells the cause."""
        return self.story.root

    @property
    def weight(self) -> Weight:
        """Return how much it says about the cause."""
        return self.story.weight

    @property
    def identity(self) -> tuple[str, str, str]:
        """Return the story's identity."""
        return self.story.identity
