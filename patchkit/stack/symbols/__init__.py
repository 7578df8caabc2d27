"""Drift of what git cannot see: names of the product that a downstream package imports, uses, replaces or overrides."""
