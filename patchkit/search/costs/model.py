"""What a probe of a node costs in seconds: its test, and whatever has to be made before it can run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Costs:
    """Seconds, and the keys under which a build or an environment is kept (opaque: equal keys share one).

    `build_keys` and `environment_keys` map nodes to keys, ends included; a node without a key needs none. `built` and
    `made` are the keys at hand. `key_seconds` are builds that cost other than `build_seconds`: a wheel to download.
    """

    test_seconds: float = 1.0
    build_seconds: float = 0.0
    environment_seconds: float = 0.0
    build_keys: Mapping[str, str] = field(default_factory=dict)
    built: frozenset[str] = frozenset()
    environment_keys: Mapping[str, str] = field(default_factory=dict)
    made: frozenset[str] = frozenset()
    key_seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_level(self) -> bool:
        """Return whether every probe costs the same."""
        return all(self.setup_seconds(node) == 0 for node in {*self.build_keys, *self.environment_keys})

    def setup(self, node: str) -> tuple[str, str]:
        """Return the keys of what a node needs."""
        return self.build_keys.get(node, ""), self.environment_keys.get(node, "")

    def setup_seconds(self, node: str) -> float:
        """Return the seconds until a node's test can start."""
        build, environment = self.setup(node)
        seconds = 0.0
        if build and build not in self.built:
            seconds += self.key_seconds.get(build, self.build_seconds)
        if environment and environment not in self.made:
            seconds += self.environment_seconds
        return seconds

    def seconds(self, node: str) -> float:
        """Return the seconds of a probe."""
        return self.test_seconds + self.setup_seconds(node)

    def with_setups(self, nodes: Collection[str]) -> Costs:
        """Return the costs once everything that these nodes need is there: it is being made for them."""
        setups = [self.setup(node) for node in nodes]
        built, made = {build for build, _ in setups}, {environment for _, environment in setups}
        return replace(self, built=self.built | built, made=self.made | made) if setups else self
