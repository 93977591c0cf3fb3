"""One slice or pod: where it is, and what it holds."""

from collections.abc import Iterator
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
    return next((one for one in every_slice(world) if one.slice.uuid == uuid), None)


def slices_of(world: World, namespace: str, name: str) -> list[FoundSlice]:
    """Return the slices that a pod holds."""
    return [
        one
        for one in every_slice(world)
        if any((h.namespace, h.name) == (namespace, name) for h in one.slice.holders)
    ]


def every_slice(world: World) -> Iterator[FoundSlice]:
    """Yield the slices of all GPUs, those of claims too."""
    for gpu in world.gpus.values():
        for one in gpu.status.slices:
            yield FoundSlice(gpu, one)
        for claimed in gpu.status.claims:
            yield FoundSlice(gpu, claimed)
