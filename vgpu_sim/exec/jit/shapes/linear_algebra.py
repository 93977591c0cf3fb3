"""Arithmetic of ``linear`` sums, and the runs of neighbours among them."""

from vgpu_sim.exec.jit.ir.ssa import Value
from vgpu_sim.exec.jit.shapes.lane_shapes import signed
from vgpu_sim.exec.jit.shapes.linear import Base, Extended, Lanes, Linear, Product, Shared

_MOST_TERMS = 6
_MOST_FACTOR = 1 << 24


def known(bits: int, lanes: Lanes) -> Linear:
    """Return numbers that are known."""
    return Linear(bits, (), tuple(signed(number, bits) for number in lanes))


def affine(value: Value, away: Lanes) -> Linear:
    """Return known distances from a value's base."""
    return Linear(value.bits, ((Base(value), (1,) * len(away)),), away)


def add(a: Linear | None, b: Linear | None, sign: int = 1) -> Linear | None:
    """``a + sign * b``."""
    if a is None or b is None or a.bits != b.bits:
        return None
    terms = dict(a.terms)
    zeros = (0,) * len(a.own)
    for shared, factors in b.terms:
        before = terms.get(shared, zeros)
        terms[shared] = tuple(x + sign * y for x, y in zip(before, factors, strict=True))
    own = tuple(x + sign * y for x, y in zip(a.own, b.own, strict=True))
    return _normal(a.bits, terms, own)


def multiply(a: Linear | None, b: Linear | None) -> Linear | None:
    """``a * b``, where one of them is known, or what all lanes share alone."""
    for x, y in ((a, b), (b, a)):
        if x is None or y is None or x.bits != y.bits:
            return None
        if not y.terms:
            return _normal(x.bits, {s: _times(f, y.own) for s, f in x.terms}, _times(x.own, y.own))
        (shared, factors), *others = y.terms
        if others or set(factors) != {1} or any(y.own):
            continue
        terms: dict[Shared, Lanes] = {Product(s, shared): f for s, f in x.terms}
        terms[shared] = x.own
        return _normal(x.bits, terms, (0,) * len(x.own))
    return None


def scale(a: Linear | None, factor: int) -> Linear | None:
    """``a * factor``."""
    return None if a is None else multiply(a, known(a.bits, (factor,) * len(a.own)))


def widen(a: Linear | None, bits: int, *, is_signed: bool) -> Linear | None:
    """Extend to ``bits`` as far as no lane's sum leaves its type (``least_and_most`` says)."""
    if a is None or a.bits != 32 or bits != 64:
        return None
    return Linear(bits, tuple((Extended(s, is_signed), f) for s, f in a.terms), a.own)


def reach(a: Linear, lanes: list[int]) -> int:
    """Return a bound of how far any of ``lanes`` is from 0; only what was extended has one."""
    total = max(abs(a.own[n]) for n in lanes)
    for shared, factors in a.terms:
        total += max(abs(factors[n]) for n in lanes) << _size(shared)
    return total


def _size(shared: Shared) -> int:
    """Return how many bits its magnitude may have."""
    if isinstance(shared, Extended):
        return 31 if shared.is_signed else 32
    return 64


def runs(a: Linear, first: int, width: int, lanes: list[int], step: int) -> list[tuple[int, int]]:
    """Return the runs of neighbours, ``step`` apart, among ``lanes`` of the strip from lane
    ``first`` on: the first and the last of each, within the strip."""
    found: list[tuple[int, int]] = []
    factors = [f for _, f in a.terms]
    for lane in lanes:
        here = first + lane
        if found:
            start = first + found[-1][0]
            together = found[-1][1] == lane - 1
            together &= a.own[here] - a.own[start] == (here - start) * step
            if together and all(f[here] == f[start] for f in factors):
                found[-1] = (found[-1][0], lane)
                continue
        found.append((lane, lane))
    return found


def _times(a: Lanes, b: Lanes) -> Lanes:
    return tuple(x * y for x, y in zip(a, b, strict=True))


def _normal(bits: int, terms: dict[Shared, Lanes], own: Lanes) -> Linear | None:
    kept: list[tuple[Shared, Lanes]] = []
    for shared, factors in terms.items():
        exact = tuple(signed(number, bits) for number in factors)
        if any(exact):
            if max(map(abs, exact)) > _MOST_FACTOR:
                return None
            kept.append((shared, exact))
    if len(kept) > _MOST_TERMS:
        return None
    return Linear(bits, tuple(kept), tuple(signed(number, bits) for number in own))
