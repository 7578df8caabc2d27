"""issue.yaml as types."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from patchkit.recipe.model.fields import ModuleName, Regex, RelativePath, Slug, Strict, When

Fidelity = Literal["real", "stubbed", "static", "needs-gpu"]


class Expects(Strict):
    """What the repro must answer without and with the series."""

    without: Literal["good", "bad"] = Field("bad", description="Answer without the series")
    with_: Literal["good", "bad"] = Field("good", alias="with", description="Answer with the series")


class Metric(Strict):
    """What a repro measures, in whatever unit: typical values without and with the fault, or what divides them."""

    good: float = Field(description="A typical value without the fault")
    bad: float = Field(description="A typical value with it; on the other side of the threshold")
    threshold: float | None = Field(None, description="Where bad begins; none: half-way")

    @model_validator(mode="after")
    def _divides(self) -> Metric:
        low, high = sorted((self.good, self.bad))
        if not low < self.limit < high:
            raise ValueError("`good` and `bad` must differ, and `threshold` must lie between them")
        return self

    @property
    def limit(self) -> float:
        """Return where bad begins."""
        return (self.good + self.bad) / 2 if self.threshold is None else self.threshold

    def is_bad(self, value: float) -> bool:
        """Return whether a value lies on the side of the fault."""
        return value >= self.limit if self.bad > self.good else value <= self.limit


class Repro(Strict):
    """One script that tells good from bad."""

    name: Slug = Field(description="Name of the repro, for `issue/repro`")
    fidelity: Fidelity = Field(description="What a pass proves; `needs-gpu` runs only when named as `issue/repro`")
    script: RelativePath = Field(description="The script or pytest file, relative to issue.yaml")
    environment: Slug | None = Field(None, description="A file of recipes/environments, no .txt; none: plain Python")
    signature: Regex | None = Field(None, description="Overrides the issue's signature")
    timeout_seconds: int = Field(300, gt=0, description="The whole process group is ended after this time")
    repeat: int = Field(1, ge=1, le=100, description="Runs per verdict; runs that disagree are a skip")
    pair: bool = Field(
        False, description="Gets the tree of the upstream that `pairs-with` names too: PATCHKIT_PAIR_TREE, PYTHONPATH"
    )
    metric: Metric | None = Field(
        None, description="The script prints `patchkit: metric=NUMBER` and exits 0: bad or good by the number"
    )
    flaky: bool = Field(False, description="Runs may err: bisect weighs many runs and answers with probabilities")


class Issue(Strict):
    """issue.yaml: one upstream issue, its signatures and its repros (the first is the default, cheapest first)."""

    format: Literal[1] = Field(description="Version of this file format")
    title: str = Field(description="The symptom, in one line")
    links: tuple[str, ...] = Field((), description="URLs of reports and fixes")
    upstream: Slug = Field("vllm", description="The upstream that has the fault")
    affects: tuple[When, ...] = Field((), description="Conditions: where the fault is known to be")
    signature: Regex = Field(description="Regular expression; a failure whose output lacks it is a skip, not a bad")
    log_signatures: tuple[Regex, ...] = Field((), description="Regular expressions that tell the issue in real logs")
    uses: tuple[ModuleName, ...] = Field((), description="Modules of issues/shared that the scripts import, no .py")
    expects: Expects = Field(Expects(), description="What the repros must answer")
    repros: tuple[Repro, ...] = Field(min_length=1, description="The repros, cheapest first")
