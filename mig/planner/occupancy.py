"""The resources of instances as two integers, so that a whole state space can be searched quickly.

``units`` has one bit per placement unit. ``usage`` has one byte per budgeted resource (compute
slices, the five engines, and the count of each profile): usages add, and a carry into the top bit
of any byte, after adding that byte's slack, means that its budget is exceeded.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from mig.geometry import Board, Instance, Profile

_FIELD_BITS = 8
_TOP = 1 << (_FIELD_BITS - 1)
_MOST = _TOP - 1  # the largest usage and budget that a field can hold


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What a set of instances uses of a board: placement units, and amounts of limited
    resources.
    """

    units: int = 0
    usage: int = 0

    def __or__(self, other: "Occupancy") -> "Occupancy":
        return Occupancy(self.units | other.units, self.usage + other.usage)


class Budget:
    """The limits of one board's resources. Immutable; returned by ``budget_of``."""

    __slots__ = ("_high", "_slack", "_usage")

    def __init__(self, board: Board) -> None:
        limits = [board.compute_slices, *board.engines.counts()]
        limits += [profile.max_count for profile in board.profiles]
        if max(limits) > _MOST // 2:
            raise ValueError(
                f"board {board.key} has a limit above {_MOST // 2}, which is not supported"
            )
        self._slack = _pack(_MOST - limit for limit in limits)
        self._high = _pack(_TOP for _ in limits)
        counts = range(len(board.profiles))
        self._usage = {
            profile.name: _pack(
                [
                    profile.compute_slices,
                    *profile.engines.counts(),
                    *(int(column == row) for column in counts),
                ]
            )
            for row, profile in enumerate((*board.profiles, board.whole))
        }  # a whole GPU takes every unit, so it needs no count

    def of(self, profile: Profile, start: int) -> Occupancy:
        """Return the occupancy of an instance that has this profile and starts at ``start``."""
        return Occupancy(((1 << profile.size) - 1) << start, self._usage[profile.name])

    def total(self, instances: Iterable[Instance]) -> Occupancy:
        """Return the occupancy of instances that can legally exist together.

        If several devices are in one GPU instance, the GPU instance's resources count once.
        """
        result = Occupancy()
        for instance in dict.fromkeys(device.gpu_instance for device in instances):
            result |= self.of(instance.profile, instance.start)
        return result

    def is_compatible(self, first: Occupancy, second: Occupancy) -> bool:
        """Return whether two sets of instances can legally exist together on the board.

        ``first`` and ``second`` are the occupancies of the two sets. Each set must be legal by
        itself.
        """
        return not (
            first.units & second.units or (first.usage + second.usage + self._slack) & self._high
        )


def _pack(fields: Iterable[int]) -> int:
    return sum(field << (_FIELD_BITS * index) for index, field in enumerate(fields))


@lru_cache(maxsize=64)
def budget_of(board: Board) -> Budget:
    """Return the limits of the board's resources."""
    return Budget(board)
