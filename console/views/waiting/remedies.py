"""What would free slices for a pod: on one node, because a pod's slices are all on its node.

The room and the moves come from the planner of ``tessera mig advise``. GPUs that are not healthy,
or that only ResourceClaims can use, are left out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from console.views.waiting.edits import (
    GpuRoom,
    LayoutEdit,
    OtherGpus,
    find_edits,
    find_others,
    find_rooms,
)
from console.views.waiting.supply import NO_SUPPLY, Supply
from console.views.waiting.survey import Survey
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common import offers
from gpu_operator.controllers.layouts import selection
from mig import planner, pools
from mig.errors import MigError
from mig.geometry import Board
from mig.pools import GpuState

MOVES: Final = 5


@dataclass(frozen=True, slots=True)
class Move:
    """A change on one GPU that makes room: pods that move, or that must end."""

    gpu: str
    lines: tuple[str, ...]
    evicts: bool


@dataclass(frozen=True, slots=True)
class WholeGpu:
    """A whole GPU that no pod holds, and on which a layout can create slices.

    ``layout`` is the oldest layout that selects the GPU; empty if there is none. ``others`` are
    those on which this layout decides as well.
    """

    name: str
    index: int
    layout: str
    others: OtherGpus | None = None


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would free slices on one node.

    ``now`` is how many would fit on the node's divided GPUs beside all held slices, and ``each``
    how many each of ``divide``, the whole GPUs to divide first, can have. ``possible`` is how many
    would fit after all of ``moves``. ``requested`` are those that layouts request there and that no
    pod holds, and ``layout`` is one that a divided GPU of the node follows. ``room`` has the
    divided GPUs with room, and ``edits`` the layouts to edit. ``supply`` is how the scheduler
    counts the node's devices. ``others`` are the other nodes on
    which no more has to be done: there is room as well, or whole GPUs to divide.
    """

    profile: str
    wanted: int
    node: str = ""
    now: int = 0
    each: int = 0
    divide: tuple[WholeGpu, ...] = ()
    possible: int = 0
    moves: tuple[Move, ...] = ()
    requested: int = 0
    layout: str = ""
    problem: str = ""
    room: tuple[GpuRoom, ...] = ()
    edits: tuple[LayoutEdit, ...] = ()
    supply: Supply = NO_SUPPLY
    others: tuple[str, ...] = ()

    @property
    def with_divided(self) -> int:
        """Return how many would fit without moves if the whole GPUs were divided."""
        return self.now + self.each * len(self.divide)

    @property
    def with_moves(self) -> int:
        """Return how many would fit after the moves, if the whole GPUs were divided as well."""
        return self.possible + self.each * len(self.divide)

    @property
    def rank(self) -> tuple[bool, bool, bool, int, int]:
        """Return the order of preference; the smallest is the best."""
        return (
            self.now < self.wanted,
            self.with_divided < self.wanted,
            self.with_moves < self.wanted,
            sum(len(move.lines) + move.evicts for move in self.moves),
            -self.with_moves,
        )


def find_remedy(survey: Survey, resource: str, number: int, nodes: Sequence[str]) -> Remedy | None:
    """Return the best remedy on one of some nodes; None if the resource is no MIG device."""
    if not offers.is_ours(resource, survey.world.policy.resource_prefix):
        return None
    profile = _profile_name(survey.states, resource.partition("/mig-")[2])
    if not profile:
        return None
    able = {board for board in {state.board for state in survey.states} if _has(board, profile)}
    usable = {
        node: [state for state in survey.usable_by_node.get(node, ()) if state.board in able]
        for node in nodes
    }
    try:
        remedies = [_on_node(survey, node, usable[node], profile, number) for node in nodes]
    except MigError as err:
        return Remedy(profile, number, problem=str(err))
    best = min(remedies, key=lambda remedy: remedy.rank, default=Remedy(profile, number))
    node = survey.world.nodes.get(best.node)
    if node is None:
        return best
    states = usable[best.node]
    counts = [_count_unheld(survey.world.gpus[state.name], state, profile) for state in states]
    room = tuple(find_rooms(survey, states, profile, counts))
    other_nodes = sorted(
        remedy.node
        for remedy in remedies
        if remedy is not best and remedy.rank[:2] <= best.rank[:2]
    )
    return replace(
        best,
        divide=tuple(_add_others(survey, whole_gpu) for whole_gpu in best.divide),
        room=room,
        edits=find_edits(survey, room, profile, number - best.requested),
        supply=survey.count_supply(node, resource),
        others=tuple(other_nodes) if best.with_divided >= number else (),
    )


def _add_others(survey: Survey, whole_gpu: WholeGpu) -> WholeGpu:
    layout = survey.world.layouts.get(whole_gpu.layout)
    return (
        whole_gpu
        if layout is None
        else replace(whole_gpu, others=find_others(survey, layout, whole_gpu.name))
    )


def _on_node(
    survey: Survey, node: str, states: Sequence[GpuState], profile: str, number: int
) -> Remedy:
    divided = [state for state in states if not state.is_whole]
    advice = pools.advise(divided, profile, number)
    whole = [state for state in states if state.is_whole and not state.held]
    slices_per_gpu = max(
        (pools.advise([_empty(state)], profile, 1).now for state in whole), default=0
    )
    short = max(0, number - advice.now)
    enough = whole[: -(-short // slices_per_gpu)] if slices_per_gpu else []
    gpus = survey.world.gpus
    requested = sum(_count_unheld(gpus[state.name], state, profile) for state in states)
    return Remedy(
        profile=profile,
        wanted=number,
        node=node,
        now=advice.now,
        each=slices_per_gpu,
        divide=tuple(_describe_whole(survey, gpus[state.name]) for state in enough),
        possible=advice.possible,
        moves=tuple(_move(gpu, making) for gpu, making in advice.makings[:MOVES]),
        requested=requested,
        layout=next((of for state in divided if (of := gpus[state.name].spec.layout)), ""),
    )


def _count_unheld(gpu: Gpu, state: GpuState, profile: str) -> int:
    """Return how many slices of a profile a GPU's spec requests at places that no pod holds."""
    held_places = {planner.place_of(instance) for instance in state.held}
    requested_instances = gpu.spec.layout_instances
    return sum(
        instance.profile == profile and instance.place not in held_places
        for instance in requested_instances
    )


def _empty(gpu: GpuState) -> GpuState:
    return GpuState(gpu.name, gpu.pool, gpu.board, ())


def _describe_whole(survey: Survey, gpu: Gpu) -> WholeGpu:
    layouts = sorted(
        (layout for layout in survey.world.layouts.values() if not layout.meta.deleting),
        key=lambda layout: layout.meta.age_key,
    )
    selecting = (layout.name for layout in layouts if selection.selects(survey.world, layout, gpu))
    return WholeGpu(gpu.name, gpu.spec.index, gpu.spec.layout or next(selecting, ""))


def _has(board: Board, profile: str) -> bool:
    return any(device_profile.name == profile for device_profile in board.device_profiles)


def _profile_name(states: Iterable[GpuState], short: str) -> str:
    for board in {state.board for state in states}:
        for device in board.device_profiles:
            if device.resource_name == f"mig-{short}":
                return device.name
    return ""


def _move(gpu: GpuState, making: planner.Making) -> Move:
    target_places = [str(to) for _, to in making.moves]
    lines = []
    for place, instance in enumerate(making.disturbed):
        names = ", ".join(gpu.holders_in(instance))
        lines.append(
            f"move {names} from {instance} to {target_places[place]}"
            if target_places
            else f"end {names} on {instance}"
        )
    return Move(gpu.name, tuple(lines), not target_places)
