"""Single values of functions of complex numbers at infinities and NaN; signs of zeros count.

`complexes` compares each special value with NumPy and leaves signs open. These are the values in
which CUDA's libraries follow libc++, and NumPy or PyTorch's CPU operators do not.
"""

from collections.abc import Callable, Iterator, Sequence
from math import inf, nan

import numpy as np

from benchmarks.torch.rules.dtypes import COMPLEXES
from benchmarks.torch.rules.exact import results
from benchmarks.torch.rules.row import Case, Operand, Row
from benchmarks.torch.rules.sources import header

Pair = tuple[complex, complex]
_RULE = "libc++'s value, which follows C's Annex G"

# Of each function: an argument, and its value.
_VALUES: dict[str, tuple[Pair, ...]] = {
    "sin": (
        (complex(inf, 0), complex(nan, 0)),
        (complex(0, inf), complex(0, inf)),
        (complex(inf, inf), complex(nan, inf)),
    ),
    "sinh": (
        (complex(inf, 0), complex(inf, 0)),
        (complex(0, inf), complex(0, nan)),
        (complex(-inf, nan), complex(-inf, nan)),
    ),
    "cos": (
        (complex(0, inf), complex(inf, 0)),
        (complex(inf, inf), complex(inf, nan)),
    ),
    "cosh": (
        (complex(-inf, 0), complex(inf, 0)),
        (complex(0, nan), complex(nan, 0)),
        (complex(inf, inf), complex(inf, nan)),
    ),
    "tanh": (
        (complex(inf, inf), complex(1, 0)),
        (complex(-inf, 1), complex(-1, 0)),
        (complex(nan, 0), complex(nan, 0)),
    ),
    "tan": ((complex(0, inf), complex(0, 1)),),
    "exp": (
        (complex(-inf, inf), complex(0, 0)),
        (complex(inf, inf), complex(inf, nan)),
        (complex(inf, 0), complex(inf, 0)),
        (complex(nan, 0), complex(nan, 0)),
    ),
    "exp2": ((complex(-inf, inf), complex(0, 0)),),
    "sqrt": (
        (complex(1, inf), complex(inf, inf)),
        (complex(nan, -inf), complex(inf, -inf)),
        (complex(-inf, 1), complex(0, inf)),
        (complex(-inf, nan), complex(nan, inf)),
        (complex(inf, -1), complex(inf, -0.0)),
    ),
    "rsqrt": (
        (complex(0, -inf), complex(0, 0)),
        (complex(4, 0), complex(0.5, 0)),
    ),
    "sigmoid": ((complex(-inf, 1), complex(0, 0)),),
    "asinh": ((complex(nan, -inf), complex(-inf, nan)),),
    "acos": ((complex(inf, nan), complex(nan, inf)),),
    "log": (
        (complex(0, 0), complex(-inf, 0)),
        (complex(inf, nan), complex(inf, nan)),
    ),
}
_LIBRARY = header("ATen/cuda/llvm_jit_strings.h", "get_complex_math_string: functions of libc++")


def _at(name: str, pairs: Sequence[Pair]) -> Callable[[Row, str], Iterator[Case]]:
    def make(row: Row, dtype: str) -> Iterator[Case]:
        for argument, value in pairs:
            operand = Operand(np.array([argument], dtype=dtype), dtype)
            expected = results(np.array([value]), dtype)
            yield Case(f"torch.{name}(a)", (operand,), expected, label=f"{dtype} {argument}")

    return make


def _mean_of_none(row: Row, dtype: str) -> Iterator[Case]:
    operand = Operand(np.empty(0, dtype=dtype), dtype)
    expected = results(np.asarray(complex(nan, 0)), dtype)
    yield Case("a.mean()", (operand,), expected, label=f"{dtype} empty")


ROWS = (
    *(
        Row(f"{name}.value", "complex", _RULE, _LIBRARY, COMPLEXES, _at(name, pairs))
        for name, pairs in _VALUES.items()
    ),
    Row("mean.complex", "complex", "the sum 0 + 0i times 1 / 0, a real number",
        header("ATen/native/SharedReduceOps.h", "MeanOps::project"), COMPLEXES, _mean_of_none),
)  # fmt: skip
