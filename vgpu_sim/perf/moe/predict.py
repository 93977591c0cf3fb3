"""One mixture of experts on one board."""

from typing import Final

import numpy as np

from vgpu_sim.perf import parameters
from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.dtypes import supported
from vgpu_sim.perf.moe.loads import TILES, Calls
from vgpu_sim.perf.moe.model import Model
from vgpu_sim.perf.prediction import Prediction

LIBRARY: Final = "vllm"  # whose kernels for bf16 are Triton's


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
) -> Prediction:
    """Predict the busiest rank's time in bf16, communication between ranks not included.

    Raises:
        PerfError: no such board, nothing fitted for it, sizes that no kernel takes, or weights
            that do not fit into its memory.
    """
    known = board_named(board)
    dtype = supported(known, "bf16")
    sizes = {"tokens": tokens, "hidden": hidden, "inner": inner, "topk": topk}
    sizes |= {"experts": experts, "ranks": ranks}
    one = {name: np.array([size]) for name, size in sizes.items()}
    calls = Calls(**one, distribution=np.array([distribution]), gated=np.array([gated]))
    weights = (3 if gated else 2) * hidden * inner * experts // ranks
    known.hold(2 * (weights + 2 * tokens * hidden))
    fitted = parameters.nearest("moe", board, "bf16", LIBRARY)
    model, row = Model(known, dtype, calls), np.array([0])
    stack = model.stack(fitted.values, row)
    choice = {"rows a tile": TILES[int(model.choose(fitted.values, row)[0])]}
    flop = 2 * tokens * topk / ranks * hidden * inner * (3 if gated else 2)
    shape = sizes | {"distribution": distribution, "gated": gated}
    rates = {"Tflop/s": flop / 1e6}
    told = (shape, stack, fitted, choice, rates, model.sizes(row))
    return Prediction.of("moe", known, "bf16", *told)
