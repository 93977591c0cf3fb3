"""The guaranteed parts of the node's memory budget, one for each slice that the node offers.

A quarter of the budget is divided equally between the slices; a part is never larger than the
memory of its slice. The rest of the budget is first come, first served. The compute instances of
a GPU instance have one part together, as they have one memory.

A node offers the slices that exist and, in a cluster, also those that a layout or a claim can
still create on its GPUs. Otherwise a first claim could take the whole budget before the second
one is made.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from mig.geometry import Instance
from mig.planner.rules import violations
from vgpu_sim.gpud.model import Gpu, GpuInstanceKey, MigInstance
from vgpu_sim.records import dataclass

GUARANTEED_DIVISOR: Final = 4  # a quarter of the budget


@dataclass(frozen=True, slots=True)
class Offer:
    """The slices that a node offers: the memory of each in bytes, by its GPU instance. ``further``
    is the number of slices that can still be created.
    """

    memory_bytes: Mapping[GpuInstanceKey, int] = field(default_factory=dict)
    further: int = 0

    def part_bytes(self, total_bytes: int) -> int:
        """Return an equal part of the guaranteed quarter of a budget; 0 if there are no slices."""
        count = len(self.memory_bytes) + self.further
        return total_bytes // GUARANTEED_DIVISOR // count if count else 0

    def parts(self, total_bytes: int) -> dict[GpuInstanceKey, int]:
        """Return the guaranteed part of each slice that exists, in bytes."""
        part_bytes = self.part_bytes(total_bytes)
        return {key: min(memory, part_bytes) for key, memory in self.memory_bytes.items()}


def offer_of(gpus: Iterable[Gpu], instances: Iterable[MigInstance], fixed: bool) -> Offer:
    """Return what a node with these GPUs and instances offers. If ``fixed`` is set, the instances
    are those of a run, to which none is added.
    """
    memory_bytes: dict[GpuInstanceKey, int] = {}
    placed: dict[str, list[Instance]] = {}
    for instance in instances:
        memory_bytes[instance.gpu_instance] = instance.profile.memory_bytes
        placed.setdefault(instance.gpu.uuid, []).append(instance.placed)
    further = 0 if fixed else sum(_further(gpu, placed.get(gpu.uuid, [])) for gpu in gpus)
    return Offer(memory_bytes, further)


def _further(gpu: Gpu, placed: list[Instance]) -> int:
    """Return how many slices of the smallest profile fit beside a GPU's instances."""
    profiles = gpu.board.profiles or (gpu.board.whole,)
    smallest = min(profiles, key=lambda profile: profile.size)
    count = 0
    for start in smallest.starts:
        candidate = Instance(smallest, start)
        if not violations(gpu.board, [*placed, candidate]):
            placed = [*placed, candidate]
            count += 1
    return count
