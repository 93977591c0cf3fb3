"""One slice or pod: where it is, and what it holds."""

from collections.abc import Iterator
from dataclasses import dataclass

from console.model.pods import PodRecord
from gpu_operator.api.v1alpha1 import GROUP
from gpu_operator.api.v1alpha1.gpu import ClaimedSlice, Holder, Slice, SliceState
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common.world import World


@dataclass(frozen=True, slots=True)
class FoundSlice:
    """A slice and the GPU that it is part of.

    The GPU object lists a slice that claims share once for each claim: ``others`` are those
    entries beside ``slice``.
    """

    gpu: Gpu
    slice: Slice | ClaimedSlice
    others: tuple[ClaimedSlice, ...] = ()

    @property
    def claims(self) -> tuple[str, ...]:
        """Return the ResourceClaims that the slice was made for."""
        every = (self.slice, *self.others)
        named = (gpu_slice.claim for gpu_slice in every if isinstance(gpu_slice, ClaimedSlice))
        return tuple(f"{claim.namespace}/{claim.name}" for claim in named)

    @property
    def holders(self) -> tuple[Holder, ...]:
        """Return the pods that hold the slice, each once."""
        every = (holder for gpu_slice in (self.slice, *self.others) for holder in gpu_slice.holders)
        return tuple({(holder.namespace, holder.name): holder for holder in every}.values())

    @property
    def memory_used_bytes(self) -> int:
        """Return the memory in use, of all claims that share the slice."""
        return sum(gpu_slice.memory_used_bytes for gpu_slice in (self.slice, *self.others))

    @property
    def memory_bytes(self) -> int:
        """Return the memory of the slice, or of all claims' shares of it."""
        return sum(gpu_slice.memory_bytes for gpu_slice in (self.slice, *self.others))


def containers_of(found_slice: FoundSlice, pod: PodRecord | None) -> tuple[str, ...]:
    """Return the containers of a pod of which one has a slice; empty if that is not known.

    A slice that is not offered any more has no resource: it is that of the only container with a
    resource of GPUs.
    """
    if pod is None:
        return ()
    if isinstance(found_slice.slice, ClaimedSlice):
        claim_resources = {f"claim {claim.partition('/')[2]}" for claim in found_slice.claims}
        names = [name for name, resource in pod.containers if resource in claim_resources]
    elif found_slice.slice.resource:
        names = [
            name for name, resource in pod.containers if resource == found_slice.slice.resource
        ]
    else:
        names = [name for name, resource in pod.containers if resource.startswith(f"{GROUP}/")]
        names = names if len(set(names)) == 1 else []
    return tuple(dict.fromkeys(names))


def is_withdrawn_by_layout(found_slice: FoundSlice) -> bool:
    """Return whether the slice is withdrawn because the GPU is to have other slices."""
    requested_places = {instance.place for instance in found_slice.gpu.spec.instances}
    gpu_slice = found_slice.slice
    return (
        isinstance(gpu_slice, Slice)
        and gpu_slice.state is SliceState.WITHDRAWING
        and gpu_slice.place not in requested_places
    )


def entries_of(gpu: Gpu) -> tuple[Slice | ClaimedSlice, ...]:
    """Return the slices that a GPU object lists; one that claims share, once for each claim."""
    return (*gpu.status.slices, *gpu.status.claims)


def find_slice(world: World, uuid: str) -> FoundSlice | None:
    """Return the slice with this UUID, or None."""
    return next(
        (found_slice for found_slice in every_slice(world) if found_slice.slice.uuid == uuid), None
    )


def slices_of(world: World, namespace: str, name: str) -> list[FoundSlice]:
    """Return the slices that a pod holds."""
    return [
        found_slice
        for found_slice in every_slice(world)
        if any((h.namespace, h.name) == (namespace, name) for h in found_slice.holders)
    ]


def every_slice(world: World) -> Iterator[FoundSlice]:
    """Yield the slices of all GPUs, those of claims too; one that claims share only once."""
    for gpu in world.gpus.values():
        yield from slices_of_gpu(gpu)


def slices_of_gpu(gpu: Gpu) -> Iterator[FoundSlice]:
    """Yield the slices of a GPU, those of claims too; one that claims share only once."""
    for gpu_slice in gpu.status.slices:
        yield FoundSlice(gpu, gpu_slice)
    shared: dict[str, list[ClaimedSlice]] = {}
    for claimed in gpu.status.claims:
        shared.setdefault(claimed.uuid, []).append(claimed)
    for first, *other_claims in shared.values():
        yield FoundSlice(gpu, first, tuple(other_claims))
