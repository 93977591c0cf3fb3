"""What is where a claim's device is to be made, and whose that is. Pure."""

from device_plugin.inventory.model import Gpu, MigSlice
from gpu_operator.api.v1alpha1.quantity import of_bytes
from mig import planner
from mig.geometry import Instance


def blockers(gpu: Gpu, wanted: Instance, share: int | None) -> tuple[MigSlice, ...]:
    """Return what is in the way; if only all together are, all.

    A ``share`` is not in the way of others that claims have of the same, while there is memory.
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


def whose(s: MigSlice) -> str:
    """Say who has a slice that is in the way."""
    what = "the whole GPU" if s.instance.profile.is_whole else str(s.instance)
    pods = ", ".join(f"{pod.namespace}/{pod.name}" for pod in s.holders)
    if s.shares:
        shares = (f"{one.owner_name} ({of_bytes(one.memory_bytes)})" for one in s.shares)
        return f"{what} is shared by claims {', '.join(shares)}"
    if s.owner:
        return f"{what} is held by claim {s.owner_name}"
    if pods:
        return f"{what} is held by pod {pods}, which has it from the device plugin"
    return f"{what} is there for the device plugin, and nobody holds it"
