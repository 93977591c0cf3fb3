"""Reports changes of health: an event on the GPU, and one on each pod that holds the device.

A GPU's status has the last reported health, so that a new agent repeats no event.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

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
        states_by_uuid: dict[str, str] = {}
        for gpu_object in objects:
            gpu = by_uuid.get(gpu_object.uuid)
            if gpu is None:
                continue
            changes: dict[tuple[str, str], list[_Device]] = {}
            for device in _all(gpu, gpu_object):
                states_by_uuid[device.uuid] = device.state
                earlier_state = self._reported.get(device.uuid, device.before)
                if device.state != earlier_state:
                    changes.setdefault((device.state, earlier_state), []).append(device)
            for (_, earlier_state), devices in changes.items():
                if not self._report(gpu_object, devices, earlier_state, holders):
                    # The next pass tries again.
                    states_by_uuid |= {device.uuid: earlier_state for device in devices}
        self._reported = states_by_uuid

    def _report(
        self,
        gpu_object: GpuObject,
        devices: Sequence["_Device"],
        earlier_state: str,
        holders: Mapping[str, Sequence[HolderPod]],
    ) -> bool:
        """Post one event on a GPU for its devices that changed alike, and one on each holder.

        A fault changes a GPU with all its slices. Returns False if too many events wait already.
        """
        first, *other_devices = devices
        reason, warning = _REASONS.get(first.state, Reason.UNHEALTHY), first.state != "Healthy"
        message = f"{first.name} is {first.health}; before: {earlier_state}"
        if other_devices:
            message += f"; so are {', '.join(device.short_name for device in other_devices)}"
        if not self._notices.post_health(
            gpu_object.name, gpu_object.object_uid, reason, message, warning
        ):
            return False
        if is_in_service(earlier_state) == is_in_service(first.state):
            return True  # pods are notified only when they lose or get back a device
        for device in devices:
            message = f"{device.name} is {device.health}; before: {earlier_state}"
            for pod in holders.get(device.uuid, ()):
                self._notices.post(pod, reason, message, warning)
        return True


class _Device(NamedTuple):
    """A GPU or slice with its health and the last reported health."""

    uuid: str
    name: str
    short_name: str
    health: str
    before: str

    @property
    def state(self) -> str:
        """Return the health without its cause."""
        return self.health.partition(":")[0]


def _all(gpu: Gpu, gpu_object: GpuObject) -> Iterator[_Device]:
    """Yield a GPU and its slices. The last reported health of a new slice is Healthy."""
    last = gpu_object.status.health
    name = f"GPU {gpu.uuid}"
    yield _Device(gpu.uuid, name, name, gpu.health, last if last != "Unknown" else "Healthy")
    earlier_healths = {
        slice_status.uuid: slice_status.health for slice_status in gpu_object.status.slices
    }
    earlier_healths |= {
        claim_status.uuid: claim_status.health for claim_status in gpu_object.status.claims
    }
    for mig_slice in gpu.slices:
        if mig_slice.uuid != gpu.uuid:
            short = f"slice {mig_slice.instance}"
            earlier_health = earlier_healths.get(mig_slice.uuid, "Healthy")
            earlier_state = earlier_health.partition(":")[0]  # without the cause
            yield _Device(
                mig_slice.uuid,
                f"{short} ({mig_slice.uuid})",
                short,
                mig_slice.health,
                earlier_state,
            )
