"""``linear`` sums as LLVM text: one lane's value as a scalar, and tests for wrapping lanes."""

from collections.abc import Iterable

from vgpu_sim.exec.jit.ir.ssa import Value
from vgpu_sim.exec.jit.shapes.linear import Base, Extended, Linear, Product, Shared
from vgpu_sim.exec.jit.text.writer import constant, integer
from vgpu_sim.exec.jit.values.environment import Form, Values


def is_readable_sum(values: Values, a: Linear) -> bool:
    """Return whether all shared values of a sum are available here."""
    return has_available_bases(values, a.values_shared())


def has_available_bases(values: Values, shared: Iterable[Value]) -> bool:
    """Return whether the bases of all values in ``shared`` are available at this point of the text.

    Bases that are defined in a conditional region are unavailable after it.
    """
    for value in shared:
        form = values.form_of(value)
        if form is not None and (form is not Form.BASE or value not in values.held):
            return False
        if values.shape(value, value.bits) != values.analysis.shapes[value]:
            return False
    return True


def of_lane(values: Values, a: Linear, lane: int, *, without: Shared | None = None) -> str:
    """Return the value that the sum ``a`` has in one lane of the group, but leave out two of its
    terms: the constant term, and the term of the shared value ``without``.
    """
    text, scalar = values.text, integer(a.bits)
    total = ""
    for shared, factors in sorted(a.terms, key=lambda term: len(set(term[1]))):
        if shared == without or not factors[lane]:
            continue
        total = _plus(values, total, _times(values, shared, factors[lane]), scalar)
    return total or text.const(0, scalar, False)


def sum_wraps_around(values: Values, a: Linear, lanes: list[int], *, is_signed: bool) -> str:
    """Return whether the 64-bit sum ``a`` may exceed the range of a 32-bit integer in some of
    ``lanes``.
    """
    text = values.text
    ends = ["", ""]
    for shared, factors in a.terms:
        lowest, highest = min(factors[n] for n in lanes), max(factors[n] for n in lanes)
        parts = [_times(values, shared, lowest)]
        if lowest != highest:
            high_product = _times(values, shared, highest)
            parts = [
                text.intrinsic(how, "i64", False, parts[0], high_product)
                for how in ("smin", "smax")
            ]
        ends = [
            _plus(values, end, part, "i64")
            for end, part in zip(ends, (parts[0], parts[-1]), strict=True)
        ]
    start = (1 << 31) if is_signed else 0
    flags = []
    for end, own in zip(ends, (min, max), strict=True):
        away = own(a.own[n] for n in lanes) + start
        moved = _plus(values, end, constant(away, "i64"), "i64")
        flags.append(text.let(f"icmp ugt i64 {moved}, {(1 << 32) - 1}"))
    return text.let(f"or i1 {flags[0]}, {flags[1]}")


def _plus(values: Values, total: str, part: str, scalar: str) -> str:
    return values.text.let(f"add {scalar} {total}, {part}") if total else part


def _times(values: Values, shared: Shared, factor: int) -> str:
    text, scalar = values.text, integer(shared.bits)
    name = shared_value(values, shared)
    return name if factor == 1 else text.let(f"mul {scalar} {name}, {constant(factor, scalar)}")


def shared_value(values: Values, shared: Shared) -> str:
    """Return the LLVM value of ``shared``, which occurs in a sum and is the same in all lanes."""
    text = values.text
    match shared:
        case Base(value):
            return values.read(value, integer(value.bits), Form.BASE, 0)
        case Product(a, b):
            names = (shared_value(values, a), shared_value(values, b))
            return text.let(f"mul {integer(shared.bits)} {names[0]}, {names[1]}")
        case Extended(narrow, is_signed):
            name = shared_value(values, narrow)
            return text.let(f"{'sext' if is_signed else 'zext'} i32 {name} to i64")
