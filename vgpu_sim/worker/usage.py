"""A context's usage: launches and time of each kernel, and the compilations for them."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import field
from time import monotonic_ns
from typing import Any, Final, TypeVar

from vgpu_sim.records import dataclass

KERNELS_PER_MESSAGE: Final = 32

_Result = TypeVar("_Result")


@dataclass(slots=True)
class Timed:
    """How often an action was performed, and its total time in ns."""

    count: int = 0
    ns: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, count: int, ns: int) -> None:
        """Add a measurement; callable on any thread."""
        with self._lock:
            self.count += count
            self.ns += ns

    def measure(self, do: Callable[[], _Result]) -> _Result:
        """Call the function ``do``, add the duration of the call, and return the function's result.
        A call that fails is counted, too.
        """
        begin_ns = monotonic_ns()
        try:
            return do()
        finally:
            self.add(1, monotonic_ns() - begin_ns)


@dataclass(slots=True)
class Usage:
    """Totals over the context's life. ``kernels`` holds, by kernel title, the launches of the
    kernels whose modules have been unloaded.

    ``modules`` counts the loaded images: ``compiled`` of them were compiled, and ``cached`` of them
    were found in the cache. ``shapes`` counts the compilations of a kernel for a block shape.
    ``provisional`` of these compilations first returned code that is compiled fast and runs slowly,
    and ``improved`` of them later returned better code. ``swapped`` is how many launches switched
    to better code while they ran. ``refused`` is the number of unusable objects in the cache.
    """

    kernels: dict[str, Timed] = field(default_factory=dict)
    modules: Timed = field(default_factory=Timed)
    shapes: Timed = field(default_factory=Timed)
    compiled: int = 0
    cached: int = 0
    provisional: int = 0
    improved: int = 0
    swapped: int = 0
    refused: int = 0

    def add_kernel(self, title: str, launches: int, busy_ns: int) -> None:
        """Add the launches of one kernel and their time in ns. A kernel that never ran is
        omitted.
        """
        if launches:
            self.kernels.setdefault(title, Timed()).add(launches, busy_ns)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the fields of "usage" messages (``hal.compute.spawn``), each within the size limit
        of a message.
        """
        rows = [[name, timing.count, timing.ns] for name, timing in sorted(self.kernels.items())]
        yield {
            "kernels": rows[:KERNELS_PER_MESSAGE],
            "modules": self.modules.count,
            "modules_ns": self.modules.ns,
            "compiled": self.compiled,
            "cached": self.cached,
            "shapes": self.shapes.count,
            "shapes_ns": self.shapes.ns,
            "provisional": self.provisional,
            "improved": self.improved,
            "swapped": self.swapped,
            "refused": self.refused,
        }
        for first in range(KERNELS_PER_MESSAGE, len(rows), KERNELS_PER_MESSAGE):
            yield {"kernels": rows[first : first + KERNELS_PER_MESSAGE]}
