"""The scalar types of random LLVM IR, and constants of each that often reveal defects."""

from support.kernels.random_kernels.dice import Dice

FLOATS = {"half": 16, "float": 32, "double": 64}
_EDGES: tuple[int, ...] = (
    0,
    1,
    2,
    3,
    7,
    8,
    15,
    16,
    31,
    32,
    63,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    65536,
)
_EDGES += tuple(value for bit in (31, 32, 63, 64) for value in ((1 << bit) - 1, 1 << bit))
_EDGES += (0xDEADBEEF, 0x0123456789ABCDEF)
# The bits of numbers: zeros, the smallest, the largest, and some between.
_NUMBERS = {
    "half": "0xH0000 0xH8000 0xH0001 0xH3C00 0xHBC00 0xH7BFF 0xH4248 0xHC500 0xH2E66",
    "float": "0.0 -0.0 1.0 -1.5 2.5 1024.0 0x36A0000000000000 0x47EFFFFFE0000000 0x3FB99999A0000000",
    "double": "0.0 -0.0 1.0 -1.5 2.5 1.0e10 0x1 1.0e300 0x3FB999999999999A",
}


def is_integer(kind: str) -> bool:
    """Return whether a scalar type is an integer."""
    return kind not in FLOATS


def bits(kind: str) -> int:
    """Return the width of a scalar type in bits."""
    return FLOATS[kind] if kind in FLOATS else int(kind[1:])


def constant(dice: Dice, kind: str) -> str:
    """Return a constant of a scalar type, as LLVM spells it."""
    if not is_integer(kind):
        return dice.pick(_NUMBERS[kind].split())
    width = bits(kind)
    value = dice.pick(_EDGES) if dice.percent(70) else dice.bits(64) << 64 | dice.bits(64)
    value &= (1 << width) - 1
    return ("false", "true")[value] if width == 1 else str(value)
