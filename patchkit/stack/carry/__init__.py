"""Patches as files that are kept: taken in, refreshed, compared with what they were, handed on."""
