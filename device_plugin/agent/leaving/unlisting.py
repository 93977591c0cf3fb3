"""Decides when withdrawn devices leave the kubelet's list: once no pod can be bound to them.

The kubelet rejects a pod for good (UnexpectedAdmissionError) if the scheduler bound it to a
device that the kubelet's list no longer has. So a planned withdrawal is first reported; the
operator then lowers the node's ``allocatable``; only then are the devices taken off the list
(ADR 108). Until then they are still allocated to pods that the scheduler bound earlier, which
become their holders. The wait is bounded: an operator that is away does not block a layout.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import field

from device_plugin.agent.leaving.allocatable import LONGEST_S, AllocatableWatch
from device_plugin.kube.node_status import NodeStatus
from vgpu_sim.records import dataclass

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Unlisting:
    """The devices that have left the kubelet's list. Used by the reconcile thread only.

    ``look`` reads the node's status. It is None if there is no API server to read the status
    from; devices then leave the list at once.
    """

    look: Callable[[], NodeStatus] | None = None
    clock: Callable[[], float] = time.monotonic
    _watch: AllocatableWatch | None = field(init=False)
    _leaving_since: dict[str, float] = field(default_factory=dict)
    _unlisted_at: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._watch = AllocatableWatch(self.look, self.clock) if self.look is not None else None

    @property
    def unlisted(self) -> frozenset[str]:
        """Return the ids of the devices that have left the list."""
        return frozenset(self._unlisted_at)

    @property
    def has_pending(self) -> bool:
        """Return whether a device that is leaving is still on the list."""
        return self._leaving_since.keys() > self._unlisted_at.keys()

    def unlisted_for(self, device_id: str) -> float:
        """Return the seconds since a device left the list; 0 if the device has not left it."""
        return self.clock() - self._unlisted_at.get(device_id, self.clock())

    def forget(self, device_id: str) -> None:
        """Forget a device that was destroyed, or is listed under another resource from now on."""
        self._unlisted_at.pop(device_id, None)
        self._leaving_since.pop(device_id, None)

    def choose_unlisted(self, leaving: Mapping[str, str], staying: Mapping[str, int]) -> None:
        """Decide which of the ``leaving`` devices leave the list now.

        ``leaving`` has, by device id, the resource under which the device is listed. If this
        resource is empty, the device leaves at once, because the scheduler binds no pod to it.
        ``staying`` has, by resource, the number of devices that remain.
        """
        now_s, since = self.clock(), self._leaving_since
        self._leaving_since = {device_id: since.get(device_id, now_s) for device_id in leaving}
        self._unlisted_at = {u: at for u, at in self._unlisted_at.items() if u in leaving}
        waiting = {u: name for u, name in leaving.items() if u not in self._unlisted_at}
        names = {name for name in waiting.values() if name}
        lowered = self._watch.find_lowered(names, staying) if self._watch is not None else names
        late = set()
        for device_id, name in waiting.items():
            if not name or name in lowered:
                self._unlisted_at[device_id] = now_s
            elif now_s - self._leaving_since[device_id] >= LONGEST_S:
                self._unlisted_at[device_id] = now_s
                late.add(device_id)
        if late:
            _log.warning(
                "the node's allocatable did not stay lowered within %g s: %d devices leave the"
                " kubelet's list nevertheless, and a pod that is bound to one now fails",
                LONGEST_S,
                len(late),
            )
