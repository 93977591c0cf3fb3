"""Records of a context's requests: one before each runs, and one when a launch has ended.

Requests of one stream are recorded in the order of the stream, requests of different streams in
the order in which they run. Addresses are in the context's aperture. An observer receives these
records instead of the ring slots.
"""

from vgpu_sim.hal.compute.abi import Direction
from vgpu_sim.hal.compute.ports import Launch
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a request in its stream, and the other streams for which the request waits.

    ``value`` is the request's number in ``stream``. Each item of ``waits`` is a stream and a
    timeline value. The request runs when each of these streams has reached its timeline value.
    """

    stream: int
    value: int
    waits: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchBegins:
    """Record of the start of a launch. ``kernel`` is the kernel's handle. It identifies the kernel
    in place of ``launch.function``, which is empty.
    """

    position: Position
    kernel: int
    launch: Launch


@dataclass(frozen=True, slots=True)
class LaunchEnded:
    """Record of the end of a launch. The launch is the one that was started last in the stream."""

    position: Position


@dataclass(frozen=True, slots=True)
class Copy:
    """Record of a copy.

    If ``by_client`` is set, the program made the copy synchronously, without the worker.
    ``gpus`` are then the indices of the source and target GPUs, as the program reports them.
    """

    position: Position
    direction: Direction
    bytes: int
    by_client: bool = False
    pageable: bool = False
    gpus: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Fill:
    """Record of a fill of device memory."""

    position: Position
    bytes: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Record of a request without effect on memory: a timestamp or a wait."""

    position: Position


Request = LaunchBegins | LaunchEnded | Copy | Fill | Mark
