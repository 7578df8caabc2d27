"""Git's own formats, read and written here: trees, packs, and objects that are not on disk yet."""
