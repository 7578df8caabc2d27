"""The store: what it holds, how files get there whole, and how it is freed."""

from patchkit.tools.cache.files import DAY_SECONDS as DAY_SECONDS
from patchkit.tools.cache.files import FULL as FULL
from patchkit.tools.cache.files import digest_file as digest_file
from patchkit.tools.cache.files import digest_of as digest_of
from patchkit.tools.cache.files import ensure_folder as ensure_folder
from patchkit.tools.cache.files import remove_path as remove_path
from patchkit.tools.cache.files import replaced_folder as replaced_folder
from patchkit.tools.cache.files import storage_errors as storage_errors
from patchkit.tools.cache.files import storage_hint as storage_hint
from patchkit.tools.cache.files import write_atomically as write_atomically
from patchkit.tools.cache.prune import Usage as Usage
from patchkit.tools.cache.prune import measure_store as measure_store
from patchkit.tools.cache.prune import prune_store as prune_store
from patchkit.tools.cache.store import Cache as Cache
