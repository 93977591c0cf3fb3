"""The time of a collective: that of the fastest NCCL protocol, as a sum of a start, steps and wire
bytes.

    T = soft minimum over LL, LL128, Simple, NVLS of  base + start + steps hop + wire / rate

Names are those of NCCL's documentation of ``NCCL_PROTO`` and ``NCCL_ALGO``. All times are in
microseconds.
"""

from typing import Final

import numpy as np

from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.parameters import Values
from vgpu_sim.perf.stack import Stack
from vgpu_sim.perf.topology.rings import Bound
from vgpu_sim.records import dataclass

Array = np.ndarray
OPS: Final = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")
PROTOCOLS: Final = ("LL", "LL128", "Simple", "NVLS")
_LARGE_CHUNKS: Final = 3e7  # bytes from which Simple's chunks are large
_NEVER: Final = 1e12


@dataclass(frozen=True, slots=True)
class Calls:
    """Many collective operations: for each the operation, the number of GPUs, and the bytes of each
    rank's buffer.

    ``element`` is the size of an element in bytes. NVSwitches cannot add elements of one byte.
    """

    op: Array
    gpus: Array
    bytes: Array
    element: Array

    def __post_init__(self) -> None:
        if not set(self.op) <= set(OPS):
            raise BadShape(f"no such collective; known: {', '.join(OPS)}")
        if (self.gpus < 2).any() or (self.gpus > 8).any():
            raise BadShape("a collective of one node must have 2 to 8 GPUs")
        if (self.bytes < 1).any():
            raise BadShape("bytes must be at least 1")

    def __len__(self) -> int:
        return len(self.op)


class Model:
    """The model of collectives among boards of one kind. ``bound`` is the limit that the links in
    the node impose. Without ``bound``, the node is assumed to be like the measured nodes.
    """

    def __init__(self, board: Board, calls: Calls, bound: Bound | None = None) -> None:
        self._link = bound.rate if bound is not None else board.link_gb_per_s.value * 1e3
        # NVLink SHARP
        self._switch = board.has_nvlink and board.compute_capability[0] >= 9 and bound is None
        self._shared = not board.has_nvlink and bound is None
        self._calls = calls
        self._bound = bound

    def sizes(self, rows: Array) -> Array:
        """Return the logarithms of the collectives' sizes, one row per call."""
        columns = (self._calls.gpus[rows], self._calls.bytes[rows])
        return np.asarray(np.log(np.column_stack(columns).astype(float)))

    def choose(self, values: Values, rows: Array) -> None:
        """Return None. A model that has kernels must select them here, before derivatives are
        computed. This model has no kernels, and its minimum over protocols is smooth.
        """

    def protocol(self, values: Values) -> list[str]:
        """Return the fastest protocol of each collective."""
        starts, wires = self._protocols(values, np.arange(len(self._calls)))
        return [PROTOCOLS[best] for best in (starts + wires).argmin(axis=1)]

    def times(self, values: Values, rows: Array, kernels: None) -> Array:
        """Return the predicted times of the collectives."""
        del kernels
        return self.stack(values, rows).total

    def stack(self, values: Values, rows: Array) -> Stack:
        """Return the predicted time of each collective, broken down by cause. The choice among
        several protocols shortens the time. This effect is included in the time of the bytes on
        the wire.
        """
        starts, wires = self._protocols(values, rows)
        every = starts + wires
        fastest = every.min(axis=1, keepdims=True)
        weights = (every / fastest) ** -values["choice"]
        total = fastest[:, 0] * weights.sum(axis=1) ** (-1 / values["choice"])
        best = every.argmin(axis=1)[:, None]
        start = np.take_along_axis(starts, best, 1)[:, 0]
        launch = np.minimum(values["base"], total)
        steps = np.minimum(start, total) - np.minimum(launch, start)
        wire = total - launch - steps
        if self._bound is None:
            return Stack({"launch": launch, "protocol's steps": steps, "bytes on the wire": wire})
        # A link's bound does not depend on the fitted rates, so the minimum may not go below it.
        wire = np.maximum(wire, self._sent_bytes(rows) / self._bound.rate)
        name = "bytes, {} to {}".format(*self._bound.link)
        return Stack({"launch": launch, "protocol's steps": steps, name: wire})

    def _sent_bytes(self, rows: Array) -> Array:
        """Return the bytes that each GPU sends."""
        gpus = self._calls.gpus[rows].astype(float)
        twice = np.where(self._calls.op[rows] == "all_reduce", 2, 1)
        return np.asarray(twice * ((gpus - 1) / gpus) * self._calls.bytes[rows].astype(float))

    def _protocols(self, p: Values, rows: Array) -> tuple[Array, Array]:
        """Return the start times and the wire times of the collectives, one column per protocol."""
        op = self._calls.op[rows]
        gpus = self._calls.gpus[rows].astype(float)
        size = self._calls.bytes[rows].astype(float)
        reduce, exchange = op == "all_reduce", op == "alltoall"
        share = (gpus - 1) / gpus
        wire = self._sent_bytes(rows)
        steps = np.where(reduce, 2 * (gpus - 1), np.where(exchange, 1, gpus - 1))
        kind = np.select(
            [op == "all_gather", op == "reduce_scatter", exchange],
            [p["gather"], p["scatter"], p["exchange"]],
            1.0,
        )
        begin = np.where(exchange, p["exchange_start"], 1.0)
        few = np.where(gpus >= 4, 1.0, p["pair"])
        moved = wire * kind / self._link
        if self._shared:
            moved = moved * (gpus / 2) ** p.get("contention", 0.0)
        ramp = p["simple_ramp"] * (1 - np.exp(-size / _LARGE_CHUNKS))
        starts = [
            (p["base"] + p["ll_hop"] * steps) * begin,
            (p["base"] + p["ll128_start"] + p["ll128_hop"] * steps) * begin,
            (p["base"] + p["simple_start"] + p["simple_hop"] * steps) * begin + ramp,
            p["base"] + p["nvls_start"] + 0 * steps,
        ]
        # The switch reduces: each byte crosses a link once, and a share comes back.
        switched = np.where(reduce, 1 + 1 / gpus, share) * size * kind
        adds = self._calls.element[rows] > 1
        can = (gpus >= 4) & ~exchange & (adds | (op == "all_gather")) & self._switch
        wires = [
            moved / (p["ll_rate"] * few),
            moved / (p["ll128_rate"] * few),
            moved / p["simple_rate"],
            np.where(can, switched / self._link / p["nvls_rate"], _NEVER),
        ]
        return np.stack(starts, axis=1), np.stack(wires, axis=1)
