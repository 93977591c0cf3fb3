"""Steps from existing to desired instances: which to keep, destroy and create."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from mig.errors import InUseError, MigError
from mig.geometry import Board, Instance
from mig.planner.compute import DeviceRequest, device_of, find_placements, place_order
from mig.planner.explain import misfit_error
from mig.planner.headroom import headroom_of
from mig.planner.rules import check


@dataclass(frozen=True, slots=True)
class Diff:
    """Steps that turn a board's instances into a desired layout: destroy first, then create.

    Each tuple is ordered by start. After the steps, the board has the instances in ``keep`` and
    ``create``.
    """

    keep: tuple[Instance, ...]
    destroy: tuple[Instance, ...]
    create: tuple[Instance, ...]

    @property
    def layout(self) -> tuple[Instance, ...]:
        """Return the instances that the board has after the steps, sorted by start."""
        return _by_start((*self.keep, *self.create))

    @property
    def is_empty(self) -> bool:
        """Return whether nothing has to be destroyed or created."""
        return not (self.destroy or self.create)


def diff(
    board: Board,
    have: Sequence[Instance],
    desired: Sequence[Instance | DeviceRequest],
    in_use: Collection[Instance] = (),
) -> Diff:
    """Return the steps from ``have`` to ``desired``.

    Desired entries are either placed instances, which are created exactly at their place, or
    profiles. Profiles are placed so that as many existing instances as possible are kept; of
    such placements, the one that leaves the most room is chosen. Instances in use are neither
    destroyed nor moved.

    Raises IllegalLayoutError if ``have`` or the placed entries are illegal; InUseError if the
    desired layout leaves out an instance in use; PlanError if the entries do not fit together;
    MigError if ``in_use`` names an instance that does not exist.
    """
    check(board, have)
    in_use = tuple(dict.fromkeys(in_use))
    fixed = [entry for entry in desired if isinstance(entry, Instance)]
    check(board, fixed)
    named = [device_of(entry) for entry in desired if not isinstance(entry, Instance)]
    unnamed_use = [instance for instance in in_use if instance not in fixed]
    _check_in_use(board, have, fixed, named, in_use)

    base = [*fixed, *unnamed_use]
    check(board, base)
    open_requests = list((Counter(named) - Counter(map(device_of, unnamed_use))).elements())
    existing = set(have)
    best = max(
        find_placements(board, base, open_requests),
        key=lambda found: (len(existing.intersection(found[0])), headroom_of(board, found[1])),
        default=None,
    )
    if best is None:
        raise misfit_error(board, base, open_requests, movable=unnamed_use)
    final = {*base, *best[0]}
    return Diff(
        keep=_by_start(existing & final),
        destroy=_by_start(existing - final),
        create=_by_start(final - existing),
    )


def _check_in_use(
    board: Board,
    have: Sequence[Instance],
    fixed: Sequence[Instance],
    named: Sequence[DeviceRequest],
    in_use: Collection[Instance],
) -> None:
    absent = [instance for instance in in_use if instance not in have]
    if absent:
        raise MigError(f"{absent[0]} is listed as in use but does not exist on {board.key}")
    slots = Counter(named)
    lost = []
    for instance in _by_start(instance for instance in in_use if instance not in fixed):
        slots[instance.device] -= 1
        displaced = any(instance.overlaps(fixed_instance) for fixed_instance in fixed)
        if displaced or slots[instance.device] < 0:
            lost.append(str(instance))
    if lost:
        raise InUseError(
            f"the desired layout of {board.key} would destroy slices that are in use", lost
        )


def _by_start(instances: Iterable[Instance]) -> tuple[Instance, ...]:
    return tuple(sorted(instances, key=place_order))
