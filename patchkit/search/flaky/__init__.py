"""Search with a repro that errs: the same question as exact bisection, answered with probabilities."""

from patchkit.search.flaky.engine import decide as decide
