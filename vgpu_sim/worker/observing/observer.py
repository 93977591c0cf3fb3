"""The interface of a context's observer, such as a modelled clock."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from vgpu_sim.hal.observe.requests import Request
from vgpu_sim.worker.modules.images import Image


class Observer(Protocol):
    """Receives a record of every request of a context. Threads of the runtime call
    ``record_request``, several at once; the main thread calls the other methods.
    """

    def instrument(self, image: Image) -> Image:
        """Return the module to load instead of ``image``. Launches of the returned module count
        what they execute.
        """

    def record_load(self, kernels: Mapping[str, int], image: bytes, segment_base: int) -> None:
        """Register the kernels of a loaded module by name, with the module's container."""

    def record_unload(self, kernels: Sequence[int]) -> None:
        """Forget the kernels of an unloaded module."""

    def record_allocation(self, address: int, size: int) -> None:
        """Record an allocation of the program in a chunk of memory, or its end if ``size`` is 0."""

    def record_request(self, request: Request) -> int:
        """Record a request of the context. Return the observer's time in ns, which becomes the
        value of a timestamp.
        """

    def record_failure(self, err: Exception) -> None:
        """Handle an error of ``record_request``, or a request that cannot be recorded."""

    def report(self) -> Iterator[dict[str, Any]]:
        """Yield the observations (``hal.observe``) when the context ends."""
