"""Arithmetic on ``linear`` sums, and the runs of contiguous lanes in them."""

from vgpu_sim.exec.jit.ir.ssa import Value
from vgpu_sim.exec.jit.shapes.lane_shapes import to_signed
from vgpu_sim.exec.jit.shapes.linear import Base, Extended, Lanes, Linear, Product, Shared

_MOST_TERMS = 6
_MOST_FACTOR = 1 << 24


def from_constants(bits: int, lanes: Lanes) -> Linear:
    """Return a linear sum that has only constant terms."""
    return Linear(bits, (), tuple(to_signed(number, bits) for number in lanes))


def affine(value: Value, away: Lanes) -> Linear:
    """Return a linear sum that is, in each lane, the base of ``value`` plus the lane's constant in
    ``away``.
    """
    return Linear(value.bits, ((Base(value), (1,) * len(away)),), away)


def add(a: Linear | None, b: Linear | None, sign: int = 1) -> Linear | None:
    """Return the linear sum ``a + sign * b``.

    Return None if an operand is None, or if their widths differ.
    """
    if a is None or b is None or a.bits != b.bits:
        return None
    terms = dict(a.terms)
    zeros = (0,) * len(a.own)
    for shared, factors in b.terms:
        earlier_factors = terms.get(shared, zeros)
        terms[shared] = tuple(x + sign * y for x, y in zip(earlier_factors, factors, strict=True))
    own = tuple(x + sign * y for x, y in zip(a.own, b.own, strict=True))
    return _normal(a.bits, terms, own)


def multiply(a: Linear | None, b: Linear | None) -> Linear | None:
    """Return the linear sum ``a * b``.

    Return None if an operand is None, if the widths of the operands differ, or if the sum is too
    large. At least one operand must be a constant in each lane, or a single shared value;
    otherwise, return None too.
    """
    for x, y in ((a, b), (b, a)):
        if x is None or y is None or x.bits != y.bits:
            return None
        if not y.terms:
            return _normal(x.bits, {s: _times(f, y.own) for s, f in x.terms}, _times(x.own, y.own))
        (shared, factors), *other_terms = y.terms
        if other_terms or set(factors) != {1} or any(y.own):
            continue
        terms: dict[Shared, Lanes] = {Product(s, shared): f for s, f in x.terms}
        terms[shared] = x.own
        return _normal(x.bits, terms, (0,) * len(x.own))
    return None


def scale(a: Linear | None, factor: int) -> Linear | None:
    """Return the linear sum ``a * factor``; None if ``a`` is None."""
    return None if a is None else multiply(a, from_constants(a.bits, (factor,) * len(a.own)))


def widen(a: Linear | None, bits: int, *, is_signed: bool) -> Linear | None:
    """Return the sum ``a`` extended to ``bits``. The caller ensures that no lane's sum overflows
    its type (see ``magnitude_bound``).
    """
    if a is None or a.bits != 32 or bits != 64:
        return None
    return Linear(bits, tuple((Extended(s, is_signed), f) for s, f in a.terms), a.own)


def magnitude_bound(a: Linear, lanes: list[int]) -> int:
    """Return an upper bound on the magnitude that a sum has in any of these lanes. The bound is
    useful only if all shared values are ``Extended``.
    """
    total = max(abs(a.own[n]) for n in lanes)
    for shared, factors in a.terms:
        total += max(abs(factors[n]) for n in lanes) << _size(shared)
    return total


def _size(shared: Shared) -> int:
    """Return the maximum bit width of a shared value's magnitude."""
    if isinstance(shared, Extended):
        return 31 if shared.is_signed else 32
    return 64


def runs(a: Linear, first: int, width: int, lanes: list[int], step: int) -> list[tuple[int, int]]:
    """Split ``lanes`` into runs in which the sum grows by ``step`` from lane to lane.

    ``lanes`` are lanes of the vector that starts at lane ``first`` of the group. Return the first
    and last lane of each run, relative to the vector.
    """
    lane_runs: list[tuple[int, int]] = []
    factors = [f for _, f in a.terms]
    for lane in lanes:
        position = first + lane
        if lane_runs:
            start = first + lane_runs[-1][0]
            together = lane_runs[-1][1] == lane - 1
            together &= a.own[position] - a.own[start] == (position - start) * step
            if together and all(f[position] == f[start] for f in factors):
                lane_runs[-1] = (lane_runs[-1][0], lane)
                continue
        lane_runs.append((lane, lane))
    return lane_runs


def _times(a: Lanes, b: Lanes) -> Lanes:
    return tuple(x * y for x, y in zip(a, b, strict=True))


def _normal(bits: int, terms: dict[Shared, Lanes], own: Lanes) -> Linear | None:
    nonzero_terms: list[tuple[Shared, Lanes]] = []
    for shared, factors in terms.items():
        exact = tuple(to_signed(number, bits) for number in factors)
        if any(exact):
            if max(map(abs, exact)) > _MOST_FACTOR:
                return None
            nonzero_terms.append((shared, exact))
    if len(nonzero_terms) > _MOST_TERMS:
        return None
    return Linear(bits, tuple(nonzero_terms), tuple(to_signed(number, bits) for number in own))
