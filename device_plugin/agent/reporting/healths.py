"""Reports changes of health: an event on the GPU, and one on each pod that holds the device.

A GPU's status has the last reported health, so that a new agent repeats no event.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from device_plugin.agent.reporting.notices import Notices
from device_plugin.inventory.model import Gpu, HolderPod
from device_plugin.kube.gpu_object import GpuObject
from facts.health import is_in_service
from gpu_operator.api.v1alpha1.base import Reason

_REASONS: Final = {
    "Healthy": Reason.HEALTHY,
    "Suspect": Reason.SUSPECT,
    "Probation": Reason.PROBATION,
}


class Healths:
    """Remembers the last reported health of devices. Used by the reconcile thread only."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._reported: dict[
            str, str
        ] = {}  # by UUID of a GPU or slice: its health without the cause

    def notify(
        self,
        objects: Sequence[GpuObject],
        gpus: Sequence[Gpu],
        holders: Mapping[str, Sequence[HolderPod]],
    ) -> None:
        """Post events for every device whose health differs from the last reported one."""
        by_uuid = {gpu.uuid: gpu for gpu in gpus}
        now: dict[str, str] = {}
        for wanted in objects:
            gpu = by_uuid.get(wanted.uuid)
            if gpu is None:
                continue
            for uuid, name, health, before in _all(gpu, wanted):
                state = health.partition(":")[0]
                now[uuid] = state
                before = self._reported.get(uuid, before)
                if state == before:
                    continue
                message = f"{name} is {health}; before: {before}"
                reason = _REASONS.get(state, Reason.UNHEALTHY)
                warning = state != "Healthy"
                self._notices.post_gpu(wanted.name, wanted.object_uid, reason, message, warning)
                if is_in_service(before) == is_in_service(state):
                    continue  # pods are notified only when they lose or get back a device
                for pod in holders.get(uuid, ()):
                    self._notices.post(pod, reason, message)
        self._reported = now


def _all(gpu: Gpu, wanted: GpuObject) -> Iterator[tuple[str, str, str, str]]:
    """Yield UUID, name, health and last reported health of a GPU and its slices.

    The last reported health of a new slice is Healthy.
    """
    known = {one.uuid: one.health for one in wanted.status.slices}
    known |= {one.uuid: one.health for one in wanted.status.claims}
    for one in gpu.slices:
        if one.uuid != gpu.uuid:
            before = known.get(one.uuid, "Healthy")
            yield one.uuid, f"slice {one.instance} ({one.uuid})", one.health, before
    last = wanted.status.health
    yield gpu.uuid, f"GPU {gpu.uuid}", gpu.health, last if last != "Unknown" else "Healthy"
