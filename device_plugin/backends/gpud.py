"""The agent's requests to gpud (docs/gpud-admin.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from device_plugin.backends.administration import Administration
from device_plugin.errors import GpudError, GpudUnreachable
from device_plugin.inventory import model
from mig.errors import MigError
from vgpu_sim.hal.management.documents import DocumentError


class Gpud(Administration):
    """A client of gpud's administration socket.

    Every method may raise GpudError or GpudUnreachable.
    """

    daemon = "gpud"
    refused = GpudError
    unreachable = GpudUnreachable

    def inventory(self) -> model.Inventory:
        """Return a snapshot of all GPUs and slices of gpud.

        Raises:
            GpudError: gpud refused the request, or this agent cannot read the inventory.
        """
        document = self.call("inventory")
        try:
            return model.parse(document)
        except (DocumentError, MigError) as err:
            raise GpudError("mismatch", f"inventory of another version: {err}") from err

    def configure(self, gpus: Sequence[Mapping[str, Any]], budget_bytes: int = 0) -> None:
        """Make exactly these GPUs exist; each entry has ``uuid``, ``index`` and ``board``."""
        self.call("configure", gpus=list(gpus), budget_bytes=budget_bytes)

    def create_instance(
        self,
        gpu_uuid: str,
        profile: str,
        start: int,
        owner: str = "",
        owner_name: str = "",
        compute_start: int | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        """Create a MIG device of the given profile; its GPU instance begins at ``start``.

        If the device covers only a part of its GPU instance, ``compute_start`` is the device's
        place within the GPU instance. The first such device creates the GPU instance.

        ``owner`` is empty or ``claim:UID``. If it is not empty, ``owner_name`` is the claim's
        "namespace/name". If ``memory_bytes`` is set, the claim gets this share of the slice's
        memory; other claims may already have shares of the same memory.

        Raises GpudError ``conflict`` if another device overlaps the new one.
        """
        optional_fields: dict[str, str | int] = (
            {"owner": owner, "owner_name": owner_name} if owner else {}
        )
        if compute_start is not None:
            optional_fields["compute_start"] = compute_start
        if memory_bytes is not None:
            optional_fields["memory_bytes"] = memory_bytes
        self.call(
            "create_instance", gpu_uuid=gpu_uuid, profile=profile, start=start, **optional_fields
        )

    def destroy_instance(self, uuid: str, owner: str = "", evict: bool = False) -> None:
        """Destroy a MIG instance or, with ``owner``, that owner's share of it.

        If ``evict`` is set, gpud first ends the contexts on the instance. Raises GpudError:
        ``conflict`` if the instance has another owner, ``in_use`` if it still has contexts.
        """
        self.call("destroy_instance", uuid=uuid, owner=owner, evict=evict)

    def set_sharing(self, shares: Mapping[str, tuple[str, int]]) -> None:
        """Set how slices are shared; a slice without an entry in ``shares`` is not shared.

        ``shares`` has, by slice UUID, the kind of sharing and the number of shares.
        """
        self.call(
            "set_sharing",
            shares={
                uuid: {"kind": kind, "replicas": replicas}
                for uuid, (kind, replicas) in shares.items()
            },
        )

    def inject_fault(
        self,
        *,
        id: str,  # noqa: A002 - gpud's name
        gpu_uuid: str,
        instance: str,
        kind: str,
        xid: int,
        count: int,
        duration_ms: int,
    ) -> None:
        """Inject a fault into a GPU or an instance.

        A momentary fault is not repeated if its id was injected before.
        """
        self.call(
            "inject_fault",
            id=id,
            gpu_uuid=gpu_uuid,
            instance=instance,
            kind=kind,
            xid=xid,
            count=count,
            duration_ms=duration_ms,
        )

    def clear_faults(self, gpu_uuid: str, fault_id: str) -> None:
        """End a lasting fault. Raises GpudError ``not_found`` if the fault has already ended."""
        self.call("clear_faults", gpu_uuid=gpu_uuid, id=fault_id)

    def set_holders(self, holders: Mapping[str, Sequence[model.HolderPod]], complete: bool) -> None:
        """Set which pods may use which slice.

        With ``complete``, a slice that is absent has no holder.
        """
        self.call(
            "set_holders",
            holders={uuid: _holders(pods) for uuid, pods in holders.items()},
            complete=complete,
        )


def _holders(pods: Sequence[model.HolderPod]) -> list[dict[str, Any]]:
    """Return each pod once, with all claims by which it has the slice.

    The size of the request then depends on the number of pods only.
    """
    rows_by_pod: dict[model.HolderPod, dict[str, Any]] = {}
    for pod in pods:
        row = {
            "pod_uid": pod.uid,
            "namespace": pod.namespace,
            "name": pod.name,
            "container": pod.container,
        }
        pod_row = rows_by_pod.setdefault(replace(pod, claim=""), row)
        if pod.claim:
            pod_row.setdefault("claims", []).append(pod.claim)
    return list(rows_by_pod.values())
