"""The image that a build stands on: found, understood and checked, its layers left where they lie."""

from patchkit.image.base.blob import Blob as Blob
from patchkit.image.base.open import TAR_LAYER as TAR_LAYER
from patchkit.image.base.open import Base as Base
from patchkit.image.base.open import BaseLayer as BaseLayer
from patchkit.image.base.open import host_platform as host_platform
from patchkit.image.base.open import open_base as open_base
from patchkit.image.base.open import open_layout as open_layout
from patchkit.image.base.open import resolve_base_digest as resolve_base_digest
