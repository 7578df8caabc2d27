"""How far a bisect is, for a line that is redrawn: what is left, what runs, how long it may take. Pure: time is told.

The minutes are those of the probes that ran in this session: what is left to search in halves, then the confirmation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchkit.report.text import seconds
from patchkit.search.decision import count_steps

MOST_RUNNING = 4  # told one by one


@dataclass
class BisectProgress:
    """What is known of a running bisect. `confirm` are the runs of the culprit and of a parent that the end takes."""

    jobs: int = 1
    confirm: int = 3
    left: int = 0
    bits: float = 0.0
    probes: int = 0
    builds: int = 0
    stage: str = "ends"
    running: dict[str, float] = field(default_factory=dict)  # node → when it began
    took: list[float] = field(default_factory=list)
    confirming: int = 0  # runs of the confirmation that are done

    def take(self, event: Mapping[str, Any], now: float) -> None:
        """Take an event of the bisect, told at a time (seconds)."""
        kind = event["event"]
        if kind == "start":
            self.left, self.stage, self.confirming = event["commits"], "ends", 0
            self.running.clear()
        elif kind == "ask":
            self.stage = event["stage"]
            self.running.update(dict.fromkeys(event["nodes"], now))
        elif kind == "prepared":
            self.builds += bool(event["build_seconds"])
        elif kind == "cancelled":
            self.running.pop(event["node"], None)
        elif kind == "probe":
            self.probes += 1
            self.builds += bool(event.get("build_seconds"))
            self.confirming += event["stage"] == "confirm"
            self.left, self.bits = event["left"], event["bits"]
            began = self.running.pop(event["node"], now)
            if not event["reused"]:
                self.took.append(now - began)

    def minutes_left(self, now: float) -> float | None:
        """Return an estimate, None before anything ran."""
        if not self.took:
            return None
        mean = sum(self.took) / len(self.took)
        steps = max(count_steps(self.left), round(self.bits)) if self.left > 1 else 0
        runs = steps + max(2 * (self.confirm - 1) - self.confirming, 0)
        under_way = sum(min(now - began, mean) for began in self.running.values())
        return max(runs * mean - under_way, 0.0) / self.jobs / 60

    def line(self, now: float) -> str:
        """Return the line."""
        parts = [f"{self.left} left ({self.bits:.1f} bits)" if self.bits else f"{self.left} left"]
        parts.append(f"{self.probes} probe{'s' * (self.probes != 1)}")
        if self.builds:
            parts.append(f"{self.builds} build{'s' * (self.builds != 1)}")
        if self.running:
            named = [f"{node[:12]} {seconds(now - began)}" for node, began in self.running.items()]
            more = f" and {len(named) - MOST_RUNNING} more" if len(named) > MOST_RUNNING else ""
            parts.append(f"{self.stage} " + ", ".join(named[:MOST_RUNNING]) + more)
        minutes = self.minutes_left(now)
        if minutes is not None:
            parts.append("less than a minute left" if minutes < 1 else f"about {minutes:.0f} min left")
        return " · ".join(parts)
