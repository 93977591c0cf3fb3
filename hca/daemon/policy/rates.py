"""Rate limits of rules: how much a rule permits one pod per second, to all peers together.

All matching rules and the flow's QoS class limit a flow, so the lowest rate decides. A limit in
a rule of the destination is enforced by the requester's node. So requesters on two nodes get
twice the rate together.
"""

from dataclasses import field
from typing import Final

from hca.binding.engine import Engine, EngineFlow, EngineLimit
from rdma.tables import Direction, Flow, Limits, QosClass, Rule, Verdict
from vgpu_sim.records import dataclass

_LEAST_BURST_BYTES: Final = 64 << 10
_BURSTS_PER_SECOND: Final = 100  # the amount of 10 ms, for rules that set no burst

_Key = tuple[str, str, Direction, int, Limits]
"""The key of a rate limit: the limited function, the rule and the rule's limits.

A function's flows to different peers have the same key.
"""


@dataclass(slots=True)
class _Limit:
    engine: EngineLimit
    holders: set[EngineFlow] = field(default_factory=set)


class Rates:
    """The engine's rate limits, which flows share.

    A limit is removed when its last flow is removed.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._limits: dict[_Key, _Limit] = {}
        self._keys: dict[EngineFlow, frozenset[_Key]] = {}

    def __len__(self) -> int:
        return len(self._limits)

    def apply_limits(
        self, row: EngineFlow, flow: Flow, verdict: Verdict, rules: tuple[Rule, ...]
    ) -> None:
        """Replace a flow's rate limits by those that its new verdict requires. Raises OSError.

        These are the limits in the rules that the flow matches, and the limit of its QoS class.
        """
        matched = (rules[place] for place in verdict.rules)
        required_keys = frozenset(
            _key(flow, rule)
            for rule in matched
            if rule.limits.bytes_per_second or rule.limits.operations_per_second
        )
        if verdict.qos_class is not None and verdict.qos_class.max_rate:
            required_keys |= {_class_key(flow, verdict.qos_class)}
        old_keys = self._keys.get(row, frozenset())
        if required_keys == old_keys:
            return
        for key in required_keys - old_keys:
            limit = self._limits.get(key)
            if limit is None:
                limit = self._limits[key] = _Limit(self._add(key[-1]))
            limit.holders.add(row)
        self._engine.limit_flow(row, [self._limits[key].engine for key in required_keys])
        self._let_go(row, old_keys - required_keys)
        self._keys[row] = required_keys

    def forget(self, row: EngineFlow) -> None:
        """Release the rate limits of a flow whose row the engine has removed."""
        self._let_go(row, self._keys.pop(row, frozenset()))

    def _add(self, limits: Limits) -> EngineLimit:
        size, times = limits.bytes_per_second or 0, limits.operations_per_second or 0
        burst = limits.burst_bytes or max(size // _BURSTS_PER_SECOND, _LEAST_BURST_BYTES)
        return self._engine.add_limit(size, burst, times, max(times // _BURSTS_PER_SECOND, 1))

    def _let_go(self, row: EngineFlow, keys: frozenset[_Key]) -> None:
        for key in keys:
            limit = self._limits[key]
            limit.holders.discard(row)
            if not limit.holders:
                self._engine.remove_limit(self._limits.pop(key).engine)


def _key(flow: Flow, rule: Rule) -> _Key:
    limited = flow.source if rule.direction == Direction.EGRESS else flow.destination
    return limited, rule.policy, rule.direction, rule.index, rule.limits


def _class_key(flow: Flow, qos_class: QosClass) -> _Key:
    limits = Limits(bytes_per_second=qos_class.max_rate)
    return flow.source, f"QoS class {qos_class.name}", Direction.EGRESS, 0, limits
