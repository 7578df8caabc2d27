"""Patched tree to image: overlay, provenance, and the engines that write it."""
