"""The files that a user writes: formats, loading, conditions, lock."""
