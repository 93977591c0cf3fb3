"""Predicts one mixture of experts on one board."""

from typing import Final

import numpy as np

from vgpu_sim.perf import parameters
from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.dtypes import require_dtype
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.moe.loads import TILES, Calls
from vgpu_sim.perf.moe.model import Model
from vgpu_sim.perf.prediction import Prediction

LIBRARY: Final = "vllm"  # libraries whose bf16 kernels are Triton's


# Types of weights and activations. Blocks: scales for 128 x 128 weights, and for 128 activations.
DTYPES: Final = ("bf16", "fp8", "fp8_block")


def operands_of(dtype: str) -> str:
    """Return the operand type of the tensor cores for a ``dtype`` of a mixture of experts."""
    return dtype.removesuffix("_block")


def predict(
    board: str,
    *,
    tokens: int,
    hidden: int,
    inner: int,
    topk: int,
    experts: int,
    ranks: int = 1,
    distribution: str = "power_law_1.01",
    gated: bool = True,
    dtype: str = "bf16",
) -> Prediction:
    """Predict the time of the busiest rank of a mixture of experts, without communication between
    ranks.

    With fp8, activations are bf16 at the input and are scaled within the operation.

    Raises:
        PerfError: no such board, its tensor cores lack the type, no fitted parameters, sizes that
            no kernel accepts, or weights that do not fit into the board's memory.
    """
    hardware = board_named(board)
    if dtype not in DTYPES:
        raise BadShape(f"mixtures of experts were measured in {', '.join(DTYPES)}, not in {dtype}")
    operands = require_dtype(hardware, operands_of(dtype))
    sizes = {"tokens": tokens, "hidden": hidden, "inner": inner, "topk": topk}
    sizes |= {"experts": experts, "ranks": ranks}
    columns = {name: np.array([size]) for name, size in sizes.items()}
    calls = Calls(**columns, distribution=np.array([distribution]), gated=np.array([gated]))
    weights = (3 if gated else 2) * hidden * inner * experts // ranks
    hardware.require_room(operands.bytes * weights + 4 * tokens * hidden)
    fitted = parameters.nearest("moe", board, dtype, LIBRARY)
    model, row = Model(hardware, operands, calls), np.array([0])
    stack = model.stack(fitted.values, row)
    choice = {"rows a tile": TILES[int(model.choose(fitted.values, row)[0])]}
    flop = 2 * tokens * topk / ranks * hidden * inner * (3 if gated else 2)
    shape = sizes | {"distribution": distribution, "gated": gated}
    rates = {"Tflop/s": flop / 1e6}
    return Prediction.of(
        "moe", hardware, dtype, shape, stack, fitted, choice, rates, model.sizes(row)
    )
