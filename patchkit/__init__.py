"""patchkit: evaluate a recipe (an upstream commit plus a stack of patches) at a commit."""

__version__ = "0.1.0"
