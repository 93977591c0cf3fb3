"""Predicts one call of attention on one board."""

from typing import Final

import numpy as np

from vgpu_sim.perf import parameters
from vgpu_sim.perf.attention.geometry import Calls
from vgpu_sim.perf.attention.model import Model
from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.dtypes import require_dtype
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.prediction import Prediction

LIBRARY: Final = "vllm"  # FlashAttention 3 on Hopper, FlashInfer's kernels on Blackwell


def predict(
    board: str,
    *,
    batch: int,
    query: int,
    context: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    window: int = 0,
    causal: bool = True,
) -> Prediction:
    """Predict the time of attention in bf16, including the write of new keys and values into the
    cache.

    ``query`` is the number of new tokens of each sequence: the whole context for a prompt, or 1
    for a single token. Calls that are not ``causal`` (encoders) may have any number of new
    tokens, and have no cache and no window.

    Raises:
        PerfError: no such board, no fitted parameters, sizes that no kernel accepts, or keys and
            values that do not fit into the board's memory.
    """
    hardware = board_named(board)
    require_dtype(hardware, "bf16")
    if causal and query not in (1, context):
        raise BadShape(
            f"query must be 1 or equal to the context ({context}), not {query}:"
            " chunks of prompts were not measured"
        )
    shape = {
        "batch": batch,
        "query": query,
        "context": context,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "window": window,
    }
    if not causal and (window or heads != kv_heads):
        raise BadShape(
            "an encoder must have one key head per query head and no window:"
            " others were not measured"
        )
    hardware.require_room(4 * batch * (query * heads + context * kv_heads) * head_dim)
    sizes = {name: np.array([size]) for name, size in shape.items()}
    calls = Calls(**sizes, kv_bytes=np.array([2]), causal=causal)
    generation = causal and query == 1
    family = "attention-generation" if generation else "attention-context"
    family = family if causal else "attention-encoder"
    fitted = parameters.nearest(family, board, "bf16", LIBRARY)
    model = Model(hardware, calls, generation=generation)
    row = np.array([0])
    stack = model.stack(fitted.values, row)
    kernel = model.kernels[int(model.choose(fitted.values, row)[0])]
    choice = {
        "query rows a tile": kernel.rows,
        "heads packed": kernel.packed,
        "parts of the keys": kernel.splits,
    }
    visible_keys = min(context, window) if window and generation else context
    moved = 2 * batch * (2 * query * heads + 2 * visible_keys * kv_heads) * head_dim
    rates = {"GB/s of operands": moved / 1e3}
    return Prediction.of(
        "attention", hardware, "bf16", shape, stack, fitted, choice, rates, model.sizes(row)
    )
