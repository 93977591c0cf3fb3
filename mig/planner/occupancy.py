"""What instances use up, as two integers, so that a whole state space can be searched quickly.

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
_MOST = _TOP - 1  # largest usage and budget that a field can hold


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The units and the budget that some instances use."""

    units: int = 0
    usage: int = 0

    def __or__(self, other: "Occupancy") -> "Occupancy":
        return Occupancy(self.units | other.units, self.usage + other.usage)


class Budget:
    """The budgets of one board. Immutable; obtained from ``budget_of``."""

    __slots__ = ("_high", "_slack", "_usage")

    def __init__(self, board: Board) -> None:
        limits = [board.compute_slices, *board.engines.counts()]
        limits += [profile.max_count for profile in board.profiles]
        if max(limits) > _MOST // 2:
            raise ValueError(f"board {board.key} has a budget above {_MOST // 2}")
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
        }  # a whole GPU takes every unit: of it no count is needed

    def of(self, profile: Profile, start: int) -> Occupancy:
        """Return what one instance uses."""
        return Occupancy(((1 << profile.size) - 1) << start, self._usage[profile.name])

    def total(self, instances: Iterable[Instance]) -> Occupancy:
        """Return what instances use together; they must be legal together.

        What lies in one GPU instance uses it once.
        """
        result = Occupancy()
        for instance in dict.fromkeys(one.gpu_instance for one in instances):
            result |= self.of(instance.profile, instance.start)
        return result

    def compatible(self, one: Occupancy, other: Occupancy) -> bool:
        """Tell whether two legal sets of instances are legal together."""
        return not (one.units & other.units or (one.usage + other.usage + self._slack) & self._high)


def _pack(fields: Iterable[int]) -> int:
    return sum(field << (_FIELD_BITS * index) for index, field in enumerate(fields))


@lru_cache(maxsize=64)
def budget_of(board: Board) -> Budget:
    """Return the board's budgets."""
    return Budget(board)
