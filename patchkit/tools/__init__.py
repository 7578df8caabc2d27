"""The outside world, and nothing else: processes, git, index, engine, registry, store."""
