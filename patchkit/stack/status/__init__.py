"""How a series stands against any commit: patch by patch and hunk by hunk, with the commits that made it so."""
