"""The rungs on which a patch can land on a tree, safest first. Each is a function from tree to `Attempt`."""
