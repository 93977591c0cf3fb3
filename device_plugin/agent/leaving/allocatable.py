"""Decides whether the scheduler can still bind pods to a resource, from the node's ``allocatable``.

The kubelet raises ``allocatable`` at each of its writes of the node's status (every 10 s by
default) while its list has the devices, and the operator lowers it again. So a resource counts
as lowered shortly after such a write, if it is low and the next write is still far away (ADR
108).
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from device_plugin.errors import ClusterError
from device_plugin.kube.node_status import NodeStatus
from vgpu_sim.records import dataclass

LONGEST_S = 25.0  # two of the kubelet's periods of 10 s, the operator's reaction, and LOW_S
LOW_S = 0.5  # at least; a pod that is already bound reaches the kubelet in this time
FRESH_S = 1.7  # no kubelet writes again this soon after a write: 2 s is the shortest usual period
LOOK_AGAIN_S = 0.2  # at most; while no change is expected, reads are further apart
QUIET_MOST_S = 8.0
"""The longest time, in seconds, that is assumed to pass after a write without another write.

The time without a write is a lower bound for the kubelet's period only while the kubelet has
something to raise. If the devices are unhealthy it has nothing to raise and writes only every
few minutes, so the observed time is no evidence for a period beyond the default of 10 s.
"""
_LOW_PART = (
    4  # part of the time without a write for which it must stay low: 2 s for a busy node's pods
)
_MARGIN = 0.8  # part of the kubelet's period
_LOOK_PART = 5  # part of the time without a write, between two reads that wait for the next write
_AWAY_PART = (
    3  # part of the time without the operator's reaction, between two reads that wait for it
)
_UNREAD_S = 1.0  # after a failed read
_SELDOM_S = 2.0  # the longest time between two reads
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Resource:
    """Observations of one resource, whose count in ``allocatable`` is to be lowered.

    The resource is low if the count is at most the number of devices that will remain. ``wrote``
    identifies the kubelet's last write, ``written_after`` is the time of the last read before
    that write, and ``looked_at`` that of the last read. ``low_since`` is None while the resource
    is not low; then ``high_since`` is the time since which it has not been.
    """

    wrote: str
    looked_at: float
    high_since: float
    written_after: float | None = None
    low_since: float | None = None


@dataclass(slots=True)
class AllocatableWatch:
    """Follows the counts of some resources in ``allocatable`` of one node. Used by one thread.

    ``look`` reads the node's status. Thousands of nodes may change their layouts at the same time.
    The status is therefore read often only right after the kubelet has written it, when timing
    matters.
    """

    look: Callable[[], NodeStatus]
    clock: Callable[[], float] = time.monotonic
    _resources: dict[str, _Resource] = field(default_factory=dict)
    _quiet_s: float = FRESH_S  # the kubelet never writes at shorter intervals
    _due_at: float = float("-inf")
    _failed: bool = False

    def find_lowered(self, resources: Iterable[str], staying: Mapping[str, int]) -> set[str]:
        """Return the resources whose lowered count the scheduler has had time to read.

        The counts are those in ``allocatable``. ``staying`` has, by resource, the number of
        devices that remain; a missing entry means 0.
        """
        resource_names = set(resources)
        is_new = not self._failed and not resource_names <= self._resources.keys()
        self._resources = {
            name: resource for name, resource in self._resources.items() if name in resource_names
        }
        if not resource_names or (self.clock() < self._due_at and not is_new):
            return set()
        self._failed = False
        try:
            status = self.look()
        except ClusterError as err:
            _log.info("the node's status cannot be read: %s", err)
            self._resources.clear()
            self._failed, self._due_at = True, self.clock() + _UNREAD_S
            return set()
        lowered = {
            name for name in resource_names if self._is_lowered(name, status, staying.get(name, 0))
        }
        self._due_at = min(map(self._look_again_at, self._resources.values()))
        return lowered

    def _look_again_at(self, resource: _Resource) -> float:
        """Return when the next read of a resource can lead to a decision."""
        looked_at = resource.looked_at
        is_fresh = self._is_fresh(resource)
        if resource.low_since is not None and (is_fresh or not resource.wrote):
            return max(resource.low_since + self._low_s, looked_at + LOOK_AGAIN_S)
        if is_fresh:  # the operator will lower it again at once
            return looked_at + LOOK_AGAIN_S
        parts = self._quiet_s / _LOOK_PART
        # the longer the operator is away, the less the exact time matters
        if resource.low_since is None:
            parts = max(parts, (looked_at - resource.high_since) / _AWAY_PART)
        return looked_at + min(max(parts, LOOK_AGAIN_S), _SELDOM_S)

    def _is_fresh(self, resource: _Resource) -> bool:
        """Return whether the last read followed a write so soon that it saw the newest write."""
        written_after = resource.written_after
        return written_after is not None and resource.looked_at - written_after <= self._quiet_s

    @property
    def _low_s(self) -> float:
        return max(LOW_S, self._quiet_s / _LOW_PART)

    def _is_lowered(self, name: str, status: NodeStatus, staying: int) -> bool:
        now_s = self.clock()
        resource = self._resources.setdefault(name, _Resource(status.kubelet_wrote, now_s, now_s))
        if resource.wrote != status.kubelet_wrote:
            if resource.low_since is not None:
                resource.high_since = now_s
            resource.wrote, resource.written_after, resource.low_since = (
                status.kubelet_wrote,
                resource.looked_at,
                None,
            )
        elif resource.low_since is not None:  # a write by the kubelet would have raised it
            without_write_s = _MARGIN * (now_s - resource.low_since)
            self._quiet_s = min(max(self._quiet_s, without_write_s), QUIET_MOST_S)
        resource.looked_at = now_s
        if status.allocatable.get(name, 0) > staying:
            if resource.low_since is not None:
                resource.low_since, resource.high_since = None, now_s
        elif resource.low_since is None:
            resource.low_since = now_s
        low = resource.low_since is not None and now_s - resource.low_since >= self._low_s
        if not status.kubelet_wrote:  # the kubelet's writes cannot be distinguished from others
            return low
        return low and self._is_fresh(resource)
