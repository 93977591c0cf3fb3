"""Cases of operators that move, create or combine whole tensors, with NumPy's result beside."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.torch.rules.dtypes import FLOATS, Array, cast, special_values, storage
from benchmarks.torch.rules.row import Case, Expected, Operand, Row

MOVED = ("float16", "bfloat16", "float32", "int64", "bool")


def special_array(dtype: str, shape: Sequence[int]) -> Array:
    """Return special values of a type, repeated to fill a shape."""
    return np.resize(special_values(dtype), tuple(shape))


def small(dtype: str, shape: Sequence[int], start: int = 0) -> Array:
    """Return small whole numbers, of which every sum is exact in any order."""
    count = int(np.prod(shape))
    values = (np.arange(start, start + count) * 7) % 5
    signed = values if dtype in ("uint8", "bool") else values - 2
    return cast(signed.reshape(tuple(shape)), dtype)


def results(
    computed: Array | Sequence[Array], dtype: str | Sequence[str], **options: object
) -> tuple[Expected, ...]:
    """Describe exact results of one type, or of a type for each."""
    several = computed if isinstance(computed, tuple | list) else (computed,)
    names = [dtype] * len(several) if isinstance(dtype, str) else dtype
    return tuple(
        Expected(name, (np.asarray(values).astype(storage(name)),), **options)  # type: ignore[arg-type]
        for values, name in zip(several, names, strict=True)
    )


def make_moves(
    call: str,
    function: Callable[..., Array | Sequence[Array]],
    shapes: Sequence[Sequence[int]] = ((2, 3, 4),),
    result: str = "same",
) -> Callable[[Row, str], Iterator[Case]]:
    """Make one case of special values in some shapes, whose elements are moved unchanged."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        operands = tuple(Operand(special_array(dtype, shape), dtype) for shape in shapes)
        computed = function(*(operand.values for operand in operands))
        target = dtype if result == "same" else result
        yield Case(call, operands, results(computed, target), label=dtype)

    return make


def make_small(
    call: str,
    function: Callable[..., Array | Sequence[Array]],
    shapes: Sequence[Sequence[int]],
    result: Callable[[str], str] = str,
    ulps: float = 0.0,
    specials: bool = False,
) -> Callable[[Row, str], Iterator[Case]]:
    """Make one case of small whole numbers, on which sums and products are exact.

    With ``specials``, the first element of floats is an infinity, and NaN, in two more cases: of
    each order of sums the results are the same.
    """

    def make(row: Row, dtype: str) -> Iterator[Case]:
        starts = range(0, 3 * len(shapes), 3)
        numbers = [small(dtype, *pair) for pair in zip(shapes, starts, strict=True)]
        wide = "complex128" if dtype.startswith("complex") else "float64"
        target = result(dtype)
        for special in (None, *((np.inf, np.nan) if specials and dtype in FLOATS else ())):
            if special is not None:
                numbers[0].flat[0] = special
            operands = tuple(Operand(values.copy(), dtype) for values in numbers)
            with np.errstate(all="ignore"):
                computed = function(*(values.astype(wide) for values in numbers))
            rounded = [cast(np.asarray(result), target) for result in _several(computed)]
            label = dtype if special is None else f"{dtype} {special}"
            yield Case(call, operands, results(rounded, target, zero_sign=False), label=label)

    return make


def _several(computed: Array | Sequence[Array]) -> Sequence[Array]:
    return [computed] if isinstance(computed, np.ndarray | np.generic) else computed


def each(
    *cases: tuple[str, Callable[[str], Sequence[Operand]], Callable[..., Sequence[Expected]]],
) -> Callable[[Row, str], Iterator[Case]]:
    """Make cases from a call, its operands in a type, and their expected results."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        for call, operands, expected in cases:
            case_operands = tuple(operands(dtype))
            values = [operand.values for operand in case_operands]
            yield Case(call, case_operands, tuple(expected(dtype, *values)), label=dtype)

    return make
