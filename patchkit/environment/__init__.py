"""Patched tree to something that runs it, with no cache of another tree in sight."""
