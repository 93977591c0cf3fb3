"""A stack of causes: named parts of a predicted time, which add up to it."""

import numpy as np

from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Stack:
    """The causes of the predicted times of several shapes. ``causes`` holds, by the cause's name,
    an array in microseconds with one element per shape.
    """

    causes: dict[str, np.ndarray]

    @property
    def total(self) -> np.ndarray:
        """The predicted times in microseconds, one per shape."""
        return np.asarray(np.sum(list(self.causes.values()), axis=0))

    def at(self, index: int) -> dict[str, float]:
        """Return the causes of the predicted time of one shape, in microseconds by name. ``index``
        is the shape's index.
        """
        return {name: float(part[index]) for name, part in self.causes.items()}
