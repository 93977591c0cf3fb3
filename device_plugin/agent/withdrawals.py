"""Notifies pods that a slice they hold is withdrawn, once per change. For the reconcile thread.

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

    If a slice is offered again and then withdrawn again, its pods are notified again.
    """

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._reported: set[tuple[str, str]] = set()  # slice and pod

    def notify(
        self,
        inventory: Inventory,
        steps: Mapping[str, Steps],
        holders: Mapping[str, Sequence[HolderPod]],
        specs: Mapping[str, GPUSpec],
    ) -> None:
        """Post an event on each pod that holds a withdrawn slice and has not been notified."""
        notified = set()
        for gpu in inventory.gpus:
            why = _why(specs.get(gpu.uuid))
            for mig_slice, pod in _held(steps.get(gpu.uuid, Steps()), holders):
                key = (mig_slice.uuid, pod.uid)
                place = f"slice {mig_slice.instance} of GPU {gpu.index}"
                if mig_slice.instance.profile.is_whole:
                    place = f"GPU {gpu.index} as a whole"
                message = (
                    f"{place} has to go: {why};"
                    " this pod keeps it until it ends, no other pod gets it"
                )
                if key in self._reported or self._post(pod, message):
                    notified.add(key)
        self._reported = notified

    def _post(self, pod: HolderPod, message: str) -> bool:
        return self._notices.post(pod, Reason.SLICE_WITHDRAWN, message)


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
