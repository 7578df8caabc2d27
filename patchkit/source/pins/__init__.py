"""Which commit of another upstream a tree names as its own: read from the tree's files, with file and line."""

from patchkit.source.pins.find import Pin as Pin
from patchkit.source.pins.find import Prefer as Prefer
from patchkit.source.pins.resolve import Paired as Paired
from patchkit.source.pins.resolve import Pairing as Pairing
from patchkit.source.pins.upstreams import PairedUpstreams as PairedUpstreams
