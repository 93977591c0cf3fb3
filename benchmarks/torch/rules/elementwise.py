"""Cases of element-wise operators: how operands reach a functor, and how its result is rounded."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.torch.rules.dtypes import (
    COMPLEXES,
    FLOATS,
    Array,
    cast,
    category,
    is_float,
    opmath,
    promote,
    spacing,
    special_values,
)
from benchmarks.torch.rules.row import Case, Expected, Kind, Operand, Row

Compute = Callable[..., Array | tuple[Array, ...]]
NUMBERS: dict[str, tuple[float | int | bool, ...]] = {
    "float": (0.1, 1.7, -2.5, 1e6, float("inf"), float("nan")),
    "integer": (3, -2),
    "bool": (True,),
}
_SECOND = {"float16": "float32", "bfloat16": "float64", "float32": "float64"}


@dataclass(frozen=True)
class Functor:
    """An element-wise functor: what it computes in which type, and how far a result may be.

    ``computes`` receives the operands in the type in which CUDA computes, and returns one array or
    several of which each is right. ``narrow`` functors are compiled for the tensor's own type: a
    number is rounded to it (``scalar_t``); others receive a number in ``opmath``. ``result`` is
    ``same``, ``bool``, ``float`` (integers become float32) or ``real``. A functor that ``rounds``
    also receives a function that rounds to the tensor's type, as c10::Half's operators do. Numbers,
    and CPU tensors without dimensions, reach it without dimensions, tensors with at least one.
    """

    computes: Compute
    narrow: bool = True
    result: str = "same"
    ulps: float = 0.0
    zero_sign: bool = True
    rounds: bool = False
    scale: Compute | None = None  # of whose spacing the distance is a multiple


def common_type(operands: Sequence[Operand]) -> str:
    """Return the type to which operands are promoted (ATen/native/TypeProperties.cpp: result_type).

    Tensors with dimensions decide before tensors without, and those before numbers, unless a later
    kind has a higher category.
    """
    kinds: list[str | None] = [None, None, None]
    for operand in operands:
        place = 2 if operand.kind == "number" else 0 if operand.values.ndim else 1
        previous = kinds[place]
        kinds[place] = operand.dtype if previous is None else promote(previous, operand.dtype)
    chosen: str | None = None
    order = ("bool", "integer", "float", "complex")
    for place, kind in enumerate(kinds):
        if kind is None:
            continue
        if chosen is None:
            chosen = kind if place < 2 else _default(kind)
        elif order.index(category(kind)) > order.index(category(chosen)):
            chosen = _default(kind) if place == 2 else kind
    assert chosen is not None
    return chosen


def _default(dtype: str) -> str:
    return {"float64": "float32", "complex128": "complex64"}.get(dtype, dtype)


def load(operand: Operand, common: str, functor: Functor) -> Array:
    """Convert an operand as CUDA's loop does before it calls the functor."""
    if operand.is_scalar and not functor.narrow:
        return cast(operand.values, opmath(common))
    return cast(cast(operand.values, common), opmath(common))


def expect(functor: Functor, operands: Sequence[Operand]) -> Expected:
    """Compute what a functor gives for operands, rounded as CUDA rounds it."""
    common = common_type(operands)
    if functor.result == "float" and common not in (*FLOATS, *COMPLEXES):
        common = "float32"
    target = {"bool": "bool", "real": _real(common)}.get(functor.result, common)
    with np.errstate(all="ignore"):
        loaded = [load(operand, common, functor) for operand in operands]
        if any(operand.values.ndim for operand in operands):
            loaded = [_spread(*pair) for pair in zip(operands, loaded, strict=True)]
        if functor.rounds:
            computed = functor.computes(lambda values: _round(values, common, common), *loaded)
        else:
            computed = functor.computes(*loaded)
        several = computed if isinstance(computed, tuple) else (computed,)
        choices = tuple(cast(_round(values, target, common), target) for values in several)
        if functor.ulps and is_float(target):
            exact = np.asarray(several[0])
            size = np.asarray(functor.scale(*loaded)) if functor.scale else exact
            reach = functor.ulps * spacing(size, opmath(common))
            finite = np.isfinite(exact) & ((exact != 0) | (functor.scale is not None))
            low = np.where(finite, exact - reach, np.nan)
            high = np.where(finite, exact + reach, np.nan)
            return Expected(
                target,
                choices,
                cast(_round(low, target, common), target),
                cast(_round(high, target, common), target),
                zero_sign=functor.zero_sign,
            )
    relative = 1e-5 if target == "complex64" else 1e-13 if target == "complex128" else 0.0
    return Expected(target, choices, zero_sign=functor.zero_sign, relative=relative)


def _spread(operand: Operand, values: Array) -> Array:
    """Give tensors on the device a dimension, so that a functor distinguishes them from numbers."""
    return values if operand.is_scalar else np.atleast_1d(values)


def _round(values: Array, target: str, common: str) -> Array:
    wide = opmath(common)
    rounded = cast(cast(values, wide) if is_float(target) else values, target)
    return rounded.astype(wide) if target == common and rounded.dtype.kind == "f" else rounded


def _real(dtype: str) -> str:
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


def unary(functor: Functor, call: str) -> Callable[[Row, str], Iterator[Case]]:
    """Make cases of one tensor: special values, no element, and no dimension."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        values = special_values(dtype)
        forms = {"special": values, "empty": values[:0], "0-dim": np.asarray(values[-2])}
        for label, elements in forms.items():
            operands = (Operand(elements, dtype),)
            yield Case(call, operands, (expect(functor, operands),), label=f"{dtype} {label}")

    return make


def pairs(dtype: str, second: str | None = None) -> tuple[Array, Array]:
    """Return each special value of a type with each of another."""
    values, partners = special_values(dtype), special_values(second or dtype)
    return np.repeat(values, len(partners)), np.tile(partners, len(values))


@dataclass(frozen=True)
class _Binary:
    """The cases of an operator with two operands; `binary` documents the fields."""

    functor: Functor
    call: str
    valid: Callable[[Array, Array], Array] | None
    numbers: bool
    zero_dim: bool
    reverse: str
    inplace: str
    chosen: tuple[float | int | bool, ...]
    tensors: bool

    def __call__(self, row: Row, dtype: str) -> Iterator[Case]:
        values = special_values(dtype)
        yield from self._of_tensors(dtype)
        if self.numbers:
            yield from self._of_numbers(dtype, values)
        if self.zero_dim and dtype in _SECOND and "float64" in row.accepts:
            yield from self._of_zero_dim(dtype, values)

    def _case(self, text: str, label: str, *operands: Operand) -> Case:
        return Case(text, operands, (expect(self.functor, operands),), label=label)

    def _usable(self, first: Array, second: Array) -> tuple[Array, Array]:
        if self.valid is None:
            return first, second
        keep = self.valid(first, np.broadcast_to(second, first.shape))
        return first[keep], second[keep] if second.ndim else second

    def _of_tensors(self, dtype: str) -> Iterator[Case]:
        first, second = self._usable(*pairs(dtype))
        operands = Operand(first, dtype), Operand(second, dtype)
        empty_operands = [Operand(first[:0], dtype), Operand(second[:0], dtype)]
        if self.tensors:
            yield self._case(self.call, f"{dtype} tensors", *operands)
            yield self._case(self.call, f"{dtype} empty", *empty_operands)
        if self.inplace:
            yield self._case(self.inplace, f"{dtype} in place", *operands)

    def _of_numbers(self, dtype: str, values: Array) -> Iterator[Case]:
        for number in self.chosen or _numbers(dtype):
            operand = _number(number)
            common = common_type([Operand(values, dtype), operand])
            usable_values, _ = self._usable(values, cast(operand.values, common))
            label = f"{dtype} number {number}"
            yield self._case(self.call, label, Operand(usable_values, dtype), operand)
            if self.reverse:
                label = f"number {number} {dtype}"
                yield self._case(self.reverse, label, operand, Operand(values, dtype))

    def _of_zero_dim(self, dtype: str, values: Array) -> Iterator[Case]:
        wide = _SECOND[dtype]
        kinds: tuple[Kind, ...] = ("tensor", "cpu")
        for value, kind in itertools.product((1.7, 0.1), kinds):
            operand = Operand(np.asarray(value, dtype=wide), wide, kind)
            label = f"{dtype} 0-dim {wide} {kind}"
            yield self._case(self.call, label, Operand(values, dtype), operand)
            if self.inplace and kind == "tensor":
                first = Operand(values, dtype)
                yield self._case(self.inplace, f"{label} in place", first, operand)


def binary(
    functor: Functor,
    call: str,
    *,
    valid: Callable[[Array, Array], Array] | None = None,
    numbers: bool = True,
    zero_dim: bool = True,
    reverse: str = "",
    inplace: str = "",
    chosen: tuple[float | int | bool, ...] = (),
    tensors: bool = True,
) -> Callable[[Row, str], Iterator[Case]]:
    """Make cases of two operands: tensors, numbers and tensors without dimensions.

    ``valid`` selects the pairs that the rule defines; ``reverse`` is a call whose first operand is
    the number; ``inplace`` a call that writes into the first. ``chosen`` replaces the numbers.
    """
    return _Binary(functor, call, valid, numbers, zero_dim, reverse, inplace, chosen, tensors)


def _numbers(dtype: str) -> tuple[float | int | bool, ...]:
    if is_float(dtype):
        return (*NUMBERS["float"], *NUMBERS["integer"])
    return NUMBERS.get(category(dtype), ())


def _number(value: float | bool) -> Operand:
    name = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float64"
    return Operand(np.asarray(value, dtype=name), name, "number")
