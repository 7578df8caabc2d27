"""Compiled files: which trees they serve, how they are made once, and how they come beside a tree's own files."""

from patchkit.environment.native.key import NativeRequest as NativeRequest
from patchkit.environment.native.key import build_key as build_key
from patchkit.environment.native.key import read_inputs as read_inputs
from patchkit.environment.native.make import KIND as KIND
from patchkit.environment.native.make import Native as Native
from patchkit.environment.native.make import make_native as make_native
from patchkit.environment.native.place import Placed as Placed
from patchkit.environment.native.place import placed as placed
