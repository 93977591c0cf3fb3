"""Changes a board's layout in the fewest steps, and proves that fewer do not suffice.

A *way* is a placement of all wanted slices; every way is tried. A set of existing instances can
stay if some way contains the set; of every other set at least one instance must be destroyed. So
the minimal sets that no way contains are the proof.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from mig.errors import InUseError, MigError, PlanError
from mig.geometry import Board, DeviceProfile, Instance
from mig.planner.compute import DeviceRequest, device_of, find_placements, place_order
from mig.planner.explain import misfit_error
from mig.planner.headroom import Headroom, headroom_of
from mig.planner.rules import check

Wanted = tuple[Instance | DeviceRequest, ...]
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Relayout:
    """The steps that change a board's layout: first destroy instances, then create others.

    Instances in ``keep`` are left unchanged. ``keep``, ``destroy`` and ``create`` are ordered by
    start.
    """

    keep: tuple[Instance, ...]
    destroy: tuple[Instance, ...]
    create: tuple[Instance, ...]
    proof: "Proof"

    @property
    def layout(self) -> tuple[Instance, ...]:
        """Return the instances that the board has after the steps, sorted by start."""
        return tuple(sorted((*self.keep, *self.create), key=place_order))


@dataclass(frozen=True, slots=True)
class Proof:
    """Proof that every plan destroys at least ``bound`` instances.

    ``ways`` is the number of placements of the wanted slices that keep all pinned instances. All of
    these placements were tried. ``surplus`` is, for each profile, the number of existing devices
    beyond the wanted number. Each element of ``conflicts`` is a minimal set of existing instances
    that no placement can keep together. A set is not listed if it has more devices of a profile
    than are wanted.
    """

    bound: int
    ways: int
    surplus: tuple[tuple[DeviceProfile, int], ...]
    conflicts: tuple[tuple[Instance, ...], ...]


def relayout(
    board: Board,
    have: Sequence[Instance],
    requests: Sequence[Instance | DeviceRequest],
    pinned: Collection[Instance] = (),
    held: Collection[Instance] = (),
) -> Relayout:
    """Place the wanted slices so that few existing instances must be destroyed.

    ``have`` are the existing instances. Those in ``pinned`` must stay; those in ``held`` stay if
    possible. A placement that keeps more instances of ``held`` is preferred, then one that keeps
    more instances in total, then one that leaves more room. Every placement is tried, and the
    result is cached.

    Raises IllegalLayoutError if ``have`` or the placed entries of ``requests`` are illegal;
    MigError if ``pinned`` names an instance that does not exist; InUseError if the pinned
    instances cannot stay; PlanError, with the reason, if the board cannot hold the wanted
    slices.
    """
    return _relayout(
        board,
        tuple(sorted(have, key=place_order)),
        tuple(requests),
        frozenset(pinned),
        frozenset(held),
    )


@lru_cache(maxsize=_REMEMBERED)
def _relayout(
    board: Board,
    have: tuple[Instance, ...],
    requests: Wanted,
    pinned: frozenset[Instance],
    held_instances: frozenset[Instance],
) -> Relayout:
    check(board, have)
    absent = sorted(map(str, pinned - set(have)))
    if absent:
        raise MigError(f"{absent[0]} is pinned but does not exist on {board.key}")
    best: tuple[int, int, Headroom] | None = None
    final = frozenset[Instance]()
    kept_sets: set[frozenset[Instance]] = set()
    ways, existing = 0, frozenset(have)
    for layout, room in _ways(board, requests):
        stays = existing & layout
        if pinned <= stays:
            ways += 1
            kept_sets.add(stays)
            worth = len(stays & held_instances), len(stays), room
            if best is None or worth > best:
                best, final = worth, layout
    if best is None:
        raise _refusal(board, requests, pinned)
    fewest = len(have) - max(map(len, kept_sets))
    proof = Proof(
        fewest, ways, _surplus(have, requests), tuple(_conflicts(have, requests, kept_sets))
    )
    return Relayout(
        keep=tuple(i for i in have if i in final),
        destroy=tuple(i for i in have if i not in final),
        create=tuple(sorted(final - existing, key=place_order)),
        proof=proof,
    )


def _ways(board: Board, requests: Wanted) -> Iterator[tuple[frozenset[Instance], Headroom]]:
    fixed = [entry for entry in requests if isinstance(entry, Instance)]
    check(board, fixed)
    named = [entry for entry in requests if not isinstance(entry, Instance)]
    for placed, total in find_placements(board, fixed, named):
        yield frozenset((*fixed, *placed)), headroom_of(board, total)


def _refusal(board: Board, requests: Wanted, pinned: frozenset[Instance]) -> PlanError | InUseError:
    """Return the error that explains why the wanted slices cannot be placed."""
    fixed = [entry for entry in requests if isinstance(entry, Instance)]
    named = [entry for entry in requests if not isinstance(entry, Instance)]
    if next(_ways(board, requests), None) is not None:
        lost = sorted(map(str, pinned))
        return InUseError(
            f"no way to place the wanted slices on {board.key} keeps the pinned ones", lost
        )
    return misfit_error(board, fixed, named, movable=())


def _counts(entries: Sequence[Instance | DeviceRequest]) -> Counter[DeviceProfile]:
    return Counter(map(device_of, entries))


def _surplus(have: Sequence[Instance], requests: Wanted) -> tuple[tuple[DeviceProfile, int], ...]:
    return tuple((_counts(have) - _counts(requests)).items())


def _conflicts(
    have: Sequence[Instance], requests: Wanted, kept_sets: set[frozenset[Instance]]
) -> Iterator[tuple[Instance, ...]]:
    """Yield the minimal sets of instances that no way contains, though as many are wanted.

    Every set that cannot stay contains one of these sets, or more devices of a profile than are
    wanted.
    """
    largest = [stays for stays in kept_sets if not any(stays < kept_set for kept_set in kept_sets)]
    room, conflicts = _counts(requests), list[frozenset[Instance]]()
    for size in range(1, len(have) + 1):
        for candidate in combinations(have, size):
            together = frozenset(candidate)
            if _counts(candidate) - room or any(core <= together for core in conflicts):
                continue
            if not any(together <= stays for stays in largest):
                conflicts.append(together)
                yield candidate
