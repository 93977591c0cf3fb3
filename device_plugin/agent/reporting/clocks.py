"""Notifies pods that CUDA events measure the board's modelled time, once per change.

The pool's status shows this, too, but the owner of a program with unexpected timings looks at
its pod. The status of a GPU records which pods were notified, so that a new agent repeats no
event.
"""

from collections.abc import Iterator, Mapping, Sequence

from device_plugin.agent.reporting.notices import Notices
from device_plugin.agent.reporting.status import clock_of
from device_plugin.inventory.model import Gpu, HolderPod, Inventory
from device_plugin.kube.gpu_object import GpuObject
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpu import GPUStatus
from gpu_operator.api.v1alpha1.gpupool import Clock


class Clocks:
    """Notifies each pod whether its CUDA events measure modelled time or wall-clock time.

    Remembers the clock that was last reported to each pod. Used by the reconcile thread only.
    """

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._reported: dict[str, Clock] = {}  # by UID of a pod

    def notify(
        self,
        objects: Sequence[GpuObject],
        inventory: Inventory,
        holders: Mapping[str, Sequence[HolderPod]],
    ) -> None:
        """Post an event on each pod whose clock has changed since the pod's last notification."""
        node_clock, notified = clock_of(inventory), dict[str, Clock]()
        gpus = {gpu.uuid: gpu for gpu in inventory.gpus}
        for gpu_object in objects:
            gpu = gpus.get(gpu_object.uuid)
            for pod in _pods(gpu, holders) if gpu is not None else ():
                earlier_clock = self._reported.get(pod.uid) or _reported_clock(
                    gpu_object.status, pod.uid
                )
                if pod.uid not in notified:  # one event per pod, even if it holds several slices
                    is_notified = earlier_clock is node_clock or self._post(
                        pod, node_clock, gpu_object
                    )
                    notified[pod.uid] = node_clock if is_notified else earlier_clock
        self._reported = notified

    def _post(self, pod: HolderPod, node_clock: Clock, gpu_object: GpuObject) -> bool:
        if node_clock is Clock.WALL:
            message = "CUDA events of contexts that begin from now on measure the node's time again"
            return self._notices.post(pod, Reason.WALL_CLOCK, message, warning=False)
        board = gpu_object.status.product or (
            gpu_object.spec.board if gpu_object.spec else "the board"
        )
        pool = f"GPUPool {gpu_object.spec.pool} has" if gpu_object.spec else "the node has"
        message = (
            "CUDA events (cuEventElapsedTime) of contexts that begin from now on measure the"
            f" modelled time of {board} or its slice, not the time that passes on this node:"
            f" {pool} clock: Modelled"
        )
        return self._notices.post(pod, Reason.MODELLED_CLOCK, message, warning=False)


def _pods(gpu: Gpu, holders: Mapping[str, Sequence[HolderPod]]) -> Iterator[HolderPod]:
    for mig_slice in gpu.slices:
        for pod in holders.get(mig_slice.uuid, ()):
            if pod.uid:  # without a UID it might be another pod of that name by now
                yield pod


def _reported_clock(status: GPUStatus, uid: str) -> Clock:
    """Return the clock of which a pod was last notified, from its GPU's status."""
    holder_groups = [
        *(gpu_slice.holders for gpu_slice in status.slices),
        *(gpu_slice.holders for gpu_slice in status.claims),
    ]
    is_holder = any(pod.uid == uid for pods in holder_groups for pod in pods)
    return (status.clock if is_holder else None) or Clock.WALL
