"""Computes over all GPUs of a pool: free room, pods to move for more room, cost of a new layout.

A GPU is described by its board and the places of its slices. Only a few hundred combinations of
these exist, so GPUs in the same state share one result.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mig import geometry, planner
from mig.errors import MigError, SpecError
from mig.geometry import Board, Instance, Profile
from mig.planner.relayout import Wanted


@dataclass(frozen=True, slots=True)
class GpuState:
    """The state of one GPU: its slices, and the pods ("namespace/name") that hold some of them."""

    name: str
    pool: str
    board: Board
    slices: tuple[Instance, ...]
    held: Mapping[Instance, tuple[str, ...]] = field(default_factory=dict)

    def holders_in(self, gpu_instance: Instance) -> tuple[str, ...]:
        """Return the pods that hold the given GPU instance, or a part of it."""
        parts = (
            pods for instance, pods in self.held.items() if instance.gpu_instance == gpu_instance
        )
        return tuple(dict.fromkeys(pod for pods in parts for pod in pods))

    @property
    def is_whole(self) -> bool:
        """Return whether the GPU is undivided, with MIG off."""
        return any(instance.profile.is_whole for instance in self.slices)


@dataclass(frozen=True, slots=True)
class Advice:
    """How many more devices of a profile fit now, and changes that make room for further ones.

    ``makings`` lists these changes, the cheapest first. Each change makes room for the same
    number of further devices, and ``each`` is this number.
    """

    now: int
    makings: tuple[tuple[GpuState, planner.Making], ...]
    each: int = 1

    @property
    def possible(self) -> int:
        """Return how many more devices of the profile fit after all these changes."""
        return self.now + self.each * len(self.makings)


@dataclass(frozen=True, slots=True)
class Cost:
    """What it costs to give GPUs a layout.

    ``unchanged`` is the number of GPUs that already have the layout. ``destroyed`` and
    ``created`` are numbers of slices. ``pods`` hold slices that would be destroyed.
    ``impossible`` maps the key of each board that cannot hold the layout to the reason.
    """

    unchanged: int
    destroyed: int
    created: int
    pods: frozenset[str]
    impossible: Mapping[str, str]


def read(document: Any) -> list[GpuState]:
    """Read GPU objects, or a list of them, in kubectl's JSON.

    Raises:
        SpecError: the document is invalid; the message names the position.
        MigError: a board or profile is unknown, or a place is illegal.
    """
    items = document.get("items") if isinstance(document, dict) else None
    if items is None:
        items = [document]
    if not isinstance(items, list):
        raise SpecError("items", type(items).__name__, "a list of GPUs")
    return [_read(item, number) for number, item in enumerate(items)]


def _read(item: Any, number: int) -> GpuState:
    try:
        name, spec = str(item["metadata"]["name"]), item["spec"]
        board = geometry.board(str(spec["board"]))
        pool = str(spec.get("pool") or "")
        slices = (item.get("status") or {}).get("slices") or []
        pods_by_instance: dict[Instance, tuple[str, ...]] = {}
        for slice_status in slices:
            inner = slice_status.get("computeStart")
            at = None if inner is None else int(inner)
            instance = board.instance(str(slice_status["profile"]), int(slice_status["start"]), at)
            holders = slice_status.get("holders") or ()
            pods_by_instance[instance] = tuple(
                f"{pod['namespace']}/{pod['name']}" for pod in holders
            )
    except (KeyError, TypeError, AttributeError, ValueError) as err:
        if isinstance(err, MigError):
            raise
        raise SpecError(
            f"items[{number}]", repr(err), "a GPU object as `kubectl get gpus -o json` prints it"
        ) from err
    planner.check(board, tuple(pods_by_instance))
    held_instances = {instance: pods for instance, pods in pods_by_instance.items() if pods}
    return GpuState(name, pool, board, tuple(pods_by_instance), held_instances)


def room(gpus: Iterable[GpuState]) -> dict[Profile, planner.Room]:
    """For each profile, return the room on all GPUs together.

    Profiles of different boards count as one if they have the same name.
    """
    totals: dict[str, tuple[Profile, planner.Room]] = {}
    for (board, held_slices), number in _kinds(gpus).items():
        for profile, room_on_gpu in planner.room(board, held_slices).items():
            first, sum_ = totals.get(profile.name, (profile, planner.Room(0, 0)))
            total = planner.Room(
                sum_.now + number * room_on_gpu.now, sum_.packed + number * room_on_gpu.packed
            )
            totals[profile.name] = first, total
    return dict(totals.values())


def advise(gpus: Sequence[GpuState], profile: str, requested_count: int) -> Advice:
    """Find room for ``requested_count`` devices of a profile, with the fewest moves and evictions.

    Some devices are narrower than their GPU instance. Such a device fits into a held GPU
    instance that is already divided, or into a new GPU instance. A new GPU instance counts as
    room for as many of these devices as it can contain. Raises MigError if no GPU's board has
    the profile.
    """
    usable_gpus = [gpu for gpu in gpus if _knows(gpu.board, profile)]
    if gpus and not usable_gpus:
        gpus[0].board.device_profile(profile)
    free_count = each = 0
    candidates = []
    for gpu in usable_gpus:
        requested = gpu.board.device_profile(profile)
        if not requested.profile.is_plain:
            continue
        each = 1 if requested.compute is None else requested.compute.max_count
        beside = planner.room(gpu.board, gpu.held)[requested.profile].now
        free_count += each * beside + planner.room_in_divided(gpu.held, requested)
        making = planner.changes_to_fit(gpu.board, gpu.held, requested.profile)
        if making is not None:
            candidates.append((gpu, making))
    candidates.sort(
        key=lambda candidate: (
            bool(candidate[1].evictions),
            len(candidate[1].disturbed),
            candidate[1].units,
        )
    )
    return Advice(
        free_count,
        tuple(candidates[: max(0, -(-(requested_count - free_count) // max(each, 1)))]),
        each,
    )


def cost(gpus: Sequence[GpuState], slices_by_board: Mapping[str, Wanted]) -> Cost:
    """Return what changes, and which pods lose slices, if every GPU gets the wanted slices.

    ``slices_by_board`` maps each board's key to the slices wanted on a GPU of that board.
    """
    unchanged = destroyed = created = 0
    pods: set[str] = set()
    impossible: dict[str, str] = {}
    for gpu in gpus:
        try:
            plan = planner.relayout(
                gpu.board, gpu.slices, slices_by_board[gpu.board.key], held=frozenset(gpu.held)
            )
        except MigError as err:
            impossible.setdefault(gpu.board.key, str(err))
            continue
        destroyed += len(plan.destroy)
        created += len(plan.create)
        unchanged += not (plan.destroy or plan.create)
        pods |= {pod for instance in plan.destroy for pod in gpu.held.get(instance, ())}
    return Cost(unchanged, destroyed, created, frozenset(pods), impossible)


def _kinds(gpus: Iterable[GpuState]) -> Counter[tuple[Board, frozenset[Instance]]]:
    return Counter((gpu.board, frozenset(gpu.held)) for gpu in gpus)


def _knows(board: Board, profile: str) -> bool:
    try:
        board.device_profile(profile)
    except MigError:
        return False
    return True
