"""What a probe costs, and the builds that lie between here and the answer."""

from patchkit.search.costs.builds import BuildPlan as BuildPlan
from patchkit.search.costs.builds import plan_builds as plan_builds
from patchkit.search.costs.interval import MOST_EXACT as MOST_EXACT
from patchkit.search.costs.interval import Line as Line
from patchkit.search.costs.model import Costs as Costs
