"""Linear algebra, distances and Fourier transforms, on operands whose steps are exact in any order."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.torch.rules.closeness import close
from benchmarks.torch.rules.dtypes import COMPLEXES, FLOATS, HALVES, Array, cast
from benchmarks.torch.rules.exact import small
from benchmarks.torch.rules.row import Case, Expected, Operand, Row
from benchmarks.torch.rules.sources import cuda, native, op_info, page

Make = Callable[[Row, str], Iterator[Case]]
_WIDE = ("float32", "float64")
_COMPLEX = {"float32": "complex64", "float64": "complex128"}
# Powers of two on the diagonal: quotients, and the factors of a decomposition, are exact.
_UPPER = np.array([[2.0, 1, -3], [0, -4, 2], [0, 0, 0.5]])
_LOWER = np.array([[2.0, 0, 0], [1, 4, 0], [-3, 2, 0.5]])
_RIGHT = np.array([[1.0, 2], [-3, 4], [5, -6]])
# Lengths of the differences are whole numbers.
_POINTS = np.array([[0.0, 0], [3, 4], [-5, 12]])
_OTHER_POINTS = np.array([[0.0, 0], [6, 8]])


def _fixed(call: str, operands: Sequence[Array], result: Array, ulps: float = 0.0) -> Make:
    """Make a case of fixed operands, whose result is exact or at a distance."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        case_operands = tuple(Operand(cast(values, dtype), dtype) for values in operands)
        expected = close(result.astype("longdouble"), dtype, ulps)
        yield Case(call, case_operands, (expected,), label=dtype)

    return make


def _distances(norm: float) -> Array:
    return np.asarray(np.linalg.norm(_POINTS[:, None] - _OTHER_POINTS[None], norm, axis=2))


def _each_distance(row: Row, dtype: str) -> Iterator[Case]:
    for norm in (0.0, 1.0, 2.0, np.inf):
        call = f"torch.cdist(a, b, {norm!r})".replace("inf", "float('inf')")
        yield from _fixed(call, (_POINTS, _OTHER_POINTS), _distances(norm))(row, dtype)


def _no_distance(row: Row, dtype: str) -> Iterator[Case]:
    empty = _fixed("torch.cdist(a[:0], b)", (_POINTS, _OTHER_POINTS), np.empty((0, 2)))
    yield from empty(row, dtype)
    yield from _fixed("torch.cdist(a[:, :0], b[:, :0])", (_POINTS, _OTHER_POINTS),
                      np.zeros((3, 2)))(row, dtype)  # fmt: skip


def _transformed(call: str, function: Callable[[Array], Array], is_real: bool = False) -> Make:
    """Make a case of four elements, of which no transform is 0."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        is_complex = dtype in COMPLEXES
        values = small(_real(dtype), (3, 4))
        if is_complex:
            values = (values + 1j * np.flip(values)).astype(dtype)
        target = _real(dtype) if is_real else dtype if is_complex else _COMPLEX.get(dtype, dtype)
        computed = function(values)
        if is_real:
            expected = close(computed, target, _FFT_ULPS, float(np.abs(values).max()))
        else:
            relative = _FFT_ULPS * float(np.finfo(target).eps)
            expected = Expected(target, (computed.astype(target),), relative=relative)
        yield Case(call, (Operand(values, dtype),), (expected,), label=dtype)

    return make


def _real(dtype: str) -> str:
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


def _back(values: Array) -> Array:
    """Return the inverse of half a transform of four elements, whose ends count as real."""
    ends = values[:, :3].copy()
    ends[:, 0], ends[:, 2] = ends[:, 0].real, ends[:, 2].real
    return np.fft.irfft(ends, 4)


def _frames(values: Array) -> Array:
    """Return the transforms of frames of four elements, at a distance of two."""
    frames = np.lib.stride_tricks.sliding_window_view(values.ravel(), 4)[::2]
    return np.fft.rfft(frames).T


def _row(
    name: str,
    make: Make,
    rule: str,
    source: str,
    accepts: tuple[str, ...] = _WIDE,
    refuses: tuple[str, ...] = HALVES,
) -> Row:
    return Row(name, "decompositions", rule, source, accepts, make, refuses=refuses)


_LINEAR = op_info(
    "linalg.inv", native("BatchLinearAlgebra.cpp", "linalg_inv_ex_out, and its siblings")
)
_LOW = "; 16-bit types are refused"
_FFT = (
    cuda("SpectralOps.cpp", "_fft_c2c_cufft, _fft_r2c_cufft, _fft_c2r_cufft")
    + "; https://docs.nvidia.com/cuda/cufft/: Accuracy and Performance"
)
_FFT_ULPS = 4
_FACTORS = (
    "the sum of products with the roots of one; the relative error grows with log2 of the size"
)

ROWS = (
    _row("linalg.inv", _fixed("torch.linalg.inv(a)", (_UPPER,), np.linalg.inv(_UPPER)),
         "exact where all steps are" + _LOW, _LINEAR),
    _row("linalg.solve", _fixed("torch.linalg.solve(a, b)", (_UPPER, _RIGHT),
         np.linalg.solve(_UPPER, _RIGHT)), "exact where all steps are" + _LOW, _LINEAR),
    _row("linalg.cholesky", _fixed("torch.linalg.cholesky(a)", (_LOWER @ _LOWER.T,), _LOWER),
         "the lower factor; exact where all steps are" + _LOW, _LINEAR),
    _row("linalg.svd", _fixed("torch.linalg.svd(a)[1]", (np.diag([2.0, -4, 1])[::-1],),
         np.array([4.0, 2, 1]), 8), "singular values in descending order" + _LOW,
         page("generated/torch.linalg.svd.html")),
    _row("cdist", _each_distance, "differences are reduced in the tensor's type" + _LOW, op_info("cdist", cuda("DistanceKernel.cu", "cdist_kernel_impl"))),
    _row("cdist.empty", _no_distance, "of no element the distance is 0, also of 16-bit types",
         native("Distance.cpp", "cdist_impl"), FLOATS, ()),
    _row("fft.fft", _transformed("torch.fft.fft(a)", np.fft.fft), _FACTORS, _FFT,
         (*_WIDE, *COMPLEXES), ()),
    _row("fft.rfft", _transformed("torch.fft.rfft(a)", np.fft.rfft), _FACTORS, _FFT, refuses=()),
    _row("fft.irfft", _transformed("torch.fft.irfft(a[:, :3])", _back, is_real=True),
         "as of a transform whose ends are real", _FFT, (*_WIDE, *COMPLEXES), ()),
    _row("stft", _transformed("torch.stft(a.flatten(), 4, 2, center=False,"
         " window=torch.ones(4, dtype=a.dtype, device=DEVICE), return_complex=True)", _frames),
         "transforms of frames times the window", native("SpectralOps.cpp", "stft"), refuses=()),
)  # fmt: skip
