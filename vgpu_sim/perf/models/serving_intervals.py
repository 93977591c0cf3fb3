"""Intervals for the predicted times of a model under a serving library, derived from measured
serving runs.

A report predicts one batch whose sequences start together. A server admits requests as others
end (in-flight batching), so that decode steps wait for prompts in between, and a prompt waits
for fewer others than a whole batch. Both cases bound what a serving run measures:

    low x decode  <= TPOT <= high x (decode + prompts processed per token made)
    low x prefill of one prompt a replica <= TTFT <= high x prefill of the batch

The factors cover differences between libraries as well: kernels, all-reduce, fusion, scheduling.
"""

import functools
import json
from typing import Any, Final

from vgpu_sim.perf.parameters import FILES
from vgpu_sim.records import dataclass

Interval = tuple[float, float]
FILE: Final = "serving.json"


@dataclass(frozen=True, slots=True)
class Ends:
    """Two modelled bounds of a time, in ms: ``least`` is the time on an idle server, and ``most``
    is the time on a busy server. The factors of a ``Band`` are not included.
    """

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Band:
    """Two factors that turn modelled bounds of a time into an interval. They are fitted so that the
    intervals contain 90 % of the measured points of each group.
    """

    low: float
    high: float

    def interval(self, ends: Ends) -> Interval:
        """Return the 90 % interval in ms: the smaller bound times ``low``, and the larger bound
        times ``high``.
        """
        return self.low * min(ends.least, ends.most), self.high * max(ends.least, ends.most)


@dataclass(frozen=True, slots=True)
class Bands:
    """The fitted factors for TTFT and TPOT. ``points`` is the number of measured points to which
    the factors were fitted, and ``source`` is where these points come from.
    """

    ttft: Band
    tpot: Band
    points: int
    source: str

    def as_json(self) -> dict[str, Any]:
        """Return the factors as a JSON object, in the form in which the package stores them."""
        pairs = {name: getattr(self, name) for name in ("ttft", "tpot")}
        rounded = {name: [round(b.low, 3), round(b.high, 3)] for name, b in pairs.items()}
        return rounded | {"points": self.points, "source": self.source}

    @classmethod
    def of_json(cls, row: dict[str, Any]) -> "Bands":
        """Create the factors from a JSON object in the form of ``as_json``."""
        return cls(Band(*row["ttft"]), Band(*row["tpot"]), row["points"], row["source"])


@functools.cache
def bands() -> Bands:
    """Return the fitted factors for the intervals of TTFT and TPOT. They come from a file in the
    package.
    """
    return Bands.of_json(json.loads((FILES / FILE).read_text(encoding="utf-8")))
