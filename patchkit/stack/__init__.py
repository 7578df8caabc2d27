"""Tree and series to patched tree: exact or not at all, one record a patch."""
