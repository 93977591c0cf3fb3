"""The test for a wrapping lane, for all 8-bit integers, strides and distances."""

import itertools
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from vgpu_sim.exec.jit.values import assumption_tests
from vgpu_sim.isa import DataType, Literal

_LANES = 4


class _Text:
    """A text writer that evaluates expressions on 8-bit integers."""

    width = _LANES

    def let(self, expression: str) -> str:
        operation, *rest = expression.replace(",", "").split()
        if operation == "add":
            return str((int(rest[-2]) + int(rest[-1])) % 256)
        relation, a, b = rest[0], int(rest[-2]) % 256, int(rest[-1]) % 256
        if relation.startswith("s"):
            a, b = (n - 256 if n > 127 else n for n in (a, b))
        return ({"sgt": a > b, "ugt": a > b}[relation] and "true") or "false"


@dataclass
class _Shape:
    stride: int


@dataclass
class _Values:
    """A value: the first lane's integer, and a stride from lane to lane."""

    number: int
    stride: int
    text: _Text = field(default_factory=_Text)

    def shape(self, source: object, bits: int) -> _Shape:
        return _Shape(self.stride)

    def read(self, source: object, type_: str, form: object, part: int) -> str:
        return str(self.number % 256)


@pytest.mark.parametrize("kind", [DataType.U8, DataType.S8])
def test_a_wrap_is_detected_exactly_where_there_is_one(kind: DataType) -> None:
    """Tested at each limit and one beyond it: a span of 255 fits one integer, one of 256 fits
    none.
    """
    least, most = (-128, 127) if kind.is_signed else (0, 255)
    strides = [-100, -86, -85, -84, -43, -2, -1, 0, 1, 2, 42, 43, 84, 85, 86, 100]
    furthers = [0, 1, 3, 4, 84, 127, 128, 254, 255, 256, 300]
    for stride, further in itertools.product(strides, furthers):
        for number in range(least, most + 1):
            reached = [number + lane * stride for lane in range(_LANES)]
            wanted = min(reached) < least or max(reached) + further > most
            found = assumption_tests.wraps_around(
                cast("Any", _Values(number, stride)), Literal(0), kind, further, 0
            )
            assert (found == "true") == wanted, (stride, further, number)
