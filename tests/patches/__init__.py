"""The shipped patches, on small trees of our own that have the shapes of vLLM's releases."""
