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
        now: dict[str, str] = {}
        for wanted in objects:
            gpu = by_uuid.get(wanted.uuid)
            if gpu is None:
                continue
            changes: dict[tuple[str, str], list[_Device]] = {}
            for device in _all(gpu, wanted):
                now[device.uuid] = device.state
                before = self._reported.get(device.uuid, device.before)
                if device.state != before:
                    changes.setdefault((device.state, before), []).append(device)
            for (_, before), devices in changes.items():
                if not self._report(wanted, devices, before, holders):
                    now |= {device.uuid: before for device in devices}  # the next pass tries again
        self._reported = now

    def _report(
        self,
        wanted: GpuObject,
        devices: Sequence["_Device"],
        before: str,
        holders: Mapping[str, Sequence[HolderPod]],
    ) -> bool:
        """Post one event on a GPU for its devices that changed alike, and one on each holder.

        A fault changes a GPU with all its slices. Returns False if too many events wait already.
        """
        first, *others = devices
        reason, warning = _REASONS.get(first.state, Reason.UNHEALTHY), first.state != "Healthy"
        message = f"{first.name} is {first.health}; before: {before}"
        if others:
            message += f"; so are {', '.join(one.short_name for one in others)}"
        if not self._notices.post_health(wanted.name, wanted.object_uid, reason, message, warning):
            return False
        if is_in_service(before) == is_in_service(first.state):
            return True  # pods are notified only when they lose or get back a device
        for one in devices:
            message = f"{one.name} is {one.health}; before: {before}"
            for pod in holders.get(one.uuid, ()):
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


def _all(gpu: Gpu, wanted: GpuObject) -> Iterator[_Device]:
    """Yield a GPU and its slices. The last reported health of a new slice is Healthy."""
    last = wanted.status.health
    name = f"GPU {gpu.uuid}"
    yield _Device(gpu.uuid, name, name, gpu.health, last if last != "Unknown" else "Healthy")
    known = {one.uuid: one.health for one in wanted.status.slices}
    known |= {one.uuid: one.health for one in wanted.status.claims}
    for one in gpu.slices:
        if one.uuid != gpu.uuid:
            short = f"slice {one.instance}"
            before = known.get(one.uuid, "Healthy").partition(":")[0]  # without the cause
            yield _Device(one.uuid, f"{short} ({one.uuid})", short, one.health, before)
