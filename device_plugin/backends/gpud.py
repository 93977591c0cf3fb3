"""What the agent asks of gpud (docs/gpud-admin.md)."""

from collections.abc import Mapping, Sequence
from typing import Any

from device_plugin.backends.administration import Administration
from device_plugin.errors import GpudError, GpudUnreachable
from device_plugin.inventory import model
from mig.errors import MigError
from vgpu_sim.hal.admin import DocumentError


class Gpud(Administration):
    """gpud, by its administration socket. Every method raises GpudError and GpudUnreachable."""

    daemon = "gpud"
    refused = GpudError
    unreachable = GpudUnreachable

    def inventory(self) -> model.Inventory:
        """Return a snapshot of all GPUs and slices.

        Raises:
            GpudError: also when it is not one that this agent understands.
        """
        document = self.call("inventory")
        try:
            return model.parse(document)
        except (DocumentError, MigError) as err:
            raise GpudError("mismatch", f"inventory of another version: {err}") from err

    def configure(self, gpus: Sequence[Mapping[str, Any]], budget_bytes: int = 0) -> None:
        """Make exactly these GPUs exist (``uuid``, ``index``, ``board`` each)."""
        self.call("configure", gpus=list(gpus), budget_bytes=budget_bytes)

    def create_instance(self, gpu_uuid: str, profile: str, start: int) -> None:
        """Create a MIG instance at its place."""
        self.call("create_instance", gpu_uuid=gpu_uuid, profile=profile, start=start)

    def destroy_instance(self, uuid: str) -> None:
        """Destroy a MIG instance; ``in_use`` while it has contexts."""
        self.call("destroy_instance", uuid=uuid)

    def set_holders(self, holders: Mapping[str, Sequence[model.HolderPod]], complete: bool) -> None:
        """Say which pods may use which slice; ``complete``: what is not named has no holder."""
        self.call(
            "set_holders",
            holders={
                uuid: [
                    {"pod_uid": pod.uid, "namespace": pod.namespace, "name": pod.name}
                    for pod in pods
                ]
                for uuid, pods in holders.items()
            },
            complete=complete,
        )
