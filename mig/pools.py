"""A pool's GPUs together: room, which pods to move for more, what a new layout would cost.

Each GPU is a board and the places of its slices, of which there are a few hundred kinds: what has
been worked out for one is not worked out for its like.
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
    """One GPU: its slices, and the pods ("namespace/name") that hold those that are held."""

    name: str
    pool: str
    board: Board
    slices: tuple[Instance, ...]
    held: Mapping[Instance, tuple[str, ...]] = field(default_factory=dict)

    def holders_in(self, gpu_instance: Instance) -> tuple[str, ...]:
        """Return the pods that hold a GPU instance, or a part of it."""
        parts = (pods for one, pods in self.held.items() if one.gpu_instance == gpu_instance)
        return tuple(dict.fromkeys(pod for pods in parts for pod in pods))

    @property
    def is_whole(self) -> bool:
        """Return whether it is one whole GPU, with MIG off."""
        return any(instance.profile.is_whole for instance in self.slices)


@dataclass(frozen=True, slots=True)
class Advice:
    """Room for a profile now, and where more could be made, ``each`` at a time, cheapest first."""

    now: int
    makings: tuple[tuple[GpuState, planner.Making], ...]
    each: int = 1

    @property
    def possible(self) -> int:
        """Return how many there would be room for with all of that."""
        return self.now + self.each * len(self.makings)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a layout would cost; ``impossible`` says why, by board."""

    unchanged: int
    destroyed: int
    created: int
    pods: frozenset[str]
    impossible: Mapping[str, str]


def read(document: Any) -> list[GpuState]:
    """Read GPU objects, or a list of them, as kubectl prints them in JSON.

    Raises:
        SpecError: it is none; says where.
        MigError: a board or a profile is not known, or a place is none of its.
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
        found: dict[Instance, tuple[str, ...]] = {}
        for one in slices:
            inner = one.get("computeStart")
            at = None if inner is None else int(inner)
            instance = board.instance(str(one["profile"]), int(one["start"]), at)
            holders = one.get("holders") or ()
            found[instance] = tuple(f"{pod['namespace']}/{pod['name']}" for pod in holders)
    except (KeyError, TypeError, AttributeError, ValueError) as err:
        if isinstance(err, MigError):
            raise
        raise SpecError(
            f"items[{number}]", repr(err), "a GPU as `kubectl get gpus` has it"
        ) from err
    planner.check(board, tuple(found))
    held = {instance: pods for instance, pods in found.items() if pods}
    return GpuState(name, pool, board, tuple(found), held)


def room(gpus: Iterable[GpuState]) -> dict[Profile, planner.Room]:
    """Return the room on all GPUs together, by profile; those of a name count as one."""
    found: dict[str, tuple[Profile, planner.Room]] = {}
    for (board, held), number in _kinds(gpus).items():
        for profile, one in planner.room(board, held).items():
            first, sum_ = found.get(profile.name, (profile, planner.Room(0, 0)))
            more = planner.Room(sum_.now + number * one.now, sum_.packed + number * one.packed)
            found[profile.name] = first, more
    return dict(found.values())


def advise(gpus: Sequence[GpuState], profile: str, wanted: int) -> Advice:
    """Say where room for so many of a profile can be made with the least that is disturbed.

    What is narrower than its GPU instance has room in those that are divided and held already, and
    in as many more as fit; each place where one more GPU instance could be made has room for all
    that go into one. Raises MigError if no GPU's board knows the profile.
    """
    known = [gpu for gpu in gpus if _knows(gpu.board, profile)]
    if gpus and not known:
        gpus[0].board.device_profile(profile)
    now = each = 0
    found = []
    for gpu in known:
        asked = gpu.board.device_profile(profile)
        if not asked.profile.is_plain:
            continue
        each = 1 if asked.compute is None else asked.compute.max_count
        beside = planner.room(gpu.board, gpu.held)[asked.profile].now
        now += each * beside + planner.room_in_divided(gpu.held, asked)
        making = planner.making(gpu.board, gpu.held, asked.profile)
        if making is not None:
            found.append((gpu, making))
    found.sort(key=lambda one: (bool(one[1].evictions), len(one[1].disturbed), one[1].units))
    return Advice(now, tuple(found[: max(0, -(-(wanted - now) // max(each, 1)))]), each)


def cost(gpus: Sequence[GpuState], wanted: Mapping[str, Wanted]) -> Cost:
    """Return what it costs to give every GPU the slices that are wanted on its board (by key)."""
    unchanged = destroyed = created = 0
    pods: set[str] = set()
    impossible: dict[str, str] = {}
    for gpu in gpus:
        try:
            plan = planner.relayout(
                gpu.board, gpu.slices, wanted[gpu.board.key], held=frozenset(gpu.held)
            )
        except MigError as err:
            impossible.setdefault(gpu.board.key, str(err))
            continue
        destroyed += len(plan.destroy)
        created += len(plan.create)
        unchanged += not (plan.destroy or plan.create)
        pods |= {pod for one in plan.destroy for pod in gpu.held.get(one, ())}
    return Cost(unchanged, destroyed, created, frozenset(pods), impossible)


def _kinds(gpus: Iterable[GpuState]) -> Counter[tuple[Board, frozenset[Instance]]]:
    return Counter((gpu.board, frozenset(gpu.held)) for gpu in gpus)


def _knows(board: Board, profile: str) -> bool:
    try:
        board.device_profile(profile)
    except MigError:
        return False
    return True
