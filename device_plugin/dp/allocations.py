"""The interlock between the kubelet's Allocate and the destruction of a slice.

The kubelet may have picked a slice just before it learns that the slice is withdrawn. Whoever comes
first wins: an allocated slice is not destroyed before the kubelet had time to list its pod, and a
slice that is being destroyed is not allocated any more.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable

from device_plugin.config import LISTED_WITHIN_S
from device_plugin.inventory.model import shared_uuid


class Allocations:
    """Shared by the services of all resources and the reconcile loop (``_lock``)."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        listed_within_s: float = LISTED_WITHIN_S,
    ) -> None:
        self._clock = clock
        self._listed_within_s = listed_within_s
        self._lock = threading.Lock()
        self._allocated_at: dict[str, float] = {}
        self._condemned: set[str] = set()
        self._ours: set[str] = set()
        self._began_at = clock()

    def allocate(self, uuids: Collection[str]) -> str | None:
        """Note an allocation; return the first slice that is being destroyed, if any is."""
        with self._lock:
            for device in uuids:
                if shared_uuid(device) in self._condemned:
                    return device
            self._allocated_at |= dict.fromkeys(uuids, self._clock())
            self._ours.update(map(shared_uuid, uuids))
            return None

    def condemn(self, uuid: str) -> bool:
        """Forbid allocation from now on; False if the slice is on its way to a pod."""
        with self._lock:
            known = self._clock() - self._listed_within_s
            if any(shared_uuid(d) == uuid and t > known for d, t in self._allocated_at.items()):
                return False
            self._condemned.add(uuid)
            return True

    def spare(self, uuid: str) -> None:
        """Allow allocation again: the slice could not be destroyed."""
        with self._lock:
            self._condemned.discard(uuid)

    def spare_all(self) -> None:
        """Allow allocation of everything again: whoever was destroying something is gone."""
        with self._lock:
            self._condemned.clear()

    def listed(self, uuids: Iterable[str]) -> None:
        """From here on the kubelet's lists speak for these slices."""
        with self._lock:
            for uuid in uuids:
                self._allocated_at.pop(uuid, None)

    def pending(self) -> bool:
        """Return whether an allocated slice has not been listed yet."""
        with self._lock:
            newest = max(self._allocated_at.values(), default=float("-inf"))
            return self._clock() - newest < self._listed_within_s

    def under_way(self) -> list[str]:
        """Return what is allocated and not listed yet, the newest first."""
        with self._lock:
            known = self._clock() - self._listed_within_s
            recent = {u: t for u, t in self._allocated_at.items() if t > known}
            return sorted(recent, key=lambda uuid: -recent[uuid])

    def all_ours(self, held: Iterable[str]) -> bool:
        """Return whether no pod has, or is about to get, a slice that an earlier agent allocated.

        ``held`` are the slices of all pods that the kubelet lists.
        """
        with self._lock:
            listed = self._clock() - self._began_at >= self._listed_within_s
            return listed and self._ours.issuperset(held)

    def keep_only(self, uuids: Collection[str]) -> None:
        """Forget slices that do not exist any more."""
        with self._lock:
            self._condemned &= set(uuids)
            self._ours &= set(uuids)
            there = self._allocated_at.items()
            self._allocated_at = {d: t for d, t in there if shared_uuid(d) in uuids}
