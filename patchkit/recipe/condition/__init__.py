"""Conditions (`when:`): parsed once, decided with the facts of the commit that is patched.

Grammar: or / and / not, parentheses, and the atoms
`vllm >= 0.26, < 0.30` (PEP 440, pre-releases count) for vllm, vllm-ascend, torch, python; `arch in [sm_120, sm_121]`;
`pins.deepgemm >= "2.5"` / `pins.deepgemm == "abc"`; `contains(<commit>)`; `has(path)`; `has(path:symbol)`;
`merged(<pull request>)`, which nobody can tell without the network.
"""

from patchkit.recipe.condition.atoms import ArchIn, Comparison, Contains, Has, Merged, PinIs, VersionIs
from patchkit.recipe.condition.decision import Condition, Decision, Facts, Truth
from patchkit.recipe.condition.grammar import ConditionError, parse_condition
from patchkit.recipe.condition.logic import And, Not, Or

__all__ = [
    "And",
    "ArchIn",
    "Comparison",
    "Condition",
    "ConditionError",
    "Contains",
    "Decision",
    "Facts",
    "Has",
    "Merged",
    "Not",
    "Or",
    "PinIs",
    "Truth",
    "VersionIs",
    "parse_condition",
]
