"""GEMM: measurements on each board."""

import numpy as np

from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.dtypes import dtype_named
from vgpu_sim.perf.gemm.candidates import Candidates
from vgpu_sim.perf.gemm.model import Model, Shapes
from vgpu_sim.perf.gemm.parameters import PARAMETERS
from vgpu_sim.perf.parameters import Values
from vgpu_sim.perf.stack import Stack
from vgpu_sim.perf.validation import measurements
from vgpu_sim.perf.validation.baselines import Work
from vgpu_sim.perf.validation.family import Family, Rows
from vgpu_sim.perf.validation.measurements import Table
from vgpu_sim.records import dataclass

_SHAPE = ("m", "n", "k")
_THEIRS = {"bf16": "bfloat16", "fp8": "fp8", "nvfp4": "nvfp4", "int8": "sq"}
# Goals for mean errors, in percent: mechanism alone, and with the residual.
_GOALS = {
    "a100-80gb/bf16/vllm": (6.5, 5.5),
    "h100-80gb/bf16/vllm": (5.0, 4.2),
    "h200/bf16/vllm": (4.8, 4.0),
    "b200/bf16/vllm": (5.8, 5.0),
    "gb200/bf16/vllm": (6.5, 5.5),
    "l40s/bf16/vllm": (9.0, 7.5),
    "rtx-pro-6000/bf16/vllm": (6.5, 5.0),
    "h100-80gb/fp8/sglang": (11.0, 7.5),
    "h200/fp8/sglang": (11.0, 7.5),
    "b200/fp8/sglang": (11.0, 7.5),
    "b200/nvfp4/sglang": (11.0, 8.0),
}
_WITHOUT = ("rtx-pro-6000/fp8/sglang", "rtx-pro-6000/nvfp4/sglang", "a100-80gb/int8/trtllm")


def _table(key: str) -> Table:
    board, dtype, library = key.split("/")
    return measurements.read(board, "gemm", "gemm_perf", library, gemm_dtype=_THEIRS[dtype])


@dataclass(frozen=True, slots=True)
class _Products:
    """A table's rows as matrix products."""

    key: str
    shapes: Shapes

    def model(self, values: Values) -> Model:
        board, dtype, library = self.key.split("/")
        return Model(board_named(board), dtype_named(dtype), values, library)

    def sizes(self, rows: np.ndarray) -> np.ndarray:
        return self.shapes.rows(rows).logs()

    def choose(self, values: Values, rows: np.ndarray) -> Candidates:
        return self.model(values).kernels(self.shapes.rows(rows))

    def times(self, values: Values, rows: np.ndarray, kernels: Candidates) -> np.ndarray:
        return self.model(values).times(self.shapes.rows(rows), kernels)

    def stack(self, values: Values, rows: np.ndarray) -> Stack:
        return self.model(values).stack(self.shapes.rows(rows))[0]


def _rows(key: str, table: Table) -> Rows:
    return _Products(key, Shapes(*(table.columns[name] for name in _SHAPE)))


def _work(key: str, table: Table) -> Work:
    board, name, _ = key.split("/")
    m, n, k = (table.columns[size].astype(float) for size in _SHAPE)
    dtype = dtype_named(name)
    moved = dtype.bytes * (m * k + k * n) + 2 * m * n
    return Work.of(board_named(board), dtype.name, 2 * m * n * k, moved)


FAMILY = Family(
    "gemm",
    (*_GOALS, *_WITHOUT),
    _SHAPE,
    PARAMETERS,
    _table,
    _rows,
    {key: goal for key, (goal, _) in _GOALS.items()},
    _work,
    corrected_goals={key: goal for key, (_, goal) in _GOALS.items()},
)
