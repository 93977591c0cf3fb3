"""Vector division: quotients for which a float with too few bits would be wrong."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from support.execution.both_backends import compare
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.exec.jit import Plan

_THREADS, _BLOCKS = 256, 8
_COUNT = _THREADS * _BLOCKS
_PLANS = (Plan(16, 2), Plan(8, 1, tier=0), Plan(1, 2))


def _pairs(bits: int) -> list[tuple[int, int]]:
    """Return dividends around multiples of divisors of every length, and the extremes."""
    dice, top = random.Random(bits), 1 << bits
    edges = [0, 1, 2, 3, top - 1, top - 2, top // 2, top // 2 - 1, top // 2 + 1]
    edges += [(1 << bits // 2) + k for k in (-1, 0, 1)]
    found = list(itertools.product(edges, edges))
    while len(found) < _COUNT:
        divisor = dice.getrandbits(dice.randint(1, bits)) or 1
        quotient = dice.getrandbits(dice.randint(1, bits)) % (top // divisor)
        found.append(((divisor * quotient + dice.choice((-1, 0, 1))) % top, divisor))
    return found


def _expected_quotients(a: int, b: int, bits: int, is_signed: bool) -> tuple[int, int]:
    top = 1 << bits
    if is_signed:
        a, b = (v - top if v >= top // 2 else v for v in (a, b))
    if b == 0:
        return top - 1, top - 1  # as measured on an H100
    quotient = math.trunc(Fraction(a, b))
    return quotient % top, (a - b * quotient) % top


@pytest.mark.parametrize("constant", [0, 7, 10, -3, 0x10001], ids="by{}".format)
@pytest.mark.parametrize("type_", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_quotients_and_remainders(type_: str, constant: int) -> None:
    bits, size = int(type_[1:]), int(type_[1:]) // 8
    pairs = _pairs(bits)
    by = f"{constant % (1 << bits):#x}" if constant else "%b"
    body = f"""mov.u32 %i, %ctaid.x; mov.u32 %j, %tid.x;
        mad.lo.u32 %i, %i, {_THREADS}, %j;
        ld.param.u64 %p, [in]; mad.wide.u32 %p, %i, {size}, %p;
        ld.global.u{bits} %a, [%p]; ld.global.u{bits} %b, [%p+{size * _COUNT}];
        div.{type_} %q, %a, {by}; rem.{type_} %r, %a, {by};
        ld.param.u64 %p, [out]; mad.wide.u32 %p, %i, {size}, %p;
        st.global.u{bits} [%p], %q; st.global.u{bits} [%p+{size * _COUNT}], %r;"""
    registers = f".reg .b{bits} %a, %b, %q, %r; .reg .b32 %i, %j; .reg .b64 %p;"
    parameters = ".param .u64 in, .param .u64 out"
    module = compile_verified(kernel(body, parameters, registers=registers))
    given = np.array([a for a, _ in pairs] + [b for _, b in pairs], f"<u{size}").tobytes()
    out = bytes(2 * size * _COUNT)
    results = compare(module, [given, out], (_BLOCKS, 1, 1), (_THREADS, 1, 1), _PLANS)
    got = np.frombuffer(results[1], f"<u{size}").reshape(2, -1)
    for place, (a, b) in enumerate(pairs):
        divisor = constant % (1 << bits) if constant else b
        want = _expected_quotients(a, divisor, bits, type_[0] == "s")
        assert (int(got[0][place]), int(got[1][place])) == want, (hex(a), hex(divisor))
