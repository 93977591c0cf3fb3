"""What observes a context: a modelled clock today."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from vgpu_sim.hal.observe.requests import Request
from vgpu_sim.worker.modules.images import Image


class Observer(Protocol):
    """Gets a record of all that a context does. Threads of the runtime call ``reached``, several
    at once; the main thread the rest."""

    def counted(self, image: Image) -> Image:
        """Return the module to load in the place of another: its launches count what they run."""

    def loaded(self, kernels: Mapping[str, int], image: bytes, segment_base: int) -> None:
        """Take note of a module's kernels, by name, with its container."""

    def unloaded(self, kernels: Sequence[int]) -> None:
        """Forget kernels."""

    def reached(self, request: Request) -> int:
        """Take note of a request; return the time in ns that a timestamp has here."""

    def failed(self, err: Exception) -> None:
        """React to an error of ``reached``, or to a request of which no record can be made."""

    def report(self) -> Iterator[dict[str, Any]]:
        """Yield what happened (``hal.observe``), when the context ends."""
