"""Floats of 4 and 6 bits as floats of 8 bits, times a power of two.

The bits of an E2M1, E2M3 or E3M2 number, put in place of the same bits of an E4M3 or E5M2 number,
are that number times a power of two, which only depends on the two formats' biases: subnormal
numbers become subnormal ones. The product of such numbers is multiplied by the inverse power.
"""

from typing import Final

from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.isa import DataType, Literal, Op, Operand, Register
from vgpu_sim.records import dataclass

D = DataType
SMALL: Final = ("e3m2", "e2m3", "e2m1")
FORMATS: Final = ("e4m3", "e5m2", *SMALL)
_BYTES: Final = 0x0101_0101
_SIGN: Final = 0x80
_BIAS: Final = {"e4m3": 7, "e5m2": 15, "e2m1": 1, "e2m3": 1, "e3m2": 3}


@dataclass(frozen=True, slots=True)
class _Placement:
    """How far the magnitude's bits in a byte move to the left, and where they are then."""

    left: int
    mask: int


_PLACES: Final = {
    ("e3m2", "e4m3"): _Placement(1, 0x3E),
    ("e2m3", "e4m3"): _Placement(0, 0x1F),
    ("e2m1", "e4m3"): _Placement(0, 0x1C),
    ("e3m2", "e5m2"): _Placement(0, 0x1F),
    ("e2m1", "e5m2"): _Placement(-1, 0x0E),
}
"""PTX holds 6 bits in the lower bits of a byte, and 4 bits in the bits 2 to 5."""


def common_formats(a: str, b: str) -> tuple[str, str]:
    """Return the 8-bit formats as which factors of the formats ``a`` and ``b`` are multiplied.

    They are equal unless one factor is E5M2 and the other has three fraction bits.
    """
    if "e5m2" not in (a, b):
        return "e4m3", "e4m3"
    if a in ("e4m3", "e2m3"):
        return "e4m3", "e5m2"
    if b in ("e4m3", "e2m3"):
        return "e5m2", "e4m3"
    return "e5m2", "e5m2"


def exponent(kind: str, to: str) -> int:
    """Return n: a ``kind`` that ``place_in_bytes`` has placed in ``to`` is times 2^n."""
    return _BIAS[kind] - _BIAS[to]


def place_in_bytes(sequence: Sequence, register: Operand, kind: str, to: str) -> Operand:
    """Return a register of four ``kind``, each in its byte, as four numbers of format ``to``."""
    if kind == to:
        return register
    place = _PLACES[kind, to]
    moved = _shift(sequence, register, place.left)
    magnitude = sequence.emit(Op.AND, D.B32, moved, Literal(place.mask * _BYTES))
    return _add_signs(sequence, magnitude, _shift(sequence, register, 2))


def _shift(sequence: Sequence, value: Operand, left: int) -> Operand:
    if left == 0:
        return value
    if left > 0:
        return sequence.emit(Op.SHL, D.B32, value, Literal(left))
    return sequence.emit(Op.SHR, D.U32, value, Literal(-left))


def _add_signs(sequence: Sequence, magnitude: Register, moved: Operand) -> Register:
    signs = sequence.emit(Op.AND, D.B32, moved, Literal(_SIGN * _BYTES))
    return sequence.emit(Op.OR, D.B32, magnitude, signs)
