"""Keeps a context's modelled clock: hears of every request before it runs."""

import ctypes
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from vgpu_sim.exec.errors import ExecutionError
from vgpu_sim.exec.interp import Memory
from vgpu_sim.hal import abi, address_map
from vgpu_sim.hal.modelled import (
    MOST_SHAPES,
    ModelledCopies,
    ModelledLaunches,
    ModelledSummary,
)
from vgpu_sim.hal.ports import Launch
from vgpu_sim.isa import Module, container
from vgpu_sim.perf.errors import PerfError
from vgpu_sim.perf.kernels import Chip, Counts, estimate
from vgpu_sim.perf.kernels.copies import Way, copy_us
from vgpu_sim.perf.kernels.timeline import Timeline, Wait
from vgpu_sim.worker.observing.sampler import Place, sample

_MOST_SAMPLES: Final = 4  # of one kernel and shape, with different arguments
_LINE: Final = 128  # bytes: where in one a buffer begins matters, where else it does not
_WAYS: Final = {
    abi.Direction.HOST_TO_DEVICE: Way.H2D,
    abi.Direction.DEVICE_TO_HOST: Way.D2H,
    abi.Direction.DEVICE_TO_DEVICE: Way.D2D,
    abi.Direction.DEVICE_TO_PEER: Way.P2P,
}
_ENGINES: Final = {Way.H2D: "in", Way.D2H: "out", Way.P2P: "peer"}
_Shape = tuple[int, int, int]
_Variant = tuple[int, _Shape, _Shape, int]  # a kernel, grid, block, bytes of shared memory


@dataclass(frozen=True, slots=True)
class _Kernel:
    name: str
    container: bytes
    segment_base: int


@dataclass(frozen=True, slots=True)
class _Cost:
    """Of a launch; ``counts`` is None, with a reason, where it could not be sampled."""

    us: float
    share: float
    counts: Counts | None
    note: str


@dataclass(slots=True)
class _Row:
    cost: _Cost
    launches: int = 0
    us: float = 0.0
    samples: dict[bytes, _Cost] = field(default_factory=dict)


class Observer:
    """One context's. ``memory`` makes what the interpreter reads; several threads call ``observe``.

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
    ) -> None:
        self._chip = chip
        self._base = aperture_base
        self._memory = memory
        self._fail = fail
        self._peers = peers
        self._lock = threading.Lock()
        self._timeline = Timeline()
        self._kernels: dict[int, _Kernel] = {}
        self._modules: dict[bytes, Module] = {}
        self._rows: dict[_Variant, _Row] = {}
        self._names: dict[_Variant, str] = {}
        self._copies: dict[Way, list[float]] = defaultdict(lambda: [0, 0, 0.0])

    def loaded(self, kernels: Mapping[str, int], image: bytes, segment_base: int) -> None:
        """Take note of a module's kernels, by name, with its container."""
        with self._lock:
            for name, handle in kernels.items():
                self._kernels[int(handle)] = _Kernel(name, image, segment_base)

    def unloaded(self, kernels: Sequence[int]) -> None:
        """Forget kernels whose module is unloaded."""
        with self._lock:
            gone = [self._kernels.pop(int(one), None) for one in kernels]
            left = {one.container for one in self._kernels.values()}
            for one in gone:
                if one is not None and one.container not in left:
                    self._modules.pop(one.container, None)

    def observe(self, stream: int, slot: abi.Slot, parameters: int) -> int:
        """Add one request; return the clock in ns when it is reached. Never raises."""
        try:
            with self._lock:
                return int(1e3 * self._add(stream, slot, parameters))
        except Exception as err:  # noqa: BLE001 - C is the caller
            self._fail(f"the modelled clock failed: {type(err).__name__}: {err}")
            return 0

    def _add(self, stream: int, slot: abi.Slot, parameters: int) -> float:
        waits = [(one.stream, one.value) for one in slot.waits[: slot.wait_count]]
        match slot.opcode:
            case abi.Opcode.LAUNCH:
                return self._launch(stream, slot, waits, parameters)
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

    def _launch(self, stream: int, slot: abi.Slot, waits: list[Wait], parameters: int) -> float:
        body = slot.body.launch
        grid: _Shape = (body.grid[0], body.grid[1], body.grid[2])
        block: _Shape = (body.block[0], body.block[1], body.block[2])
        data = ctypes.string_at(parameters, body.parameter_bytes) if parameters else b""
        launch = Launch("", grid, block, data, body.shared_bytes, body.stack_bytes & ~15)
        cost = self._cost((body.kernel, grid, block, body.shared_bytes), launch)
        return self._timeline.launch(stream, slot.value, waits, cost.us, cost.share).end

    def _cost(self, variant: _Variant, launch: Launch) -> _Cost:
        key = self._arguments(launch.parameters)
        row = self._rows.get(variant)
        cost = row.samples.get(key) if row is not None else None
        if cost is None:
            if row is not None and len(row.samples) >= _MOST_SAMPLES:
                cost = row.cost
            else:
                cost = self._sampled(variant[0], launch)
        if row is None:
            row = self._rows[variant] = _Row(cost)
            kernel = self._kernels.get(variant[0])
            self._names[variant] = kernel.name if kernel is not None else ""
        if len(row.samples) < _MOST_SAMPLES:
            row.samples[key] = cost
        row.launches += 1
        row.us += cost.us
        return cost

    def _sampled(self, handle: int, launch: Launch) -> _Cost:
        kernel = self._kernels.get(handle)
        if kernel is None:  # unloaded meanwhile: the launch itself says so
            return _Cost(self._chip.launch_us, 1.0, None, "its module was unloaded")
        module = self._modules.get(kernel.container)
        if module is None:
            module = self._modules[kernel.container] = container.decode(kernel.container)
        place = Place(kernel.segment_base, self._chip.sms)
        try:
            counts = sample(
                self._chip, module, module.function(kernel.name), launch, place, self._memory()
            )
            found = estimate(self._chip, counts)
        except (ExecutionError, PerfError, ValueError) as err:
            return _Cost(self._chip.launch_us, 1.0, None, f"not sampled: {err}")
        return _Cost(found.us, found.share, counts, "; ".join(found.notes))

    def _arguments(self, parameters: bytes) -> bytes:
        """Return the parameters with addresses replaced by where in a line they are."""
        words = []
        for at in range(0, len(parameters) - 7, 8):
            word = int.from_bytes(parameters[at : at + 8], "little")
            if 0 <= word - self._base < address_map.APERTURE_BYTES:
                word = 1 << 63 | int(self._is_host(word)) << 7 | word % _LINE
            words.append(word.to_bytes(8, "little"))
        return b"".join(words) + parameters[len(words) * 8 :]

    def report(self) -> Iterator[dict[str, Any]]:
        """Yield what happened, as plain values of ``hal.modelled``: launches, then the rest."""
        with self._lock:
            rows = sorted(self._rows.items(), key=lambda one: -one[1].us)
            for (handle, grid, block, shared), row in rows[:MOST_SHAPES]:
                counts = row.cost.counts
                yield {
                    "launches": ModelledLaunches(
                        self._names[handle, grid, block, shared][:128],
                        grid,
                        block,
                        row.launches,
                        row.us,
                        {n: float(v) for n, v in counts.as_dict().items()} if counts else {},
                        row.cost.note[:200],
                    ).to_json()
                }
            copies = tuple(
                ModelledCopies(way.value, int(n), int(size), us)
                for way, (n, size, us) in self._copies.items()
            )
            left_out = sum(row.launches for _, row in rows[MOST_SHAPES:])
            timeline = self._timeline
            yield {
                "summary": ModelledSummary(
                    copies, timeline.span_us, timeline.gaps_us, left_out
                ).to_json()
            }
