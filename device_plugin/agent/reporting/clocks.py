"""Tells pods, once for each change, that their programs' events measure the board's modelled time.

Their pool says so, too, but whoever wonders about a program's figures looks at its pod. What a pod
has been told is in its GPU's status, so that a new agent repeats nothing.
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
    """Used by the reconcile thread only."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._told: dict[str, Clock] = {}  # by UID of a pod

    def tell(
        self,
        objects: Sequence[GpuObject],
        inventory: Inventory,
        holders: Mapping[str, Sequence[HolderPod]],
    ) -> None:
        """Post an event on each pod that holds a device and does not know of its clock."""
        now, told = clock_of(inventory), dict[str, Clock]()
        gpus = {gpu.uuid: gpu for gpu in inventory.gpus}
        for wanted in objects:
            gpu = gpus.get(wanted.uuid)
            for pod in _pods(gpu, holders) if gpu is not None else ():
                before = self._told.get(pod.uid) or _said(wanted.status, pod.uid)
                if pod.uid not in told:  # one of several slices is enough
                    known = before is now or self._post(pod, now, wanted)
                    told[pod.uid] = now if known else before
        self._told = told

    def _post(self, pod: HolderPod, now: Clock, wanted: GpuObject) -> bool:
        if now is Clock.WALL:
            message = "CUDA events of contexts that begin from now on measure the node's time again"
            return self._notices.post(pod, Reason.WALL_CLOCK, message, warning=False)
        board = wanted.status.product or (wanted.spec.board if wanted.spec else "the board")
        pool = f"GPUPool {wanted.spec.pool} has" if wanted.spec else "the node has"
        message = (
            "CUDA events (cuEventElapsedTime) of contexts that begin from now on measure what"
            f" {board}, or its slice, would take, as modelled; the time that passes here is"
            f" another: {pool} clock: Modelled"
        )
        return self._notices.post(pod, Reason.MODELLED_CLOCK, message, warning=False)


def _pods(gpu: Gpu, holders: Mapping[str, Sequence[HolderPod]]) -> Iterator[HolderPod]:
    for one in gpu.slices:
        for pod in holders.get(one.uuid, ()):
            if pod.uid:  # else it might be another pod of that name by now
                yield pod


def _said(status: GPUStatus, uid: str) -> Clock:
    """Return which clock a pod knows of: its GPU's when that was written, if it was there."""
    held = [*(one.holders for one in status.slices), *(one.holders for one in status.claims)]
    there = any(pod.uid == uid for pods in held for pod in pods)
    return (status.clock if there else None) or Clock.WALL
