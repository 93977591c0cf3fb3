"""Finds the slices that prevent the creation of a claim's device, and their owners. Pure."""

from device_plugin.inventory.model import Gpu, MigSlice
from gpu_operator.api.v1alpha1.quantity import format_bytes
from mig import planner
from mig.geometry import Instance


def find_blockers(gpu: Gpu, instance: Instance, share: int | None) -> tuple[MigSlice, ...]:
    """Return the slices that prevent the creation of the device ``instance``.

    If no single slice prevents it, but the slices together do, all slices are returned.
    ``share`` is the requested share of the device's memory in bytes, or None. Claims' shares of
    the same slice do not conflict while memory is left.
    """
    shared_slice = next((s for s in gpu.slices if s.shares and s.instance == instance), None)
    if share is not None and shared_slice is not None:
        used = sum(claim_share.memory_bytes for claim_share in shared_slice.shares)
        return (shared_slice,) if used + share > instance.profile.memory_bytes else ()
    existing_instances = [s.instance for s in gpu.slices]
    if not planner.violations(gpu.board, [*existing_instances, instance]):
        return ()
    conflicting_slices = [
        s for s in gpu.slices if planner.violations(gpu.board, [s.instance, instance])
    ]
    return tuple(conflicting_slices) or gpu.slices


def describe_owner(s: MigSlice) -> str:
    """Describe who holds a slice that prevents the creation of another one."""
    subject = "the whole GPU" if s.instance.profile.is_whole else str(s.instance)
    pods = ", ".join(f"{pod.namespace}/{pod.name}" for pod in s.holders)
    if s.shares:
        shares = (
            f"{claim_share.owner_name} ({format_bytes(claim_share.memory_bytes)})"
            for claim_share in s.shares
        )
        return f"{subject} is shared by claims {', '.join(shares)}"
    if s.owner:
        return f"{subject} is held by claim {s.owner_name}"
    if pods:
        return f"{subject} is held by pod {pods}, which has it from the device plugin"
    return f"{subject} belongs to the device plugin, and no pod holds it"
