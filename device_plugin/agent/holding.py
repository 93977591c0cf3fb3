"""Computes which pods hold which slices, from the kubelet's successive Lists.

Everything is pure except for the clock.

A listed pod is a holder at once. A pod that has disappeared stops being a holder at once only if
the kubelet has given its slice to another pod. Otherwise the pod must be missing from Lists some
seconds apart, all of which show that the kubelet knows its pods. After a restart the kubelet
answers before the API server has reported what runs here, and fencing on such an answer would
kill every program.
"""

from collections.abc import Mapping

from device_plugin.inventory.model import HolderPod, slice_uuid_of
from vgpu_sim.records import dataclass

ABSENT_S = 3.0


@dataclass(frozen=True, slots=True)
class View:
    """The pods that hold each slice, by slice UUID.

    If ``complete`` is true, a slice without an entry certainly has no holder.
    """

    holders: Mapping[str, tuple[HolderPod, ...]]
    complete: bool
    devices: frozenset[str] = frozenset()
    """The device ids in the kubelet's last List; a shared slice has several ids."""


class HolderMemory:
    """The known holders of devices.

    A holder that the kubelet no longer lists is kept until it has been missing for ``ABSENT_S``
    seconds.
    """

    def __init__(self) -> None:
        self._pods: dict[str, tuple[HolderPod, ...]] = {}
        self._missing_since: dict[tuple[str, HolderPod], float] = {}
        self._synced_since: float | None = None
        self._complete = False

    @property
    def view(self) -> View:
        """Return the known holders."""
        return View(_by_slice(self._pods), self._complete)

    @property
    def devices(self) -> frozenset[str]:
        """Return the ids of all devices that pods hold. A shared slice has several device ids."""
        return frozenset(self._pods)

    def observe(
        self, listed: Mapping[str, tuple[HolderPod, ...]], kubelet_synced: bool, now_s: float
    ) -> View:
        """Update the holders from one List of pods, and return the holders.

        ``kubelet_synced`` is true if the List contains a pod that is known to run on this node. A
        List without such a pod may be incomplete.
        """
        if not kubelet_synced:
            self._missing_since.clear()
            self._synced_since = None
        elif self._synced_since is None:
            self._synced_since = now_s
        if self._synced_since is not None and now_s - self._synced_since >= ABSENT_S:
            self._complete = True
        pods_by_uuid: dict[str, tuple[HolderPod, ...]] = {}
        for uuid in self._pods.keys() | listed.keys():
            earlier_pods = self._pods.get(uuid, ())
            listed_pods = tuple(_with_uid(pod, earlier_pods) for pod in listed.get(uuid, ()))
            pods = listed_pods or tuple(
                pod for pod in earlier_pods if not self._is_gone(uuid, pod, kubelet_synced, now_s)
            )
            if pods:
                pods_by_uuid[uuid] = pods
        self._pods = pods_by_uuid
        self._missing_since = {
            (uuid, pod): since
            for (uuid, pod), since in self._missing_since.items()
            if pod in pods_by_uuid.get(uuid, ()) and uuid not in listed
        }
        return self.view

    def _is_gone(self, uuid: str, pod: HolderPod, kubelet_synced: bool, now_s: float) -> bool:
        if not kubelet_synced:
            return False
        return now_s - self._missing_since.setdefault((uuid, pod), now_s) >= ABSENT_S


def _by_slice(
    pods: Mapping[str, tuple[HolderPod, ...]],
) -> dict[str, tuple[HolderPod, ...]]:
    """Return the pods of each slice, whichever of its shares they hold."""
    pods_by_slice: dict[str, dict[HolderPod, None]] = {}
    for device in sorted(pods):
        pods_by_slice.setdefault(slice_uuid_of(device), {}).update(dict.fromkeys(pods[device]))
    return {uuid: tuple(unique_pods) for uuid, unique_pods in pods_by_slice.items()}


def _with_uid(pod: HolderPod, earlier_pods: tuple[HolderPod, ...]) -> HolderPod:
    """Return the pod; if its UID is unknown, return the earlier holder with its name, if any."""
    if pod.uid:
        return pod
    same_name = (b for b in earlier_pods if (b.namespace, b.name) == (pod.namespace, pod.name))
    return next(same_name, pod)
