"""The only place where patchkit starts processes, and ends them."""

from patchkit.tools.process.end import end_children as end_children
from patchkit.tools.process.end import end_marked as end_marked
from patchkit.tools.process.end import kill_group as kill_group
from patchkit.tools.process.run import NO_LIMITS as NO_LIMITS
from patchkit.tools.process.run import Completed as Completed
from patchkit.tools.process.run import Limits as Limits
from patchkit.tools.process.run import find_program as find_program
from patchkit.tools.process.run import run_logged as run_logged
from patchkit.tools.process.run import run_process as run_process
from patchkit.tools.process.stop import Stop as Stop
from patchkit.tools.process.stop import Stopped as Stopped
from patchkit.tools.process.stop import stoppable as stoppable
