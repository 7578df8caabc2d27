"""Property tests here are as slow as the machine is busy; a deadline would only measure that."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
