"""The interlock between the kubelet's Allocate and the destruction of a slice.

The kubelet may have picked a slice just before it receives the list without it. The first call
wins: an allocated slice is not destroyed before the kubelet had time to list its pod, and a
slice that is being destroyed can no longer be allocated.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable

from device_plugin.config import LISTED_WITHIN_S
from device_plugin.inventory.model import slice_uuid_of


class Allocations:
    """The slices that are being allocated or destroyed.

    The services of all resources and the reconcile loop share this object (``_lock``).
    """

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
        """Record that slices are being allocated.

        If one of them is being destroyed, return it and record nothing; otherwise return None.
        """
        with self._lock:
            for device in uuids:
                if slice_uuid_of(device) in self._condemned:
                    return device
            self._allocated_at |= dict.fromkeys(uuids, self._clock())
            self._ours.update(map(slice_uuid_of, uuids))
            return None

    def forbid(self, uuid: str) -> bool:
        """Forbid allocation of a slice from now on.

        Return False, and forbid nothing, if the slice was just allocated to a pod.
        """
        with self._lock:
            listed_until_s = self._clock() - self._listed_within_s
            if any(
                slice_uuid_of(d) == uuid and t > listed_until_s
                for d, t in self._allocated_at.items()
            ):
                return False
            self._condemned.add(uuid)
            return True

    def allow(self, uuid: str) -> None:
        """Allow allocation of a slice again, because it could not be destroyed."""
        with self._lock:
            self._condemned.discard(uuid)

    def allow_all(self) -> None:
        """Allow allocation of every slice again, because the agent that forbade it has ended."""
        with self._lock:
            self._condemned.clear()

    def confirm_listed(self, uuids: Iterable[str]) -> None:
        """Record that the kubelet now lists these slices with the pods that got them."""
        with self._lock:
            for uuid in uuids:
                self._allocated_at.pop(uuid, None)

    def has_pending(self) -> bool:
        """Return whether a slice was allocated to a pod that the kubelet has not listed yet."""
        with self._lock:
            newest = max(self._allocated_at.values(), default=float("-inf"))
            return self._clock() - newest < self._listed_within_s

    def unconfirmed_ids(self) -> list[str]:
        """Return the device ids that were allocated to pods that the kubelet has not listed yet.

        The newest allocation is the first.
        """
        with self._lock:
            listed_until_s = self._clock() - self._listed_within_s
            recent = {u: t for u, t in self._allocated_at.items() if t > listed_until_s}
            return sorted(recent, key=lambda uuid: -recent[uuid])

    def all_ours(self, held_uuids: Iterable[str]) -> bool:
        """Return whether this agent has allocated all slices that pods hold or are about to get.

        ``held_uuids`` are the slices of all pods that the kubelet lists. If an earlier agent
        allocated a slice, or may have done so shortly before this agent began, the result is false.
        """
        with self._lock:
            listed = self._clock() - self._began_at >= self._listed_within_s
            return listed and self._ours.issuperset(held_uuids)

    def keep_only(self, uuids: Collection[str]) -> None:
        """Forget slices that no longer exist."""
        with self._lock:
            self._condemned &= set(uuids)
            self._ours &= set(uuids)
            allocation_times = self._allocated_at.items()
            self._allocated_at = {d: t for d, t in allocation_times if slice_uuid_of(d) in uuids}
