"""Keep a context's modelled clock, by the records of its requests."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from vgpu_sim.exec.interp import Memory
from vgpu_sim.hal.compute.abi import Direction
from vgpu_sim.hal.observe.modelled import (
    LISTED_IN_PART,
    MOST_PARTS,
    MOST_ROWS,
    ModelledCopies,
    ModelledLaunches,
    ModelledOrder,
    ModelledSummary,
)
from vgpu_sim.hal.observe.requests import Copy, Fill, LaunchBegins, LaunchEnded, Mark, Request
from vgpu_sim.isa import container
from vgpu_sim.perf.kernels import Chip
from vgpu_sim.perf.kernels.copies import Way, copy_us
from vgpu_sim.perf.kernels.timeline import Timeline
from vgpu_sim.worker.modelling.costs import Begun, Cost, Costs, Extents
from vgpu_sim.worker.modelling.weights import weigh
from vgpu_sim.worker.modules.images import Image
from vgpu_sim.worker.observing.counting import counted
from vgpu_sim.worker.observing.requests import is_host

_PATIENCE: Final = 5.0  # seconds for which a launch waits for another of its kernel
_MOST_KINDS: Final = 8 * MOST_ROWS  # of launches, of which a report lists the longest ones
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
    """An observer of one context. ``memory`` makes what the interpreter reads, ``extents`` say
    where it is.

    ``peers`` are the rates of copies from one GPU to another of the node, bytes a microsecond.
    ``fail`` ends the context, with a reason.
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
        self._costs = Costs(chip, memory, extents, self._size_of)
        self._extents = extents
        self._running: dict[int, _Running] = {}  # by stream
        self._rows: dict[_Key, _Row] = {}
        self._forgotten = 0  # launches of kinds that took little
        self._order: list[tuple[_Row, float]] = []
        self._copies: dict[Way, list[float]] = defaultdict(lambda: [0, 0, 0.0])

    def counted(self, image: Image) -> Image:
        """Return the module whose launches count what they execute, in the place of another."""
        module = image.module if image.module is not None else image.decode()
        found, _ = counted(module, weigh)
        if found is module:
            return image
        summary = replace(image.summary, segment_bytes=found.segment_bytes)
        return Image(summary, container.encode(found), found if image.module else None)

    def loaded(self, kernels: Mapping[str, int], image: bytes, segment_base: int) -> None:
        """Take note of a module's kernels, by name, with its container."""
        with self._lock:
            self._costs.loaded(kernels, image, segment_base)

    def unloaded(self, kernels: Sequence[int]) -> None:
        """Forget kernels whose module is unloaded."""
        with self._lock:
            self._costs.unloaded(kernels)

    def reached(self, request: Request) -> int:
        """Add one request before it runs, or the end of a launch; return the clock in ns when it is
        reached."""
        with self._lock:
            return int(1e3 * self._add(request))

    def failed(self, err: Exception) -> None:
        """End the context: a clock that has missed something would be wrong without a word."""
        self._fail(f"the modelled clock failed: {type(err).__name__}: {err}")

    def _add(self, request: Request) -> float:
        match request:
            case LaunchBegins():
                self._begin(request)
                return 0.0
            case LaunchEnded():
                return self._end(request)
            case Copy():
                way = _WAYS[request.direction]
                rate = self._peers.get(request.gpus) if request.gpus is not None else None
                us = copy_us(
                    self._chip, way, request.bytes, pageable=request.pageable, peer_rate=rate
                )
                return self._copy(request, way, us, host_waits=request.by_client)
            case Fill():
                return self._copy(request, Way.SET, copy_us(self._chip, Way.SET, request.bytes))
            case Mark(at):
                return self._timeline.mark(at.stream, at.value, at.waits)

    def _copy(
        self, request: Copy | Fill, way: Way, us: float, *, host_waits: bool = False
    ) -> float:
        at = request.position
        row = self._copies[way]
        row[0] += 1
        row[1] += request.bytes
        row[2] += us
        if way in _ENGINES:
            engine = _ENGINES[way]
            span = self._timeline.copy(
                at.stream, at.value, at.waits, us, engine, host_waits=host_waits
            )
        else:
            span = self._timeline.launch(at.stream, at.value, at.waits, us, 1.0)
        return span.end

    def _begin(self, request: LaunchBegins) -> None:
        """Sample a launch that is to run. Launches of one kernel add to the same counters, so that
        one waits for the other, unless that would take too long: it may wait for this one."""
        kernel = request.kernel
        alone = self._ended.wait_for(
            lambda: all(one.handle != kernel for one in self._running.values()), _PATIENCE
        )
        if not alone:
            for one in self._running.values():
                one.alone = one.alone and one.handle != kernel
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
        """Forget all kinds of launches but the ones that a report would list now."""
        longest = sorted(self._rows.items(), key=lambda one: -one[1].us)
        self._forgotten += sum(row.launches for _, row in longest[MOST_ROWS:])
        self._rows = dict(longest[:MOST_ROWS])

    def _size_of(self, address: int) -> int | None:
        """Return a number for the memory that an address is of: its size, and whether it is the
        host's; None for what is no address."""
        for begin, end in self._extents():
            if begin <= address < end:
                return (end - begin) >> _PAGE_BITS << 1 | int(is_host(self._base, address))
        return None

    def report(self) -> Iterator[dict[str, Any]]:
        """Yield the values of ``hal.observe.modelled``: launches, then the rest."""
        with self._lock:
            rows = sorted(self._rows.items(), key=lambda one: -one[1].us)[:MOST_ROWS]
            for (name, grid, block, text, cost), row in rows:
                counts = cost.counts
                yield {
                    "launches": ModelledLaunches(
                        name[:128],
                        grid,
                        block,
                        row.launches,
                        row.us,
                        {n: float(v) for n, v in counts.as_dict().items()} if counts else {},
                        cost.note[:200],
                        text,
                    ).to_json()
                }
            places = {id(row): place for place, (_, row) in enumerate(rows)}
            listed = [(places[id(row)], at) for row, at in self._order if id(row) in places]
            for first in range(0, len(listed), LISTED_IN_PART):
                part = tuple(listed[first : first + LISTED_IN_PART])
                yield {"order": ModelledOrder(part).to_json()}
            copies = tuple(
                ModelledCopies(way.value, int(n), int(size), us)
                for way, (n, size, us) in self._copies.items()
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
