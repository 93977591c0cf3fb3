"""Predicts one matrix product on one board."""

from typing import Final

import numpy as np

from vgpu_sim.perf import parameters
from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.dtypes import dtype_named, require_dtype
from vgpu_sim.perf.gemm.model import Model, Shapes
from vgpu_sim.perf.prediction import Prediction

# The measured libraries: for bf16 cuBLAS as vLLM calls it, for fp8 and nvfp4 SGLang's kernels
# (CUTLASS by a table; FlashInfer), for int8 TensorRT-LLM's.
LIBRARY: Final = {"fp8": "sglang", "nvfp4": "sglang", "int8": "trtllm"}
_CUBLAS: Final = "vllm"


def predict(board: str, dtype: str, m: int, n: int, k: int) -> Prediction:
    """Predict the time of the matrix product C[m, n] = A[m, k] B[k, n].

    Raises:
        PerfError: no such board or type, the board's tensor cores lack the type, no fitted
            parameters, a size is below 1, or the operands do not fit into the board's memory.
    """
    hardware = board_named(board)
    shapes = Shapes(*(np.array([size]) for size in (m, n, k)))
    require_dtype(hardware, dtype)
    size = dtype_named(dtype).bytes
    moved = size * (m * k + k * n) + 2 * m * n
    hardware.require_room(moved)
    library = LIBRARY.get(dtype, _CUBLAS)
    fitted = parameters.nearest("gemm", board, dtype, library)
    stack, kernels = Model(hardware, dtype_named(dtype), fitted.values, library).stack(shapes)
    choice = {
        "tile": f"{kernels.bm[0, 0]:.0f}x{kernels.bn[0, 0]:.0f}",
        "parts of k": int(kernels.splits[0, 0]),
    }
    rates = {
        "Tflop/s": 2 * m * n * k / 1e6,
        "GB/s of operands": moved / 1e3,
    }
    shape = {"m": m, "n": n, "k": k}
    return Prediction.of(
        "gemm", hardware, dtype, shape, stack, fitted, choice, rates, shapes.logs()
    )
