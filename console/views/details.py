"""One slice or pod: where it is, and what it holds."""

from dataclasses import dataclass

from gpu_operator.api.v1alpha1.gpu import ClaimedSlice, Slice
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common.world import World


@dataclass(frozen=True, slots=True)
class FoundSlice:
    """A slice and the GPU that it is part of."""

    gpu: Gpu
    slice: Slice | ClaimedSlice

    @property
    def claim(self) -> str:
        """Return the ResourceClaim that the slice was made for; empty if there is none."""
        if isinstance(self.slice, Slice):
            return ""
        return f"{self.slice.claim.namespace}/{self.slice.claim.name}"


def find_slice(world: World, uuid: str) -> FoundSlice | None:
    """Return the slice with this UUID, or None."""
    for gpu in world.gpus.values():
        for one in (*gpu.status.slices, *gpu.status.claims):
            if one.uuid == uuid:
                return FoundSlice(gpu, one)
    return None


def slices_of(world: World, namespace: str, name: str) -> list[FoundSlice]:
    """Return the slices that a pod holds."""
    return [
        FoundSlice(gpu, one)
        for gpu in world.gpus.values()
        for one in (*gpu.status.slices, *gpu.status.claims)
        if any((h.namespace, h.name) == (namespace, name) for h in one.holders)
    ]
