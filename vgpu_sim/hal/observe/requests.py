"""Records of the requests of a context: one before each runs, and one when a launch has ended.

Requests of one stream are recorded in their order, those of several streams as they run. Addresses
are those of the context's aperture. An observer receives these records, and no ring slots.
"""

from dataclasses import dataclass

from vgpu_sim.hal.compute.abi import Direction
from vgpu_sim.hal.compute.ports import Launch


@dataclass(frozen=True, slots=True)
class Position:
    """Where a request stands: it is number ``value`` of ``stream``, and runs when the streams of
    ``waits`` have come to the values beside them."""

    stream: int
    value: int
    waits: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchBegins:
    """``kernel`` is the handle of the kernel, so ``launch.function`` is empty."""

    position: Position
    kernel: int
    launch: Launch


@dataclass(frozen=True, slots=True)
class LaunchEnded:
    """The launch that began last in this stream."""

    position: Position


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy. ``by_client``: the program has made it by itself, and waited for it; then ``gpus``
    are the indices of the GPUs that it was from and to, as the program gives them."""

    position: Position
    direction: Direction
    bytes: int
    by_client: bool = False
    pageable: bool = False
    gpus: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Fill:
    """A fill of device memory."""

    position: Position
    bytes: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A request that moves and computes nothing: a timestamp, or one that only waits."""

    position: Position


Request = LaunchBegins | LaunchEnded | Copy | Fill | Mark
