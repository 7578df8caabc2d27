"""Patches that are kept, for people and for programs."""
