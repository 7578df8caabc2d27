"""Patched trees into what is installed: a site-packages folder, a wheel, and the torch that a probe sees."""
