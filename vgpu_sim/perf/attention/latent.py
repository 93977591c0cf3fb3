"""Multi-head latent attention (DeepSeek-V2, section 2.1): the cache holds one latent vector per
token.

For prompts, the latent is expanded to heads of keys (192 elements, of which 64 encode a
position) and of values (128 elements). For single tokens, the expansion is absorbed into queries
and outputs. They attend to the latent itself, as one key head of 576 elements, of which the
first 512 are the values.
"""

from typing import Final

import numpy as np

from vgpu_sim.perf import parameters
from vgpu_sim.perf.attention.geometry import Calls
from vgpu_sim.perf.attention.model import Model
from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.dtypes import require_dtype
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.prediction import Prediction

Array = np.ndarray
LATENT: Final = 512
POSITION: Final = 64
PLAIN: Final = 128  # elements of a key without the position
KEY: Final = PLAIN + POSITION
VALUE: Final = 128
CACHED: Final = LATENT + POSITION  # elements per token and layer in the cache
LIBRARY: Final = "sglang"  # FlashAttention 3 on Hopper, TensorRT-LLM's kernels on Blackwell
_BYTES: Final = 2


def calls(batch: Array, query: Array, context: Array, heads: Array, *, generation: bool) -> Calls:
    """Return latent attention calls in the form of the attention model.

    That model has one ``head_dim`` for keys and values. It is set to the mean of their sizes, so
    that the number of operations is right.
    """
    unit_column = np.ones_like(batch)
    mean = (CACHED + LATENT) // 2 if generation else (KEY + VALUE) // 2
    return Calls(
        batch,
        query,
        context,
        heads,
        kv_heads=unit_column if generation else heads,
        head_dim=mean * unit_column,
        window=0 * unit_column,
        kv_bytes=_BYTES * unit_column,
        kv_width=CACHED * unit_column if generation else None,
    )


def predict(board: str, *, batch: int, query: int, context: int, heads: int) -> Prediction:
    """Predict the time of causal latent attention in bf16, on a rank that processes ``heads`` query
    heads.

    Products with the expansion's weights are not included. ``query`` is 1 or the whole context.

    Raises:
        PerfError: no such board, no fitted parameters, sizes that no kernel accepts, or a cache
            that does not fit into the board's memory.
    """
    hardware = board_named(board)
    require_dtype(hardware, "bf16")
    if query not in (1, context):
        raise BadShape(f"query must be 1 or equal to the context ({context}), not {query}")
    generation = query == 1
    shape = {"batch": batch, "query": query, "context": context, "heads": heads}
    hardware.require_room(_BYTES * batch * (context * CACHED + query * heads * (KEY + VALUE)))
    of = calls(*(np.array([size]) for size in shape.values()), generation=generation)
    fitted = parameters.nearest(
        "mla-generation" if generation else "mla-context", board, "bf16", LIBRARY
    )
    model, row = Model(hardware, of, generation=generation), np.array([0])
    stack = model.stack(fitted.values, row)
    kernel = model.kernels[int(model.choose(fitted.values, row)[0])]
    choice = {"query rows a tile": kernel.rows, "parts of the keys": kernel.splits}
    each = (KEY + VALUE, CACHED)[generation] * (1 if generation else heads)
    rates = {"GB/s of operands": _BYTES * batch * context * each / 1e3}
    sizes = model.sizes(row)
    return Prediction.of("mla", hardware, "bf16", shape, stack, fitted, choice, rates, sizes)
