"""Which commit next: pure functions of the graph and of what is known; `decide` is the engine that callers use."""

from patchkit.search.belief import believe as believe
from patchkit.search.belief import missing_bits as missing_bits
from patchkit.search.costs import Costs as Costs
from patchkit.search.decision import Answer as Answer
from patchkit.search.decision import Contradiction as Contradiction
from patchkit.search.decision import Decision as Decision
from patchkit.search.decision import Explanation as Explanation
from patchkit.search.decision import Probe as Probe
from patchkit.search.decision import Settings as Settings
from patchkit.search.engine import count_suspects as count_suspects
from patchkit.search.engine import decide as decide
from patchkit.search.engine import foresee as foresee
from patchkit.search.engine import is_needed as is_needed
from patchkit.search.engine import spent as spent
from patchkit.search.exact.turn import find_turn as find_turn
from patchkit.search.graph import CommitGraph as CommitGraph
from patchkit.search.graph import build_chain as build_chain
from patchkit.search.graph import build_graph as build_graph
from patchkit.search.prior import Clues as Clues
from patchkit.search.prior import favour as favour
from patchkit.search.state import State as State
from patchkit.search.state import fold as fold
from patchkit.search.subset import Culprits as Culprits
from patchkit.search.subset import Try as Try
from patchkit.search.subset import decide_subset as decide_subset
