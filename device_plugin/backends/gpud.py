"""What the agent asks of gpud (docs/gpud-admin.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from device_plugin.backends.administration import Administration
from device_plugin.errors import GpudError, GpudUnreachable
from device_plugin.inventory import model
from mig.errors import MigError
from vgpu_sim.hal.management.documents import DocumentError


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
        """Create a MIG device at its place; ``conflict`` where another one is in the way.

        ``compute_start`` is the place of what is narrower than its GPU instance, which comes with
        its first. ``owner`` is what it is made for: empty, or ``claim:UID`` with the claim's
        "namespace/name"; with ``memory_bytes`` it gets a share, also of what claims share already.
        """
        more: dict[str, str | int] = {"owner": owner, "owner_name": owner_name} if owner else {}
        if compute_start is not None:
            more["compute_start"] = compute_start
        if memory_bytes is not None:
            more["memory_bytes"] = memory_bytes
        self.call("create_instance", gpu_uuid=gpu_uuid, profile=profile, start=start, **more)

    def destroy_instance(self, uuid: str, owner: str = "", evict: bool = False) -> None:
        """Destroy a MIG instance, or ``owner``'s share of it; ``conflict`` if it is another's.

        ``in_use`` while it has contexts, which ``evict`` ends first.
        """
        self.call("destroy_instance", uuid=uuid, owner=owner, evict=evict)

    def set_sharing(self, shares: Mapping[str, tuple[str, int]]) -> None:
        """Say how slices are shared, by UUID: kind and replicas; all others are not."""
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
        id: str,  # noqa: A002 - gpud's word
        gpu_uuid: str,
        instance: str,
        kind: str,
        xid: int,
        count: int,
        duration_ms: int,
    ) -> None:
        """Make something fail; what was done once by its id is not done again."""
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
        """End a fault that lasts; ``not_found`` when it has ended."""
        self.call("clear_faults", gpu_uuid=gpu_uuid, id=fault_id)

    def set_holders(self, holders: Mapping[str, Sequence[model.HolderPod]], complete: bool) -> None:
        """Say which pods may use which slice; ``complete``: what is not named has no holder."""
        self.call(
            "set_holders",
            holders={uuid: _holders(pods) for uuid, pods in holders.items()},
            complete=complete,
        )


def _holders(pods: Sequence[model.HolderPod]) -> list[dict[str, Any]]:
    """Return each pod once, with all claims by which it has the slice: the request is bounded."""
    found: dict[model.HolderPod, dict[str, Any]] = {}
    for pod in pods:
        row = {
            "pod_uid": pod.uid,
            "namespace": pod.namespace,
            "name": pod.name,
            "container": pod.container,
        }
        known = found.setdefault(replace(pod, claim=""), row)
        if pod.claim:
            known.setdefault("claims", []).append(pod.claim)
    return list(found.values())
