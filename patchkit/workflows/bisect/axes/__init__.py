"""The axes on which a bisect searches, a module each."""
