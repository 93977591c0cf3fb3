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
LOOK_AGAIN_S = 0.2
QUIET_MOST_S = 8.0
"""The longest time after a write in which no other is expected.

The time without a write is a lower bound of the kubelet's period only while the kubelet has
something to raise. It has nothing to raise if the devices are sick, and writes then only every few
minutes, so the time seen is no evidence of a period beyond the default of 10 s.
"""
_LOW_PART = 4  # of the time without a write that it stays low: 2 s for a busy node's pods
_MARGIN = 0.8  # of a kubelet's period
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Resource:
    """What was seen of one resource: the kubelet's last write, and since when it has been low.

    ``looked_at``: when it was last read. ``written_after``: the read before the last write.
    """

    wrote: str
    looked_at: float
    written_after: float | None = None
    low_since: float | None = None


@dataclass(slots=True)
class AllocatableWatch:
    """Follows ``allocatable`` of some resources of one node. Used by one thread.

    ``look`` reads the node's status.
    """

    look: Callable[[], NodeStatus]
    clock: Callable[[], float] = time.monotonic
    _resources: dict[str, _Resource] = field(default_factory=dict)
    _quiet_s: float = FRESH_S  # the kubelet writes no more often than that

    def lowered(self, resources: Iterable[str], staying: Mapping[str, int]) -> set[str]:
        """Return the resources of which the scheduler has known for long enough how few remain.

        ``staying`` has how many devices of a resource remain; none of those that it lacks.
        """
        wanted = set(resources)
        self._resources = {name: one for name, one in self._resources.items() if name in wanted}
        if not wanted:
            return set()
        try:
            status = self.look()
        except ClusterError as err:
            _log.info("the node's status cannot be read: %s", err)
            self._resources.clear()
            return set()
        return {name for name in wanted if self._is_lowered(name, status, staying.get(name, 0))}

    def _is_lowered(self, name: str, status: NodeStatus, staying: int) -> bool:
        now = self.clock()
        seen = self._resources.setdefault(name, _Resource(status.kubelet_wrote, now))
        if seen.wrote != status.kubelet_wrote:
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
            seen.low_since = None
        elif seen.low_since is None:
            seen.low_since = now
        low_s = max(LOW_S, self._quiet_s / _LOW_PART)
        low = seen.low_since is not None and now - seen.low_since >= low_s
        if not status.kubelet_wrote:  # nothing tells the kubelet's writes from others
            return low
        return low and seen.written_after is not None and now - seen.written_after <= self._quiet_s
