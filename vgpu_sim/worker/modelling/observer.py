"""Keeps a context's modelled clock: hears of every request before it runs."""

import ctypes
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from vgpu_sim.exec.interp import Memory
from vgpu_sim.hal.compute import abi, address_map
from vgpu_sim.hal.compute.ports import Launch
from vgpu_sim.hal.observe.modelled import (
    LISTED_IN_PART,
    MOST_PARTS,
    MOST_ROWS,
    ModelledCopies,
    ModelledLaunches,
    ModelledOrder,
    ModelledSummary,
)
from vgpu_sim.isa import container
from vgpu_sim.perf.kernels import Chip
from vgpu_sim.perf.kernels.copies import Way, copy_us
from vgpu_sim.perf.kernels.timeline import Timeline, Wait
from vgpu_sim.worker.modelling.costs import Begun, Cost, Costs, Extents
from vgpu_sim.worker.modules.images import Image
from vgpu_sim.worker.observing.counting import counted

_PATIENCE: Final = 5.0  # seconds for which a launch waits for another of its kernel
_MOST_KINDS: Final = 8 * MOST_ROWS  # of launches, of which a report lists the longest ones
_PAGE_BITS: Final = 12
_WAYS: Final = {
    abi.Direction.HOST_TO_DEVICE: Way.H2D,
    abi.Direction.DEVICE_TO_HOST: Way.D2H,
    abi.Direction.DEVICE_TO_DEVICE: Way.D2D,
    abi.Direction.DEVICE_TO_PEER: Way.P2P,
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


class Observer:
    """One context's. ``memory`` makes what the interpreter reads, ``extents`` say where it is;
    several threads call ``observe``.

    ``peers`` are the rates of copies from one GPU to another of the node, bytes a microsecond.
    ``fail`` ends the context: a clock that has missed something would be wrong without a word.
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
        found, _ = counted(module)
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

    def observe(self, stream: int, slot: abi.Slot, parameters: int, ended: bool = False) -> int:
        """Add one request before it runs, or a launch that has ``ended``; return the clock in ns
        when it is reached. Never raises."""
        try:
            with self._lock:
                if ended:
                    return int(1e3 * self._end(stream, slot))
                return int(1e3 * self._add(stream, slot, parameters))
        except Exception as err:  # noqa: BLE001 - C is the caller
            self._fail(f"the modelled clock failed: {type(err).__name__}: {err}")
            return 0

    def _add(self, stream: int, slot: abi.Slot, parameters: int) -> float:
        waits = [(one.stream, one.value) for one in slot.waits[: slot.wait_count]]
        match slot.opcode:
            case abi.Opcode.LAUNCH:
                self._begin(stream, slot, parameters)
                return 0.0
            case abi.Opcode.COPY:
                body = slot.body.copy
                way = self._way(body.destination, body.source)
                us = copy_us(self._chip, way, body.bytes)
                return self._copy(stream, slot, waits, way, body.bytes, us)
            case abi.Opcode.COPIED:
                told = slot.body.copied
                way = _WAYS[abi.Direction(told.direction)]
                size = min(told.bytes, address_map.APERTURE_BYTES)
                pair, pageable = (told.source, told.target), bool(told.pageable)
                if way is Way.P2P and told.source == told.target:
                    way = Way.D2D  # two contexts of one GPU
                us = copy_us(
                    self._chip, way, size, pageable=pageable, peer_rate=self._peers.get(pair)
                )
                return self._copy(stream, slot, waits, way, size, us, now=True)
            case abi.Opcode.SET:
                fill = slot.body.set
                size = fill.count * fill.width_bytes
                us = copy_us(self._chip, Way.SET, size)
                return self._copy(stream, slot, waits, Way.SET, size, us)
            case _:
                return self._timeline.mark(stream, slot.value, waits)

    def _way(self, destination: int, source: int) -> Way:
        to_host, from_host = self._is_host(destination), self._is_host(source)
        if to_host == from_host:
            return Way.D2D
        return Way.D2H if to_host else Way.H2D

    def _is_host(self, address: int) -> bool:
        within = (address - self._base) % address_map.GPU_WINDOW_BYTES
        return 0 <= within - address_map.HOST_OFFSET < address_map.HOST_BYTES

    def _copy(
        self,
        stream: int,
        slot: abi.Slot,
        waits: list[Wait],
        way: Way,
        size: int,
        us: float,
        *,
        now: bool = False,
    ) -> float:
        row = self._copies[way]
        row[0] += 1
        row[1] += size
        row[2] += us
        if way in _ENGINES:
            engine = _ENGINES[way]
            span = self._timeline.copy(stream, slot.value, waits, us, engine, host_waits=now)
        else:
            span = self._timeline.launch(stream, slot.value, waits, us, 1.0)
        return span.end

    def _begin(self, stream: int, slot: abi.Slot, parameters: int) -> None:
        """Sample a launch that is to run. Launches of one kernel add to the same counters, so that
        one waits for the other, unless that would take too long: it may wait for this one."""
        body = slot.body.launch
        alone = self._ended.wait_for(
            lambda: all(one.handle != body.kernel for one in self._running.values()), _PATIENCE
        )
        if not alone:
            for one in self._running.values():
                one.alone = one.alone and one.handle != body.kernel
        grid: _Shape = (body.grid[0], body.grid[1], body.grid[2])
        block: _Shape = (body.block[0], body.block[1], body.block[2])
        data = ctypes.string_at(parameters, body.parameter_bytes) if parameters else b""
        launch = Launch("", grid, block, data, body.shared_bytes, body.stack_bytes & ~15)
        running = self._running[stream] = _Running(body.kernel, alone)
        running.begun = self._costs.begin(body.kernel, launch, alone=alone)

    def _end(self, stream: int, slot: abi.Slot) -> float:
        running = self._running.pop(stream)
        self._ended.notify_all()
        assert running.begun is not None
        begun = replace(running.begun, alone=running.alone)
        cost = self._costs.end(begun)
        waits = [(one.stream, one.value) for one in slot.waits[: slot.wait_count]]
        span = self._timeline.launch(stream, slot.value, waits, cost.us, cost.share)
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
                return (end - begin) >> _PAGE_BITS << 1 | int(self._is_host(address))
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
