"""Libraries as data: the tiles of their kernels, and their tables of choices.

cuBLAS publishes neither its tiles nor its choices. Its tiles are those in its kernels' names
(``nvjet_*_BMxBN``, ``ampere_*_s16816gemm_*_BMxBN``); its exceptions were inferred from measured
times, and each is a rule over ranges, never a list of shapes. SGLang's table for fp8 is in its
source.
"""

from dataclasses import replace
from typing import Final

from boards import RECORDS
from boards.record import CublasException
from vgpu_sim.perf.boards import Board
from vgpu_sim.records import dataclass

VECTOR: Final = 1  # tokens of a kernel without tensor cores: a product of a matrix and a vector


@dataclass(frozen=True, slots=True)
class Tile:
    """An entry of a library's table: the tile of the kernel that the library uses for a product
    with at most ``tokens`` tokens.
    """

    tokens: float
    bm: int
    bn: int


@dataclass(frozen=True, slots=True)
class Library:
    """A library's kernels and rules for a generation of boards.

    ``largest`` is the largest tile in elements. The inner dimension k is split only into parts of
    at least ``least_k``, and only if there are at most ``most_ctas`` CTAs per SM after the split.

    k is not split either if the product is small. A product is small if it has fewer than
    ``least_work`` multiplications and k is at most ``long_k``. It does not count as small if it has
    more than ``few_tokens`` tokens and k is at least ``deep_k``.

    If there is a ``dispatch`` table, the kernel is taken from the table, without a search.
    """

    tokens: tuple[int, ...]
    features: tuple[int, ...]
    largest: int
    splits: bool = True
    most_ctas: int = 4
    least_k: int = 384  # a hard threshold has no gradient, so this is chosen, not fitted
    least_work: int = 0
    long_k: int = 8192
    few_tokens: int = 16
    deep_k: int = 2048
    exception: CublasException | None = None
    dispatch: tuple[Tile, ...] | None = None


_FINE: Final = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256)
_MMA: Final = (VECTOR, 16, 32, 64, 128, 256)
_WIDE: Final = (64, 128, 192, 256)
_CUBLAS: Final = {
    (8, 0): Library(_MMA, (64, 128, 256), 128 * 256),
    (8, 9): Library(_MMA, (64, 128, 256), 128 * 256, least_work=1 << 21),
    (9, 0): Library(_FINE, _WIDE, 192 * 192),
    (10, 0): Library(_FINE, _WIDE, 256 * 256),
    (12, 0): Library(_MMA, (64, 128, 256), 128 * 256, least_work=1 << 21),
}
# By board: cuBLAS makes other choices on an H100 than on an H200, whose chips are the same.
_EXCEPTIONS: Final = {
    key: record.performance.cublas_exception
    for key, record in RECORDS.items()
    if record.performance.cublas_exception is not None
}
GENERAL: Final = "cublas without exceptions"  # as for a board without measurements
_SAME_AS_CUBLAS: Final = ("bf16", "fp16")
_ALWAYS: Final = float("inf")


def _table(*tiles: Tile) -> Library:
    """Return a library that chooses a tile by the number of tokens, and that never splits k."""
    tokens, features = (tuple(sorted({getattr(t, side) for t in tiles})) for side in ("bm", "bn"))
    return Library(tokens, features, 256 * 256, splits=False, dispatch=tiles)


# sgl-kernel, csrc/gemm/fp8_gemm_kernel.cu (sm90_fp8_dispatch_shape, sm100_fp8_dispatch_bias, and
# sm120's one kernel) chooses by tokens alone and never splits k. A tile of two SMs is counted as
# the half of one SM. That Hopper's tiles grow at 64 and at 128 tokens, and to two tiles of features
# from 256 on, was inferred from the fitted rows, since its source has 128x128 there.
_SGLANG_FP8: Final = {
    (9, 0): _table(
        Tile(64, 64, 64), Tile(128, 64, 128), Tile(256, 128, 128), Tile(_ALWAYS, 128, 256)
    ),
    (10, 0): _table(Tile(64, 64, 64), Tile(256, 64, 128), Tile(_ALWAYS, 128, 256)),
    (12, 0): _table(Tile(_ALWAYS, 128, 128)),
}


def library_of(board: Board, name: str, dtype: str) -> Library:
    """Return the kernels and rules of the named library for an operand type on a board."""
    if (name, dtype) == ("sglang", "fp8") and board.compute_capability in _SGLANG_FP8:
        return _SGLANG_FP8[board.compute_capability]
    library = _CUBLAS[board.compute_capability]
    exceptional = dtype in _SAME_AS_CUBLAS and name != GENERAL
    if exceptional and board.name in _EXCEPTIONS:
        return replace(library, exception=_EXCEPTIONS[board.name])
    return library
