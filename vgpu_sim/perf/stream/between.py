"""Copies between devices of a node, over its links; copies that begin together share the links."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from vgpu_sim.perf import parameters
from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.prediction import Prediction
from vgpu_sim.perf.stack import Stack
from vgpu_sim.perf.stream.predict import COPY_START_US
from vgpu_sim.perf.topology import Topology, topology_named
from vgpu_sim.perf.topology.routes import Routes
from vgpu_sim.perf.topology.transfers import Transfer, together

_NOTE: Final = (
    "transfers over links were not measured: rates are from data sheets, with peer access and"
    " GPUDirect"
    " assumed; the interval is a guess"
)
_NOT_IN_IT: Final = "; the time of adapters and drives themselves is not included"
_GUESS: Final = ((1.0, 0.3), (1e6, 0.2))  # half widths of the interval, as for copies over PCIe


def predict(board: str, topology: str, ends: Sequence[tuple[str, str]], size: int) -> Prediction:
    """Predict the time of a copy of ``size`` bytes while other copies of the same size run beside
    it.

    ``ends`` are the pairs of devices between which the copies run, such as ("gpu0", "hca0").
    Devices are named "gpu0", "numa1", "hca0", "wire0", "nvme0", "cxl0". All copies begin together;
    the predicted copy is that of the first pair. The rates and limits of all copies are in
    ``shape["transfers"]``.

    Raises:
        PerfError: no such board, topology or device, or more bytes than a device has.
    """
    hardware, node = board_named(board), topology_named(topology)
    moved = together(Routes(node, hardware), ends, size)
    for end in {end for pair in ends for end in pair}:
        if end.startswith("gpu"):
            hardware.require_room(size)
        elif end.startswith("cxl"):
            _hold(node, end, size)
    first = moved[0]
    # A GPU's copy engine does the copy, unless an adapter or a drive reads and writes.
    engine = not any(end.startswith(("hca", "wire", "nvme")) for end in ends[0])
    start = COPY_START_US if engine else 0.0
    causes = {"copy engine's start": np.array([start])} if engine else {}
    causes["bytes, {} to {}".format(*first.limit)] = np.array([first.us])
    note = _NOTE if engine else _NOTE + _NOT_IN_IT
    fitted = parameters.Fitted({}, (), (), _GUESS, 0, "no measurements", note)
    shape = {
        "topology": topology,
        "from": first.source,
        "to": first.target,
        "bytes": size,
        "transfers": [_facts(transfer) for transfer in moved],
    }
    rates = {"GB/s": size / 1e3}
    return Prediction.of("copy", hardware, "bytes", shape, Stack(causes), fitted, {}, rates)


def _hold(node: Topology, end: str, size: int) -> None:
    has = node.cxls[int(end.removeprefix("cxl"))].gigabytes
    if size > has * 1e9:
        raise BadShape(f"{size / 1e9:.4g} GB do not fit into {end}, which has {has} GB")


def _facts(transfer: Transfer) -> dict[str, Any]:
    return {
        "from": transfer.source,
        "to": transfer.target,
        "way": transfer.way,
        "limited_by": "{} to {}".format(*transfer.limit),
        "gb_per_s": transfer.rate / 1e3,
        "us": transfer.us,
    }
