"""The resource under which the kubelet lists each slice now, compared with its target resource.

A slice changes its resource when the strategy changes, when sharing gives it another name, and
when a node of strategy ``single``, which offers only one kind, gets devices of several kinds. It
also changes what its devices are when sharing begins or ends, even under the same name, because
a pod may hold the slice exclusively. By then the scheduler may have bound pods to the former
resource. So the slice stays on the former list until ``allocatable`` was lowered
(``unlisting``), and joins the next list after the kubelet had time to finish an allocation that
it had begun.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import field, replace

from device_plugin.inventory.model import Inventory, MigSlice, is_allocatable
from device_plugin.inventory.resources import Kind, OfferedResources
from gpu_operator.api.v1alpha1.sharing import Shared
from vgpu_sim.records import dataclass

SETTLE_S = 2.0  # time in which a kubelet that has just picked a slice finishes the allocation


@dataclass(frozen=True, slots=True)
class Entry:
    """A slice's entry in a resource's list: the slice itself, or several shares of it."""

    resource: str
    shared: Shared | None = None

    @property
    def count(self) -> int:
        """Return how many devices the list contains for the slice."""
        return 1 if self.shared is None else self.shared.replicas

    @property
    def kind(self) -> Kind:
        """Return the resource of the slice's devices, and whether each device is a share."""
        return Kind(self.resource, self.shared is not None)

    def has_all_of(self, entry: "Entry") -> bool:
        """Return whether this entry includes every device of the other one."""
        return self.kind == entry.kind and self.count >= entry.count


@dataclass(slots=True)
class Listing:
    """The entries of slices in the kubelet's lists of devices. Used by the reconcile thread only.

    An agent that has just started does not know what its predecessor listed, so it lists all
    slices at once under their target resources. A predecessor that was shut down, not killed,
    has waited until ``allocatable`` was lowered for all listed slices.

    The kubelet's call List returns the pods with their devices. ``seen_at`` returns the start
    time of the last such call that the kubelet has answered. A slice that has left one list of
    devices joins the next one only after a newer call was answered. The answer shows whether the
    kubelet has just given the slice to a pod.
    """

    seen_at: Callable[[], float]
    clock: Callable[[], float] = time.monotonic
    _entries: dict[str, Entry] | None = None  # by UUID; None: nothing has been listed yet
    _left: dict[str, tuple[Entry, float]] = field(default_factory=dict)

    def entry(self, uuid: str, target: OfferedResources) -> Entry | None:
        """Return the entry under which a slice is listed.

        Before the first list, this is the slice's target entry.
        """
        return _target_entry(uuid, target) if self._entries is None else self._entries.get(uuid)

    def find_leaving(
        self, target: OfferedResources, slices: Collection[MigSlice]
    ) -> frozenset[str]:
        """Return the UUIDs of slices that must leave the list that they are on."""
        existing_uuids = {s.uuid for s in slices}
        return frozenset(
            uuid
            for uuid, entry in (self._entries or {}).items()
            if uuid in existing_uuids and not _is_kept(entry, _target_entry(uuid, target))
        )

    def current_resources(
        self, target: OfferedResources, slices: Collection[MigSlice]
    ) -> OfferedResources:
        """Return the resource under which each slice is listed now.

        If a slice has left a list and waits to join another, this is the resource of the list
        that it has left. For any other unlisted slice, it is the target resource.
        """
        names, shared = dict(target.names), dict(target.shared)
        former = {uuid: entry for uuid, (entry, _) in self._settling().items()}
        moving = self.find_leaving(target, slices)
        former |= {uuid: entry for uuid, entry in (self._entries or {}).items() if uuid in moving}
        existing_uuids = {s.uuid for s in slices}
        for uuid, entry in former.items():
            if uuid not in existing_uuids:
                continue
            names[uuid] = entry.resource
            shared.pop(uuid, None)
            if entry.shared is not None:
                shared[uuid] = entry.shared
        return replace(target, names=names, shared=shared)

    def find_unlisted(
        self, target: OfferedResources, slices: Collection[MigSlice]
    ) -> frozenset[str]:
        """Return the UUIDs of slices that are on no list: they are not offered, or not offered
        yet.
        """
        hidden = set(self._settling())
        if target.problem:
            hidden |= {s.uuid for s in slices} - (self._entries or {}).keys()
        return frozenset(hidden)

    def unlist(self, uuids: Collection[str], target: OfferedResources) -> None:
        """Take slices off the lists that they are on."""
        for uuid in uuids:
            entry = (self._entries or {}).pop(uuid, None)
            target_entry = _target_entry(uuid, target)
            if entry is not None and (target_entry is None or target_entry.kind != entry.kind):
                self._left[uuid] = entry, self.clock()

    def record(self, present: OfferedResources, listed: Collection[str]) -> None:
        """Record which entries are on the kubelet's lists from now on."""
        self._entries = {
            uuid: Entry(name, present.shared.get(uuid))
            for uuid, name in present.names.items()
            if uuid in listed
        }
        self._left = self._settling()

    def find_changing(
        self, target: OfferedResources, slices: Collection[MigSlice]
    ) -> frozenset[str]:
        """Return the UUIDs of slices that must leave a list, or must wait before they join
        another.
        """
        return self.find_leaving(target, slices) | frozenset(self._settling())

    def count_remaining(
        self, target: OfferedResources, inventory: Inventory, leaving: Collection[str]
    ) -> Counter[str]:
        """Count the devices of each resource that remain when all leaving devices have left.

        ``leaving`` are slices that are withdrawn or listed under no resource. Unhealthy slices are
        not counted, because the kubelet does not count them either.
        """
        counts: Counter[str] = Counter()
        slices = inventory.unclaimed_slices()
        present, hidden = self.current_resources(target, slices), self.find_unlisted(target, slices)
        moving = self.find_leaving(target, slices)
        for gpu in inventory.gpus:
            for mig_slice in gpu.unclaimed:
                uuid = mig_slice.uuid
                if uuid in leaving or uuid in hidden or not is_allocatable(gpu, mig_slice):
                    continue
                entry, target_entry = (
                    _target_entry(uuid, replace(present, problem="")),
                    _target_entry(uuid, target),
                )
                if uuid in moving:  # if only the number of shares falls, the remaining shares stay
                    has_same_kind = entry and target_entry and entry.kind == target_entry.kind
                    entry = target_entry if has_same_kind else None
                if entry is not None:
                    counts[entry.resource] += entry.count
        return counts

    def _settling(self) -> dict[str, tuple[Entry, float]]:
        since = self.seen_at() - SETTLE_S
        return {uuid: departure for uuid, departure in self._left.items() if departure[1] > since}


def _target_entry(uuid: str, target: OfferedResources) -> Entry | None:
    if target.problem or uuid not in target.names:
        return None
    return Entry(target.names[uuid], target.shared.get(uuid))


def _is_kept(entry: Entry, target_entry: Entry | None) -> bool:
    return target_entry is not None and target_entry.has_all_of(entry)
