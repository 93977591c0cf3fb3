"""When slices that have to go leave the kubelet's list: after the scheduler cannot bind to them.

The kubelet rejects a pod for good (UnexpectedAdmissionError) if the scheduler bound it to a device
that the kubelet's list no longer has. So a planned withdrawal is first reported; the operator then
lowers the node's ``allocatable``; only then the slices are taken off the list. Until then they are
still allocated to pods that the scheduler bound before, which are their holders from then on.

The kubelet raises ``allocatable`` again each time it writes the node's status (every 10 s by
default), as its list still has the slices, and the operator lowers it again. So the slices leave
the list shortly after such a write, when the next one is still far away (ADR 108). The wait is
bounded: an operator that is away does not stop a layout.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from device_plugin.agent.steps import Steps
from device_plugin.errors import ClusterError
from device_plugin.inventory.model import Inventory, is_given
from device_plugin.inventory.resources import Offered
from device_plugin.kube.node_status import NodeStatus

LONGEST_S = 25.0  # two of a kubelet's periods of 10 s, the operator's answer to it, and LOW_S
LOW_S = 0.5  # in which a pod that is already bound reaches the kubelet
FRESH_S = 1.7  # so soon after a write no kubelet writes again: 2 s is the shortest usual period
LOOK_AGAIN_S = 0.2
_MARGIN = 0.8  # of a kubelet's period
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Resource:
    """What was seen of one resource: the kubelet's last write, and since when it has been low.

    ``looked_at``: when it was last looked at. ``written_after``: the look before the last write.
    """

    wrote: str
    looked_at: float
    written_after: float | None = None
    low_since: float | None = None


@dataclass(slots=True)
class Unlisting:
    """Used by the reconcile thread only.

    ``look`` reads the node's status; None: there is no API server to read it from, and slices leave
    the list at once.
    """

    look: Callable[[], NodeStatus] | None = None
    clock: Callable[[], float] = time.monotonic
    _resources: dict[str, _Resource] = field(default_factory=dict)
    _leaving_since: dict[str, float] = field(default_factory=dict)
    _unlisted_at: dict[str, float] = field(default_factory=dict)
    _quiet_s: float = FRESH_S  # the kubelet writes no more often than that

    @property
    def unlisted(self) -> frozenset[str]:
        """Return the UUIDs of slices that have left the list."""
        return frozenset(self._unlisted_at)

    @property
    def waits(self) -> bool:
        """Return whether a slice is to leave the list and has not."""
        return self._leaving_since.keys() > self._unlisted_at.keys()

    def unlisted_for(self, uuid: str) -> float:
        """Return the seconds since a slice left the list; 0 if it has not."""
        return self.clock() - self._unlisted_at.get(uuid, self.clock())

    def forget(self, uuid: str) -> None:
        """Forget a slice that was destroyed."""
        self._unlisted_at.pop(uuid, None)
        self._leaving_since.pop(uuid, None)

    def advance(
        self,
        steps: Mapping[str, Steps],
        inventory: Inventory,
        resources: Offered,
        elsewhere: Mapping[str, str],
    ) -> dict[str, Steps]:
        """Decide which withdrawn slices leave the list now; return the steps that say so.

        ``elsewhere`` are slices that are not listed as their present resource, by UUID.
        """
        names = {u: name for u, name in resources.names.items() if u not in elsewhere}
        withdrawn = [s for step in steps.values() for s in step.withdraw]
        now, uuids = self.clock(), {s.uuid for s in withdrawn}
        since = self._leaving_since
        self._leaving_since = {uuid: since.get(uuid, now) for uuid in uuids}
        self._unlisted_at = {u: at for u, at in self._unlisted_at.items() if u in uuids}
        staying = _counted(inventory, uuids, names, resources)
        given = {s.uuid for gpu in inventory.gpus for s in gpu.unclaimed if is_given(gpu, s)}
        waiting = {  # the scheduler binds nothing to a sick one, nor does the kubelet write of it
            s.uuid: names.get(s.uuid, "") if s.uuid in given else ""
            for s in withdrawn
            if s.uuid not in self.unlisted
        }
        lowered = self.lowered({name for name in waiting.values() if name}, staying)
        late = set()
        for uuid, name in waiting.items():
            if self.look is None or not name or name in lowered:
                self._unlisted_at[uuid] = now
            elif now - self._leaving_since[uuid] >= LONGEST_S:
                self._unlisted_at[uuid] = now
                late.add(uuid)
        if late:
            _log.warning(
                "the node's allocatable did not stay lowered within %g s: %d slices leave the"
                " kubelet's list nevertheless, and a pod that is bound to one now fails",
                LONGEST_S,
                len(late),
            )
        return {gpu: self._marked(step) for gpu, step in steps.items()}

    def _marked(self, steps: Steps) -> Steps:
        listed = tuple(s for s in steps.withdraw if s.uuid not in self._unlisted_at)
        return replace(steps, listed=listed)

    def lowered(self, resources: Iterable[str], staying: Mapping[str, int]) -> set[str]:
        """Return the resources of which the scheduler has known for long enough how few remain."""
        wanted = set(resources)
        self._resources = {name: one for name, one in self._resources.items() if name in wanted}
        if not wanted or self.look is None:
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
        elif seen.low_since is not None:  # it would have been raised
            self._quiet_s = max(self._quiet_s, _MARGIN * (now - seen.low_since))
        seen.looked_at = now
        if status.allocatable.get(name, 0) > staying:
            seen.low_since = None
        elif seen.low_since is None:
            seen.low_since = now
        low = seen.low_since is not None and now - seen.low_since >= LOW_S
        if not status.kubelet_wrote:  # nothing tells the kubelet's writes from others
            return low
        return low and seen.written_after is not None and now - seen.written_after <= self._quiet_s


def _counted(
    inventory: Inventory, leaving: Collection[str], names: Mapping[str, str], resources: Offered
) -> Counter[str]:
    """Return how many devices of each resource remain for pods: the kubelet counts no sick one."""
    found: Counter[str] = Counter()
    for gpu in inventory.gpus:
        for one in gpu.unclaimed:
            if one.uuid in names and one.uuid not in leaving and is_given(gpu, one):
                shared = resources.shared.get(one.uuid)
                found[names[one.uuid]] += shared.replicas if shared is not None else 1
    return found
