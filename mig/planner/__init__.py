"""Which slices fit where: rules, exact enumeration, plans, preferred allocation, layout changes."""

from mig.planner.census import Census, census, maximal_states, multisets, states
from mig.planner.diff import Diff, diff
from mig.planner.headroom import Headroom, headroom
from mig.planner.place import Plan, plan
from mig.planner.preferred import preferred
from mig.planner.rules import check, violations

__all__ = [
    "Census",
    "Diff",
    "Headroom",
    "Plan",
    "census",
    "check",
    "diff",
    "headroom",
    "maximal_states",
    "multisets",
    "plan",
    "preferred",
    "states",
    "violations",
]
