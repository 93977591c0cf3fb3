"""Advances a context's modelled clock from the records of its requests."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from vgpu_sim.exec.interp import Memory
from vgpu_sim.hal.compute.abi import Direction
from vgpu_sim.hal.observe.modelled_report import (
    LISTED_IN_PART,
    MOST_MANGLED,
    MOST_PARTS,
    MOST_ROWS,
    TRANSFERS_IN_PART,
    ModelledCopies,
    ModelledLaunches,
    ModelledOrder,
    ModelledSummary,
    ModelledTransfers,
)
from vgpu_sim.hal.observe.requests import Copy, Fill, LaunchBegins, LaunchEnded, Mark, Request
from vgpu_sim.isa import container
from vgpu_sim.kernel_names.title import title_of
from vgpu_sim.perf.kernels import Chip
from vgpu_sim.perf.kernels.copies import Way, copy_us
from vgpu_sim.perf.kernels.timeline import Timeline
from vgpu_sim.records import dataclass
from vgpu_sim.worker.modelling.allocations import Allocations
from vgpu_sim.worker.modelling.costs import Begun, Cost, Costs, Extents
from vgpu_sim.worker.modelling.weights import weigh
from vgpu_sim.worker.modules.images import Image
from vgpu_sim.worker.observing.counting import instrument
from vgpu_sim.worker.observing.requests import is_host

_PATIENCE: Final = 5.0  # seconds for which a launch waits for another launch of its kernel
_MOST_KINDS: Final = 8 * MOST_ROWS  # kinds of launches that are kept; a report lists the longest
_PAGE_BITS: Final = 12
_WAYS: Final = {
    Direction.HOST_TO_DEVICE: Way.H2D,
    Direction.DEVICE_TO_HOST: Way.D2H,
    Direction.DEVICE_TO_DEVICE: Way.D2D,
    Direction.DEVICE_TO_PEER: Way.P2P,
}
_ENGINES: Final = {Way.H2D: "in", Way.D2H: "out", Way.P2P: "peer"}
_Shape = tuple[int, int, int]
_Key = tuple[str, _Shape, _Shape, str, Cost]


@dataclass(slots=True)
class _Running:
    handle: int
    alone: bool
    begun: Begun | None = None


@dataclass(slots=True)
class _Row:
    launches: int = 0
    us: float = 0.0


class ModelledClock:
    """An observer that computes one context's modelled clock. ``memory`` creates the interpreter's
    memory; ``extents`` returns the ranges of that memory.

    ``peers`` are the rates of copies between the node's GPUs, in bytes per microsecond. ``fail``
    ends the context; its argument is the reason.
    """

    def __init__(
        self,
        chip: Chip,
        aperture_base: int,
        memory: Callable[[], Memory],
        fail: Callable[[str], object],
        peers: Mapping[tuple[int, int], float] = MappingProxyType({}),
        extents: Callable[[], Extents] = tuple,
    ) -> None:
        self._chip = chip
        self._base = aperture_base
        self._fail = fail
        self._peers = peers
        self._lock = threading.Lock()
        self._timeline = Timeline()
        self._ended = threading.Condition(self._lock)
        self._allocations = Allocations(extents)
        self._costs = Costs(chip, memory, self._allocations.extents, self._size_of)
        self._extents = extents
        self._running: dict[int, _Running] = {}  # by stream
        self._rows: dict[_Key, _Row] = {}
        self._forgotten = 0  # launches of short kinds
        self._order: list[tuple[_Row, float]] = []
        self._transfers: list[tuple[str, float, float, int]] = []
        self._copies: dict[Way, list[float]] = defaultdict(lambda: [0, 0, 0.0])

    def instrument(self, image: Image) -> Image:
        """Return a version of the module with counters. Its launches count what they execute."""
        module = image.module if image.module is not None else image.decode()
        instrumented_module, _ = instrument(module, weigh)
        if instrumented_module is module:
            return image
        summary = replace(image.summary, segment_bytes=instrumented_module.segment_bytes)
        return Image(
            summary,
            container.encode(instrumented_module),
            instrumented_module if image.module else None,
        )

    def record_load(self, kernels: Mapping[str, int], image: bytes, segment_base: int) -> None:
        """Register the kernels of a loaded module by name, with the module's container."""
        with self._lock:
            self._costs.record_load(kernels, image, segment_base)

    def record_unload(self, kernels: Sequence[int]) -> None:
        """Forget the kernels of an unloaded module."""
        with self._lock:
            self._costs.record_unload(kernels)

    def record_allocation(self, address: int, size: int) -> None:
        """Record an allocation of the program in a chunk of memory, or its end if ``size`` is 0."""
        with self._lock:
            self._allocations.record(address, size)

    def record_request(self, request: Request) -> int:
        """Record one request before it runs, or the end of a launch. Return the time of the request
        on the modelled clock, in ns; 0 for a launch that begins.
        """
        with self._lock:
            return int(1e3 * self._add(request))

    def record_failure(self, err: Exception) -> None:
        """End the context, because a clock that missed a request would be silently wrong."""
        self._fail(f"the modelled clock failed: {type(err).__name__}: {err}")

    def _add(self, request: Request) -> float:
        match request:
            case LaunchBegins():
                self._begin(request)
                return 0.0
            case LaunchEnded():
                return self._end(request)
            case Copy():
                direction = _WAYS[request.direction]
                rate = self._peers.get(request.gpus) if request.gpus is not None else None
                us = copy_us(
                    self._chip, direction, request.bytes, pageable=request.pageable, peer_rate=rate
                )
                return self._copy(request, direction, us, host_waits=request.by_client)
            case Fill():
                return self._copy(request, Way.SET, copy_us(self._chip, Way.SET, request.bytes))
            case Mark(at):
                return self._timeline.mark(at.stream, at.value, at.waits)

    def _copy(
        self, request: Copy | Fill, direction: Way, us: float, *, host_waits: bool = False
    ) -> float:
        at = request.position
        row = self._copies[direction]
        row[0] += 1
        row[1] += request.bytes
        row[2] += us
        if direction in _ENGINES:
            engine = _ENGINES[direction]
            span = self._timeline.copy(
                at.stream, at.value, at.waits, us, engine, host_waits=host_waits
            )
        else:
            span = self._timeline.launch(at.stream, at.value, at.waits, us, 1.0)
        if len(self._transfers) < MOST_PARTS * TRANSFERS_IN_PART:
            start_us, duration_us = round(span.start, 3), round(span.end - span.start, 3)
            self._transfers.append((direction.value, start_us, duration_us, request.bytes))
        return span.end

    def _begin(self, request: LaunchBegins) -> None:
        """Sample a launch before it runs.

        Launches of one kernel add to the same counters, so a launch waits for the previous one
        to end. The wait is limited, because the other launch may in turn wait for this one.
        """
        kernel = request.kernel
        alone = self._ended.wait_for(
            lambda: all(
                launch_in_progress.handle != kernel for launch_in_progress in self._running.values()
            ),
            _PATIENCE,
        )
        if not alone:
            for launch_in_progress in self._running.values():
                launch_in_progress.alone = (
                    launch_in_progress.alone and launch_in_progress.handle != kernel
                )
        running = self._running[request.position.stream] = _Running(kernel, alone)
        running.begun = self._costs.begin(kernel, request.launch, alone=alone)

    def _end(self, request: LaunchEnded) -> float:
        at = request.position
        running = self._running.pop(at.stream)
        self._ended.notify_all()
        assert running.begun is not None
        begun = replace(running.begun, alone=running.alone)
        cost = self._costs.end(begun)
        span = self._timeline.launch(at.stream, at.value, at.waits, cost.us, cost.share)
        name = begun.kernel.name if begun.kernel is not None else ""
        key = (name, begun.launch.grid, begun.launch.block, begun.arguments, cost)
        if key not in self._rows and len(self._rows) >= _MOST_KINDS:
            self._forget_kinds()
        row = self._rows.setdefault(key, _Row())
        row.launches += 1
        row.us += cost.us
        if len(self._order) < MOST_PARTS * LISTED_IN_PART:
            self._order.append((row, round(span.start, 3)))
        return span.end

    def _forget_kinds(self) -> None:
        """Forget all kinds of launches except those that a report would list now."""
        longest = sorted(self._rows.items(), key=lambda one: -one[1].us)
        self._forgotten += sum(row.launches for _, row in longest[MOST_ROWS:])
        self._rows = dict(longest[:MOST_ROWS])

    def _size_of(self, address: int) -> int | None:
        """Return a number that identifies an address's kind of memory: its size, and whether it is
        host memory; None if it is not a valid address.
        """
        for begin, end in self._extents():
            if begin <= address < end:
                return (end - begin) >> _PAGE_BITS << 1 | int(is_host(self._base, address))
        return None

    def report(self) -> Iterator[dict[str, Any]]:
        """Yield the parts of the report (``hal.observe.modelled_report``): first the launches, then
        the rest.
        """
        with self._lock:
            rows = sorted(self._rows.items(), key=lambda one: -one[1].us)[:MOST_ROWS]
            for (name, grid, block, text, cost), row in rows:
                counts = cost.counts
                yield {
                    "launches": ModelledLaunches(
                        title_of(name),
                        grid,
                        block,
                        row.launches,
                        row.us,
                        {n: float(v) for n, v in counts.as_dict().items()} if counts else {},
                        cost.note[:200],
                        text,
                        name[:MOST_MANGLED],
                    ).to_json()
                }
            places = {id(row): place for place, (_, row) in enumerate(rows)}
            listed = [(places[id(row)], at) for row, at in self._order if id(row) in places]
            for first in range(0, len(listed), LISTED_IN_PART):
                part = tuple(listed[first : first + LISTED_IN_PART])
                yield {"order": ModelledOrder(part).to_json()}
            for first in range(0, len(self._transfers), TRANSFERS_IN_PART):
                transfers = tuple(self._transfers[first : first + TRANSFERS_IN_PART])
                yield {"transfers": ModelledTransfers(transfers).to_json()}
            copies = tuple(
                ModelledCopies(direction.value, int(n), int(size), us)
                for direction, (n, size, us) in self._copies.items()
            )
            launched = self._forgotten + sum(row.launches for row in self._rows.values())
            timeline = self._timeline
            yield {
                "summary": ModelledSummary(
                    copies,
                    timeline.span_us,
                    timeline.gaps_us,
                    launched - sum(row.launches for _, row in rows),
                ).to_json()
            }
