"""Functions of complex numbers, as C's Annex G has them at zeros, infinities and NaN.

The signs of zeros and of a NaN's partner are left open, as Annex G leaves many of them.
"""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.torch.rules.closeness import close
from benchmarks.torch.rules.dtypes import COMPLEXES, Array, special_values
from benchmarks.torch.rules.row import Case, Expected, Operand, Row
from benchmarks.torch.rules.sources import cuda, native

_ULPS = 4  # of a real result
_RULE = "C's Annex G at zeros and infinities: thrust's function of CUDA's libraries"


def _without_zeros(name: str, values: Array, computed: Array) -> Array:
    """Return NaN where C11's later text has a zero beside NaN, and libc++ has the first text."""
    turned = computed.copy()
    if name == "tanh":
        turned.real[(values.real == 0) & ~np.isfinite(values.imag)] = np.nan
    if name == "tan":
        turned.imag[(values.imag == 0) & ~np.isfinite(values.real)] = np.nan
    return turned


def _numbers(dtype: str) -> Array:
    """Return finite numbers and those with an infinite or NaN part for which Annex G has a value."""
    return special_values(dtype)


def _row(name: str, function: Callable[[Array], Array], source: str, call: str = "") -> Row:
    text = call or f"torch.{name}(a)"

    def make(row: Row, dtype: str) -> Iterator[Case]:
        values = _numbers(dtype)
        with np.errstate(all="ignore"):
            computed = np.asarray(function(values))
        if computed.dtype.kind == "f":
            expected = close(computed, str(computed.dtype), _ULPS)
        else:
            relative = 1e-5 if dtype == "complex64" else 1e-12
            choices = (computed.astype(dtype), _without_zeros(name, values, computed))
            expected = Expected(dtype, choices, relative=relative)
        yield Case(text, (Operand(values, dtype),), (expected,), label=dtype)

    return Row(f"{name}.complex", "complex", _RULE, source, COMPLEXES, make)


def _trigonometry(name: str) -> str:
    return cuda(f"UnaryGeometric{name}Kernel.cu", f"{name.lower()}_kernel_cuda")


ROWS = (
    _row("sin", np.sin, _trigonometry("Sin")),
    _row("cos", np.cos, _trigonometry("Cos")),
    _row("sinh", np.sinh, _trigonometry("Sinh")),
    _row("cosh", np.cosh, _trigonometry("Cosh")),
    _row("tanh", np.tanh, _trigonometry("Tanh")),
    _row("tan", np.tan, _trigonometry("Tan")),
    _row("exp", np.exp, cuda("UnaryOpsKernel.cu", "exp_kernel_cuda")),
    _row("sqrt", np.sqrt, cuda("UnaryOpsKernel.cu", "sqrt_kernel_cuda")),
    _row("log", np.log, cuda("UnaryLogKernels.cu", "log_kernel_cuda")),
    _row("abs", np.abs, cuda("AbsKernel.cu", "AbsFunctor")),
    _row("angle", np.angle, cuda("UnaryComplexKernels.cu", "angle_kernel_cuda")),
    _row("conj_physical", np.conj, cuda("UnaryComplexKernels.cu", "conj_kernel_cuda")),
    _row("real", np.real, native("UnaryOps.cpp", "real"), "torch.real(a)"),
    _row("imag", np.imag, native("UnaryOps.cpp", "imag"), "torch.imag(a)"),
    _row("neg", np.negative, cuda("UnarySignKernels.cu", "neg_kernel_cuda")),
)
