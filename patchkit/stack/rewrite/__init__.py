"""Rewrites: structural steps that say where by definition and pattern, not by line number."""

from patchkit.stack.rewrite.files import RewriteResult, rewrite_files
from patchkit.stack.rewrite.syntax import RewriteError

__all__ = ["RewriteError", "RewriteResult", "rewrite_files"]
