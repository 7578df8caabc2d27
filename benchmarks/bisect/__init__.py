"""The search beside git bisect and git_bayesect: `python -m benchmarks.bisect [--quick] [--json FILE]`."""
