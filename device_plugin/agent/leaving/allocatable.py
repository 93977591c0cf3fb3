"""Whether the scheduler can still bind pods to devices of a resource: one node's ``allocatable``.

The kubelet raises ``allocatable`` at each of its writes of the node's status (every 10 s by
default) while its list has the devices, and the operator lowers it again. So a resource counts as
lowered shortly after such a write, when it is low and the next write is still far away (ADR 108).
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from device_plugin.errors import ClusterError
from device_plugin.kube.node_status import NodeStatus

LONGEST_S = 25.0  # two of a kubelet's periods of 10 s, the operator's answer to it, and LOW_S
LOW_S = 0.5  # at least: in which a pod that is already bound reaches the kubelet
FRESH_S = 1.7  # so soon after a write no kubelet writes again: 2 s is the shortest usual period
LOOK_AGAIN_S = 0.2  # at most; while nothing is expected looks are further apart
QUIET_MOST_S = 8.0
"""The longest time after a write in which no other is expected.

The time without a write is a lower bound of the kubelet's period only while the kubelet has
something to raise. It has nothing to raise if the devices are sick, and writes then only every few
minutes, so the time seen is no evidence of a period beyond the default of 10 s.
"""
_LOW_PART = 4  # of the time without a write that it stays low: 2 s for a busy node's pods
_MARGIN = 0.8  # of a kubelet's period
_LOOK_PART = 5  # of the time without a write, between two looks for the next write
_AWAY_PART = 3  # of the time without an operator's answer, between two looks for that
_UNREAD_S = 1.0  # after a look that failed
_SELDOM_S = 2.0  # the longest time between two looks
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Resource:
    """What was seen of one resource: the kubelet's last write, and since when it has been low.

    ``looked_at``: when it was last read. ``written_after``: the read before the last write.
    ``high_since``: since when it has not been low, if it is not.
    """

    wrote: str
    looked_at: float
    high_since: float
    written_after: float | None = None
    low_since: float | None = None


@dataclass(slots=True)
class AllocatableWatch:
    """Follows ``allocatable`` of some resources of one node. Used by one thread.

    ``look`` reads the node's status. Thousands of nodes may change their layouts at the same time,
    so it is read often only where a moment decides: when the kubelet has just written.
    """

    look: Callable[[], NodeStatus]
    clock: Callable[[], float] = time.monotonic
    _resources: dict[str, _Resource] = field(default_factory=dict)
    _quiet_s: float = FRESH_S  # the kubelet writes no more often than that
    _due_at: float = float("-inf")
    _failed: bool = False

    def lowered(self, resources: Iterable[str], staying: Mapping[str, int]) -> set[str]:
        """Return the resources of which the scheduler has known for long enough how few remain.

        ``staying`` has how many devices of a resource remain; none of those that it lacks.
        """
        wanted = set(resources)
        is_new = not self._failed and not wanted <= self._resources.keys()
        self._resources = {name: one for name, one in self._resources.items() if name in wanted}
        if not wanted or (self.clock() < self._due_at and not is_new):
            return set()
        self._failed = False
        try:
            status = self.look()
        except ClusterError as err:
            _log.info("the node's status cannot be read: %s", err)
            self._resources.clear()
            self._failed, self._due_at = True, self.clock() + _UNREAD_S
            return set()
        lowered = {name for name in wanted if self._is_lowered(name, status, staying.get(name, 0))}
        self._due_at = min(map(self._look_again_at, self._resources.values()))
        return lowered

    def _look_again_at(self, seen: _Resource) -> float:
        """Return when something may be seen of a resource that decides."""
        now = seen.looked_at
        is_fresh = self._is_fresh(seen)
        if seen.low_since is not None and (is_fresh or not seen.wrote):
            return max(seen.low_since + self._low_s, now + LOOK_AGAIN_S)
        if is_fresh:  # the operator lowers it again at once
            return now + LOOK_AGAIN_S
        parts = self._quiet_s / _LOOK_PART
        if seen.low_since is None:  # the longer the operator is away the less it matters when
            parts = max(parts, (now - seen.high_since) / _AWAY_PART)
        return now + min(max(parts, LOOK_AGAIN_S), _SELDOM_S)

    def _is_fresh(self, seen: _Resource) -> bool:
        """Return whether the last look was so soon after a kubelet's write that none follows."""
        after = seen.written_after
        return after is not None and seen.looked_at - after <= self._quiet_s

    @property
    def _low_s(self) -> float:
        return max(LOW_S, self._quiet_s / _LOW_PART)

    def _is_lowered(self, name: str, status: NodeStatus, staying: int) -> bool:
        now = self.clock()
        seen = self._resources.setdefault(name, _Resource(status.kubelet_wrote, now, now))
        if seen.wrote != status.kubelet_wrote:
            if seen.low_since is not None:
                seen.high_since = now
            seen.wrote, seen.written_after, seen.low_since = (
                status.kubelet_wrote,
                seen.looked_at,
                None,
            )
        elif seen.low_since is not None:  # a write would have raised it
            without_write_s = _MARGIN * (now - seen.low_since)
            self._quiet_s = min(max(self._quiet_s, without_write_s), QUIET_MOST_S)
        seen.looked_at = now
        if status.allocatable.get(name, 0) > staying:
            if seen.low_since is not None:
                seen.low_since, seen.high_since = None, now
        elif seen.low_since is None:
            seen.low_since = now
        low = seen.low_since is not None and now - seen.low_since >= self._low_s
        if not status.kubelet_wrote:  # nothing tells the kubelet's writes from others
            return low
        return low and self._is_fresh(seen)
