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
        named = (one.claim for one in every if isinstance(one, ClaimedSlice))
        return tuple(f"{one.namespace}/{one.name}" for one in named)

    @property
    def holders(self) -> tuple[Holder, ...]:
        """Return the pods that hold the slice, each once."""
        every = (holder for one in (self.slice, *self.others) for holder in one.holders)
        return tuple({(one.namespace, one.name): one for one in every}.values())

    @property
    def memory_used_bytes(self) -> int:
        """Return the memory in use, of all claims that share the slice."""
        return sum(one.memory_used_bytes for one in (self.slice, *self.others))

    @property
    def memory_bytes(self) -> int:
        """Return the memory of the slice, or of all claims' shares of it."""
        return sum(one.memory_bytes for one in (self.slice, *self.others))


def containers_of(found: FoundSlice, pod: PodRecord | None) -> tuple[str, ...]:
    """Return the containers of a pod of which one has a slice; empty if that is not known.

    A slice that is not offered any more has no resource: it is that of the only container with a
    resource of GPUs.
    """
    if pod is None:
        return ()
    if isinstance(found.slice, ClaimedSlice):
        wanted = {f"claim {claim.partition('/')[2]}" for claim in found.claims}
        names = [name for name, what in pod.containers if what in wanted]
    elif found.slice.resource:
        names = [name for name, what in pod.containers if what == found.slice.resource]
    else:
        names = [name for name, what in pod.containers if what.startswith(f"{GROUP}/")]
        names = names if len(set(names)) == 1 else []
    return tuple(dict.fromkeys(names))


def is_withdrawn_by_layout(found: FoundSlice) -> bool:
    """Return whether the slice is withdrawn because the GPU is to have other slices."""
    wanted = {one.place for one in found.gpu.spec.instances}
    one = found.slice
    return (
        isinstance(one, Slice) and one.state is SliceState.WITHDRAWING and one.place not in wanted
    )


def entries_of(gpu: Gpu) -> tuple[Slice | ClaimedSlice, ...]:
    """Return the slices that a GPU object lists; one that claims share, once for each claim."""
    return (*gpu.status.slices, *gpu.status.claims)


def find_slice(world: World, uuid: str) -> FoundSlice | None:
    """Return the slice with this UUID, or None."""
    return next((one for one in every_slice(world) if one.slice.uuid == uuid), None)


def slices_of(world: World, namespace: str, name: str) -> list[FoundSlice]:
    """Return the slices that a pod holds."""
    return [
        one
        for one in every_slice(world)
        if any((h.namespace, h.name) == (namespace, name) for h in one.holders)
    ]


def every_slice(world: World) -> Iterator[FoundSlice]:
    """Yield the slices of all GPUs, those of claims too; one that claims share only once."""
    for gpu in world.gpus.values():
        yield from slices_of_gpu(gpu)


def slices_of_gpu(gpu: Gpu) -> Iterator[FoundSlice]:
    """Yield the slices of a GPU, those of claims too; one that claims share only once."""
    for one in gpu.status.slices:
        yield FoundSlice(gpu, one)
    shared: dict[str, list[ClaimedSlice]] = {}
    for claimed in gpu.status.claims:
        shared.setdefault(claimed.uuid, []).append(claimed)
    for first, *others in shared.values():
        yield FoundSlice(gpu, first, tuple(others))
