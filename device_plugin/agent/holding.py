"""Who holds which slice, from one List of the kubelet to the next. Pure but for the clock given.

A pod that is listed is believed at once. A pod that has disappeared is believed to be gone at once
only if the kubelet has given its slice to another pod. Otherwise it must be missing from Lists some
seconds apart, all of which show that the kubelet knows its pods: after a restart it answers before
the API server has told it what runs here, and fencing on such an answer would kill everybody.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from device_plugin.inventory.model import HolderPod, shared_uuid

ABSENT_S = 3.0


@dataclass(frozen=True, slots=True)
class View:
    """Holders by slice UUID. ``complete``: a slice that is not named has no holder, for certain."""

    holders: Mapping[str, tuple[HolderPod, ...]]
    complete: bool
    devices: frozenset[str] = frozenset()
    """Device ids that the kubelet listed last: those of a shared slice are several."""


class HolderMemory:
    """What is believed now, and since when a believed pod has been missing."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[HolderPod, ...]] = {}
        self._missing_since: dict[tuple[str, HolderPod], float] = {}
        self._synced_since: float | None = None
        self._complete = False

    @property
    def view(self) -> View:
        """Return what is believed."""
        return View(_by_slice(self._pods), self._complete)

    @property
    def devices(self) -> frozenset[str]:
        """Return the device ids that pods are believed to hold: of a shared slice several."""
        return frozenset(self._pods)

    def observe(
        self, listed: Mapping[str, tuple[HolderPod, ...]], kubelet_synced: bool, now: float
    ) -> View:
        """Take one List. ``kubelet_synced``: it shows a pod that is certain to run here."""
        if not kubelet_synced:
            self._missing_since.clear()
            self._synced_since = None
        elif self._synced_since is None:
            self._synced_since = now
        if self._synced_since is not None and now - self._synced_since >= ABSENT_S:
            self._complete = True
        believed: dict[str, tuple[HolderPod, ...]] = {}
        for uuid in self._pods.keys() | listed.keys():
            before = self._pods.get(uuid, ())
            there = tuple(_with_uid(pod, before) for pod in listed.get(uuid, ()))
            pods = there or tuple(
                pod for pod in before if not self._is_gone(uuid, pod, kubelet_synced, now)
            )
            if pods:
                believed[uuid] = pods
        self._pods = believed
        self._missing_since = {
            (uuid, pod): since
            for (uuid, pod), since in self._missing_since.items()
            if pod in believed.get(uuid, ()) and uuid not in listed
        }
        return self.view

    def _is_gone(self, uuid: str, pod: HolderPod, kubelet_synced: bool, now: float) -> bool:
        if not kubelet_synced:
            return False
        return now - self._missing_since.setdefault((uuid, pod), now) >= ABSENT_S


def _by_slice(
    pods: Mapping[str, tuple[HolderPod, ...]],
) -> dict[str, tuple[HolderPod, ...]]:
    """Return the pods of each slice, whichever of its shares they have."""
    found: dict[str, dict[HolderPod, None]] = {}
    for device in sorted(pods):
        found.setdefault(shared_uuid(device), {}).update(dict.fromkeys(pods[device]))
    return {uuid: tuple(there) for uuid, there in found.items()}


def _with_uid(pod: HolderPod, before: tuple[HolderPod, ...]) -> HolderPod:
    """Return the pod; without a UID, the one of its name that had the slice before, if any."""
    if pod.uid:
        return pod
    same_name = (b for b in before if (b.namespace, b.name) == (pod.namespace, pod.name))
    return next(same_name, pod)
