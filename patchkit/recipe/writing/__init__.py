"""Files that patchkit writes for a person to keep: folders of a library, entries of a series, scaffolds."""
