"""The true geometry of a GPU's slices: memory placements and compute slices, as boxes.

Units are placement units (memory slices) and compute slices of the board. A GPU instance's compute
slices begin where its placement begins: MIG's placements are defined so that these never overlap.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final, Protocol

from facts.wording import list_first
from mig import geometry
from mig.geometry import Board, Instance

_SHOWN: Final = 4  # slices that keep a requested place from existing


class BoxState(StrEnum):
    """What a box is drawn as; the order is that of the legend."""

    FREE = "free"
    HELD = "held"
    CLAIMED = "claimed"
    LEAVING = "leaving"
    CLOSED = "closed"
    SICK = "sick"
    LOST = "lost"
    COMING = "coming"


LEGEND: dict[BoxState, str] = {
    BoxState.FREE: "free",
    BoxState.HELD: "held by a pod",
    BoxState.CLAIMED: "made for a ResourceClaim",
    BoxState.LEAVING: "withdrawn: the pod that holds it has yet to end",
    BoxState.CLOSED: "admits no pod now: the kubelet or the node agent restarts",
    BoxState.SICK: "not healthy",
    BoxState.LOST: "lost: the GPU is off the bus",
    BoxState.COMING: "requested, does not exist yet",
}


WORDS: dict[BoxState, str] = {
    BoxState.FREE: "free",
    BoxState.HELD: "held",
    BoxState.CLAIMED: "claimed",
    BoxState.LEAVING: "withdrawn",
    BoxState.CLOSED: "not admitting",
    BoxState.SICK: "not healthy",
    BoxState.LOST: "lost",
    BoxState.COMING: "requested",
}


class Owner(Protocol):
    """A pod that holds a slice."""

    @property
    def namespace(self) -> str:
        """Return the pod's namespace."""

    @property
    def name(self) -> str:
        """Return the pod's name."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of units: the first, and their number."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Box:
    """A slice as it is drawn.

    ``part`` and ``parts`` divide the height of the memory among devices that share a GPU instance.
    ``memory_percent`` is how much of the slice's memory is in use.
    ``instance`` has the numbers that nvidia-smi and DCGM print for the slice.
    """

    uuid: str
    name: str
    state: BoxState
    memory: Run
    compute: Run
    holders: tuple[Owner, ...] = ()
    health: str = "Healthy"
    part: int = 0
    parts: int = 1
    memory_percent: int = 0
    instance: str = ""

    @property
    def label(self) -> str:
        """Return the slice's description for people who do not see the drawing."""
        names = ", ".join(f"{holder.namespace}/{holder.name}" for holder in self.holders[:4])
        surplus_note = f" and {len(self.holders) - 4} more" if len(self.holders) > 4 else ""
        sick = f", {self.health}" if self.state is BoxState.SICK else ""
        used = f", {self.memory_percent} % of its memory in use" if self.memory_percent else ""
        name = f"{self.name} ({self.instance})" if self.instance else self.name
        description = f"{name}, {LEGEND[self.state]}{sick}{used}"
        return description + (f": {names}{surplus_note}" if names else "")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A requested place that slices which exist still occupy; a drawing would cover them."""

    box: Box
    behind: tuple[str, ...]

    def __str__(self) -> str:
        verb = "ends" if len(self.behind) == 1 else "end"
        return f"{self.box.name} after {list_first(self.behind, _SHOWN)} {verb}"


@dataclass(frozen=True, slots=True)
class GpuPicture:
    """The boxes of one GPU; ``problem`` says why there are none, or which slices are not drawn.

    ``waiting`` are requested places that are not drawn, because slices occupy them.
    """

    units: int
    compute_slices: int
    boxes: tuple[Box, ...]
    problem: str = ""
    waiting: tuple[Waiting, ...] = ()

    @property
    def requests(self) -> str:
        """Return the requested places that are not drawn, in words; empty if there are none."""
        return f"requested: {'; '.join(map(str, self.waiting))}" if self.waiting else ""


def draw_places(board: Board, states: Mapping[Instance, BoxState]) -> GpuPicture:
    """Return the picture of planned instances with these states."""
    boxes = [make_box("", instance, state) for instance, state in states.items()]
    return GpuPicture(board.placement_units, board.compute_slices, tuple(share_memory(boxes)))


def make_box(
    uuid: str,
    instance: Instance,
    state: BoxState,
    holders: tuple[Owner, ...] = (),
    health: str = "Healthy",
    memory_percent: int = 0,
) -> Box:
    name, number, memory, compute = _describe(instance)
    return Box(
        uuid,
        name,
        state,
        memory,
        compute,
        holders,
        health,
        memory_percent=memory_percent,
        instance=number,
    )


@lru_cache(maxsize=4096)
def _describe(instance: Instance) -> tuple[str, str, Run, Run]:
    """Return an instance's name, numbers and runs; a fleet has few different instances."""
    return str(instance), number_instance(instance), *place_runs(instance)


def number_instance(instance: Instance) -> str:
    """Return the numbers of a MIG device in nvidia-smi and DCGM; empty for a whole GPU."""
    if instance.profile.is_whole:
        return ""
    board = geometry.board(instance.profile.board_key)
    text = f"instance {board.number_of(instance.start, instance.profile.size)}"
    inner = instance.compute_start
    return text if inner is None else f"{text}, compute instance {inner}"


def place_runs(instance: Instance) -> tuple[Run, Run]:
    """Return the placement units and the compute slices of an instance."""
    board = geometry.board(instance.profile.board_key)
    if instance.profile.is_whole:
        return Run(0, board.placement_units), Run(0, board.compute_slices)
    first = instance.start // _units_of_a_compute_slice(board) + (instance.compute_start or 0)
    width = min(instance.device.compute_slices, board.compute_slices - first)
    return Run(instance.start, instance.profile.size), Run(first, width)


@lru_cache(maxsize=64)
def _units_of_a_compute_slice(board: Board) -> int:
    return min(profile.size for profile in board.profiles if profile.compute_slices == 1)


def share_memory(boxes: list[Box]) -> list[Box]:
    """Divide the height of memory that several devices use."""
    runs: dict[Run, list[Box]] = {}
    for box in boxes:
        runs.setdefault(box.memory, []).append(box)
    shared_boxes = []
    for run_boxes in runs.values():
        if len(run_boxes) == 1:
            shared_boxes += run_boxes
            continue
        for number, box in enumerate(sorted(run_boxes, key=lambda box: box.compute.start)):
            shared_boxes.append(replace(box, part=number, parts=len(run_boxes)))
    return sorted(shared_boxes, key=lambda box: (box.memory.start, box.part))
