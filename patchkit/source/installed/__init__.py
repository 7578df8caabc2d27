"""Distributions as they are installed, in a site-packages folder or in a wheel: the other layout of an upstream."""
