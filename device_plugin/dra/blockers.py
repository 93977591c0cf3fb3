"""Finds the slices that prevent the creation of a claim's device, and their owners. Pure."""

from device_plugin.inventory.model import Gpu, MigSlice
from gpu_operator.api.v1alpha1.quantity import format_bytes
from mig import planner
from mig.geometry import Instance


def find_blockers(gpu: Gpu, wanted: Instance, share: int | None) -> tuple[MigSlice, ...]:
    """Return the slices that prevent the creation of the device ``wanted``.

    If no single slice prevents it, but the slices together do, all slices are returned.
    ``share`` is the requested share of the device's memory in bytes, or None. Claims' shares of
    the same slice do not conflict while memory is left.
    """
    same = next((s for s in gpu.slices if s.shares and s.instance == wanted), None)
    if share is not None and same is not None:
        used = sum(one.memory_bytes for one in same.shares)
        return (same,) if used + share > wanted.profile.memory_bytes else ()
    there = [s.instance for s in gpu.slices]
    if not planner.violations(gpu.board, [*there, wanted]):
        return ()
    each = [s for s in gpu.slices if planner.violations(gpu.board, [s.instance, wanted])]
    return tuple(each) or gpu.slices


def describe_owner(s: MigSlice) -> str:
    """Describe who holds a slice that prevents the creation of another one."""
    what = "the whole GPU" if s.instance.profile.is_whole else str(s.instance)
    pods = ", ".join(f"{pod.namespace}/{pod.name}" for pod in s.holders)
    if s.shares:
        shares = (f"{one.owner_name} ({format_bytes(one.memory_bytes)})" for one in s.shares)
        return f"{what} is shared by claims {', '.join(shares)}"
    if s.owner:
        return f"{what} is held by claim {s.owner_name}"
    if pods:
        return f"{what} is held by pod {pods}, which has it from the device plugin"
    return f"{what} belongs to the device plugin, and no pod holds it"
