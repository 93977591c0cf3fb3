"""Counters of flows: rows in the engine while a queue pair has them, sums by rule afterwards."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rdma.tables import Flow, Rule, Verdict
from rdma.verbs import NAMES, Verb
from vgpu_sim.fabric.engine import Engine, EngineFlow
from vgpu_sim.hal.hca import HCA_VERBS, HcaFlowCounts
from vgpu_sim.hcad.denials import Denial, Denials

_NAME_OF: Final[Mapping[Verb, str]] = {verb: name for name, verb in NAMES.items()}
RuleKey = tuple[str, str, int]
"""A rule's policy, direction and place in it: its number may be another's in the next tables."""


@dataclass(slots=True)
class RuleCount:
    """What a rule has let pass, and how often it matched a peer and did not have the verb."""

    operations: int = 0
    bytes: int = 0
    denied: int = 0


@dataclass(slots=True, eq=False)
class Row:
    """The counters of one flow, while ``holders`` queue pairs have it.

    ``function`` is this node's: the source's, if both are.
    """

    engine: EngineFlow
    flow: Flow
    function: str
    verdict: Verdict
    holders: int = 0
    seen: HcaFlowCounts = field(default_factory=HcaFlowCounts)

    def _key(rule: Rule) -> RuleKey:
    return rule.policy, str(rule.direction), rule.index
