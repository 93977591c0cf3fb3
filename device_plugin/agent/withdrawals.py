"""Notifies pods that a slice they hold is withdrawn, or is not any longer, once per change.

Used by the reconcile thread.

The layout's status shows this, too, but a pod's owner looks at the pod.
"""

from collections.abc import Iterator, Mapping, Sequence

from device_plugin.agent.reporting.notices import Notices
from device_plugin.agent.steps import Steps
from device_plugin.inventory.model import HolderPod, Inventory, MigSlice
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpu import GPUSpec

Held = tuple[MigSlice, HolderPod]


class Withdrawals:
    """Remembers which pods were notified of a withdrawn slice.

    A pod is notified again if it may keep the slice after all, for example because the layout was
    rolled back.
    """

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._reported: dict[tuple[str, str], str] = {}  # slice and pod: what the slice was called

    def notify(
        self,
        inventory: Inventory,
        steps: Mapping[str, Steps],
        holders: Mapping[str, Sequence[HolderPod]],
        specs: Mapping[str, GPUSpec],
    ) -> None:
        """Post an event on each pod that holds a slice which was withdrawn or is offered again."""
        notified = {}
        withdrawn = set()
        for gpu in inventory.gpus:
            why = _why(specs.get(gpu.uuid))
            for mig_slice, pod in _held(steps.get(gpu.uuid, Steps()), holders):
                key = (mig_slice.uuid, pod.uid)
                withdrawn.add(key)
                place = f"slice {mig_slice.instance} of GPU {gpu.index}"
                if mig_slice.instance.profile.is_whole:
                    place = f"GPU {gpu.index} as a whole"
                message = (
                    f"{place} has to go: {why};"
                    " this pod keeps it until it ends, no other pod gets it"
                )
                if key in self._reported or self._post(pod, message):
                    notified[key] = place
        existing_uuids = {gpu.uuid for gpu in inventory.gpus}
        existing_uuids |= {mig_slice.uuid for gpu in inventory.gpus for mig_slice in gpu.slices}
        for (uuid, uid), place in self._reported.items():
            if (uuid, uid) in withdrawn or uuid not in existing_uuids:
                continue
            for pod in holders.get(uuid, ()):
                if pod.uid == uid and not self._post_kept(pod, place):
                    notified[uuid, uid] = place  # the next pass tries again
        self._reported = notified

    def _post(self, pod: HolderPod, message: str) -> bool:
        return self._notices.post(pod, Reason.SLICE_WITHDRAWN, message)

    def _post_kept(self, pod: HolderPod, place: str) -> bool:
        message = f"{place} stays: its GPU's layout no longer removes it"
        return self._notices.post(pod, Reason.SLICE_KEPT, message, warning=False)


def _held(steps: Steps, holders: Mapping[str, Sequence[HolderPod]]) -> Iterator[Held]:
    for mig_slice in steps.withdraw:
        for pod in holders.get(mig_slice.uuid, ()):
            if pod.uid:  # without a UID it might be another pod of that name by now
                yield mig_slice, pod


def _why(spec: GPUSpec | None) -> str:
    if spec is None:
        return "the GPU leaves the node"
    if spec.layout is None:
        return "no layout requests it any more"
    return f"MIGLayout {spec.layout} requests others"
