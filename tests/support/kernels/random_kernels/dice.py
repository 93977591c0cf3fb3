"""Random choices from one integer, the same under every version of Python (splitmix64)."""

from collections.abc import Sequence
from typing import TypeVar

Chosen = TypeVar("Chosen")
_M64 = (1 << 64) - 1


class Dice:
    """A stream of choices, determined by ``seed`` and ``stream``."""

    def __init__(self, seed: int, stream: int = 0) -> None:
        # Hashed, since neighbouring seeds would otherwise yield the same stream, shifted by some
        # steps.
        self._state = _mixed(_mixed(seed & _M64) + stream & _M64)

    def bits(self, count: int) -> int:
        """Return up to 64 random bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _M64
        return _mixed(self._state) >> (64 - count)

    def number(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``, both included."""
        return low + self.bits(48) % (high - low + 1)

    def one_in(self, count: int) -> bool:
        return self.number(1, count) == 1

    def percent(self, share: int) -> bool:
        """Return True with a probability of ``share`` percent."""
        return self.number(1, 100) <= share

    def pick(self, choices: Sequence[Chosen]) -> Chosen:
        return choices[self.number(0, len(choices) - 1)]


def _mixed(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 + 1) & _M64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _M64
    return value ^ (value >> 31)
