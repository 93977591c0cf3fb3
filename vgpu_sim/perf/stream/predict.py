"""Predicts one streaming kernel on one board."""

from dataclasses import replace
from typing import Final

import numpy as np

from vgpu_sim.perf import parameters
from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.prediction import Prediction
from vgpu_sim.perf.stack import Stack
from vgpu_sim.perf.stream.model import Calls, Model
from vgpu_sim.perf.topology.transfers import SHARE

LIBRARY: Final = "vllm"
MEASURED: Final = ("elementwise", "quantize")  # the tables measured a kernel that scales to fp8
HOST: Final = ("h2d", "d2h")
_COPIED_BYTES: Final = 2  # element size of a copy: that of the measured kernel, not single bytes
COPY_START_US: Final = 1.5  # start of a copy engine


def predict(
    op: str, board: str, rows: int, columns: int, read: float = 2, written: float = 2
) -> Prediction:
    """Predict the time of a kernel that streams ``rows`` times ``columns`` elements. ``read`` and
    ``written`` are bytes per element.

    Raises:
        PerfError: no such board, no fitted parameters, sizes below 1, or more bytes than the
            board's memory has.
    """
    hardware = board_named(board)
    sizes = (np.array([float(size)]) for size in (rows, columns, read, written))
    calls = Calls(*sizes)
    hardware.require_room(rows * columns * (read + written))
    fitted = parameters.nearest("stream", board, "elementwise", LIBRARY)
    stack = Model(hardware, calls).stack(fitted.values, np.array([0]))
    if op not in MEASURED:
        note = f"{op} was not measured: predicted as a kernel that scales elements"
        fitted = replace(fitted, note="; ".join(filter(None, (fitted.note, note))))
    rates = {"GB/s": rows * columns * (read + written) / 1e3}
    shape = {"rows": rows, "columns": columns, "bytes_read": read, "bytes_written": written}
    return Prediction.of(op, hardware, "bytes", shape, stack, fitted, {"rows a CTA": 1}, rates)


def quantize(board: str, rows: int, columns: int) -> Prediction:
    """Predict the time of scaling bf16 elements to fp8 by a known scale. Raises the errors of
    ``predict``.
    """
    return predict("quantize", board, rows, columns, 2, 1)


def softmax(board: str, rows: int, columns: int) -> Prediction:
    """Predict the time of a softmax of each row in bf16. Each row is read once and kept on chip.
    Raises the errors of ``predict``.
    """
    return predict("softmax", board, rows, columns, 2, 2)


def embedding(board: str, tokens: int, hidden: int) -> Prediction:
    """Predict the time of an embedding lookup, which copies one bf16 row of a table for each token.
    Raises the errors of ``predict``.
    """
    return predict("embedding", board, tokens, hidden, 2, 2)


def sampling(board: str, sequences: int, vocabulary: int) -> Prediction:
    """Predict the time of selecting each row's most likely token from bf16 logits. Raises the
    errors of ``predict``.
    """
    return predict("sampling", board, sequences, vocabulary, 2, 0)


def copy(board: str, direction: str, size: int) -> Prediction:
    """Predict the time of a copy of ``size`` bytes in a direction: "d2d" on the board, "h2d" or
    "d2h" over PCIe.

    Raises:
        PerfError: as ``predict``, or no such direction.
    """
    if direction == "d2d":
        elements = max(1, size // _COPIED_BYTES)
        columns = min(elements, 8192)
        each = size / elements
        prediction = predict("d2d", board, -(-elements // columns), columns, each, each)
        return replace(prediction, op="copy", shape={"direction": direction, "bytes": size})
    if direction not in HOST:
        raise BadShape(f"no direction {direction!r}; known: d2d, {', '.join(HOST)}")
    hardware = board_named(board)
    if size < 1:
        raise BadShape("bytes must be at least 1")
    hardware.require_room(size)
    wire = size / (SHARE * hardware.pcie_gb_per_s.value * 1e3)
    stack = Stack({"copy engine's start": np.array([COPY_START_US]), "PCIe": np.array([wire])})
    note = (
        "copies over PCIe were not measured: from pinned memory, by the data sheet; the interval "
    )
    fitted = parameters.Fitted(
        {}, (), (), ((1.0, 0.3), (1e6, 0.2)), 0, "no measurements", note + "is a guess"
    )
    shape = {"direction": direction, "bytes": size}
    rates = {"GB/s": size / 1e3}
    return Prediction.of("copy", hardware, "bytes", shape, stack, fitted, {}, rates)
