"""A stack of causes: named parts of a time that add to it."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Stack:
    """Causes by name, each an array of microseconds with one element a shape."""

    causes: dict[str, np.ndarray]

    @property
    def total(self) -> np.ndarray:
        """The predicted times."""
        return np.asarray(np.sum(list(self.causes.values()), axis=0))

    def at(self, index: int) -> dict[str, float]:
        """Return one shape's causes."""
        return {name: float(part[index]) for name, part in self.causes.items()}
