"""What the kubelet's lists have of each slice now, against what they are to have.

A slice changes its resource where the strategy changes, where sharing gives it another name, and
where a node of strategy ``single`` gets devices of several kinds, which offers none. It changes
what its devices are where it is shared from now on, or no longer, also by the same name: a pod may
have it alone. The scheduler
may have bound pods to the former resource by then. So the slice stays on the former list until
``allocatable`` was lowered (``unlisting``), and joins the next list after the kubelet had time to
finish an allocation that it had begun.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from device_plugin.inventory.model import Inventory, MigSlice, is_given
from device_plugin.inventory.resources import Kind, Offered
from gpu_operator.api.v1alpha1.sharing import Shared

SETTLE_S = 2.0  # lets a kubelet that has just picked a slice finish what it began


@dataclass(frozen=True, slots=True)
class Entry:
    """A resource's list has a slice, once or as several shares."""

    resource: str
    shared: Shared | None = None

    @property
    def count(self) -> int:
        """Return how many devices of the list are the slice's."""
        return 1 if self.shared is None else self.shared.replicas

    @property
    def kind(self) -> Kind:
        """Return what each of these devices is."""
        return Kind(self.resource, self.shared is not None)

    def has_all_of(self, other: "Entry") -> bool:
        """Return whether no device of the other entry is missing in this one."""
        return self.kind == other.kind and self.count >= other.count


@dataclass(slots=True)
class Listing:
    """Used by the reconcile thread only.

    An agent that has just started does not know what its predecessor listed; slices are then
    listed at once as what they are to be. An orderly end of the predecessor had everything lowered.

    ``seen_at`` returns when the last List of pods began that the kubelet answered. A slice joins
    its next list only after a List that shows to which pod the kubelet gave it last.
    """

    seen_at: Callable[[], float]
    clock: Callable[[], float] = time.monotonic
    _entries: dict[str, Entry] | None = None  # by UUID; None: nothing was listed yet
    _left: dict[str, tuple[Entry, float]] = field(default_factory=dict)

    def entry(self, uuid: str, target: Offered) -> Entry | None:
        """Return what a slice is listed as; before the first list what it is to be listed as."""
        return _wanted(uuid, target) if self._entries is None else self._entries.get(uuid)

    def moving(self, target: Offered, slices: Collection[MigSlice]) -> frozenset[str]:
        """Return the UUIDs of slices that have to leave the list on which they are."""
        there = {s.uuid for s in slices}
        return frozenset(
            uuid
            for uuid, entry in (self._entries or {}).items()
            if uuid in there and not _is_kept(entry, _wanted(uuid, target))
        )

    def present(self, target: Offered, slices: Collection[MigSlice]) -> Offered:
        """Return the resources by which slices are listed now or, if they are not, will be."""
        names, shared = dict(target.names), dict(target.shared)
        former = {uuid: entry for uuid, (entry, _) in self._settling().items()}
        moving = self.moving(target, slices)
        former |= {uuid: one for uuid, one in (self._entries or {}).items() if uuid in moving}
        there = {s.uuid for s in slices}
        for uuid, entry in former.items():
            if uuid not in there:
                continue
            names[uuid] = entry.resource
            shared.pop(uuid, None)
            if entry.shared is not None:
                shared[uuid] = entry.shared
        return replace(target, names=names, shared=shared)

    def hidden(self, target: Offered, slices: Collection[MigSlice]) -> frozenset[str]:
        """Return the UUIDs of slices that are on no list: none offers them, or not yet."""
        hidden = set(self._settling())
        if target.problem:
            hidden |= {s.uuid for s in slices} - (self._entries or {}).keys()
        return frozenset(hidden)

    def leave(self, uuids: Collection[str], target: Offered) -> None:
        """Take slices off the lists on which they are."""
        for uuid in uuids:
            entry = (self._entries or {}).pop(uuid, None)
            wanted = _wanted(uuid, target)
            if entry is not None and (wanted is None or wanted.kind != entry.kind):
                self._left[uuid] = entry, self.clock()

    def record(self, present: Offered, listed: Collection[str]) -> None:
        """Note what the kubelet is listed from now on."""
        self._entries = {
            uuid: Entry(name, present.shared.get(uuid))
            for uuid, name in present.names.items()
            if uuid in listed
        }
        self._left = self._settling()

    def changing(self, target: Offered, slices: Collection[MigSlice]) -> frozenset[str]:
        """Return the UUIDs of slices that have to leave a list, or have and wait for the next."""
        return self.moving(target, slices) | frozenset(self._settling())

    def staying(
        self, target: Offered, inventory: Inventory, leaving: Collection[str]
    ) -> Counter[str]:
        """Return how many devices of each resource remain when all have left that have to.

        ``leaving`` are slices that are withdrawn, or are listed as nothing. The kubelet counts no
        sick slice.
        """
        found: Counter[str] = Counter()
        slices = inventory.unclaimed()
        present, hidden = self.present(target, slices), self.hidden(target, slices)
        moving = self.moving(target, slices)
        for gpu in inventory.gpus:
            for one in gpu.unclaimed:
                uuid = one.uuid
                if uuid in leaving or uuid in hidden or not is_given(gpu, one):
                    continue
                entry, wanted = _wanted(uuid, replace(present, problem="")), _wanted(uuid, target)
                if uuid in moving:  # of fewer shares of one resource those remain
                    same = entry and wanted and entry.kind == wanted.kind
                    entry = wanted if same else None
                if entry is not None:
                    found[entry.resource] += entry.count
        return found

    def _settling(self) -> dict[str, tuple[Entry, float]]:
        since = self.seen_at() - SETTLE_S
        return {uuid: one for uuid, one in self._left.items() if one[1] > since}


def _wanted(uuid: str, target: Offered) -> Entry | None:
    if target.problem or uuid not in target.names:
        return None
    return Entry(target.names[uuid], target.shared.get(uuid))


def _is_kept(entry: Entry, wanted: Entry | None) -> bool:
    return wanted is not None and wanted.has_all_of(entry)
