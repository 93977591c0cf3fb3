"""Conversion between bit patterns and Python numbers.

Written from the definitions; it shares no code with the simulator.
"""

import numpy as np

_FORMATS = {"f16": np.dtype("<f2"), "f32": np.dtype("<f4"), "f64": np.dtype("<f8")}


def bits_of(type_: str) -> int:
    return int(type_.lstrip("abcdefghijklmnopqrstuvwxyz"))


def as_integer(pattern: int, type_: str) -> int:
    """Read a pattern as a number of an integer type."""
    bits = bits_of(type_)
    pattern &= (1 << bits) - 1
    return pattern - (1 << bits) if type_[0] == "s" and pattern >> (bits - 1) else pattern


def as_float(pattern: int, type_: str) -> float:
    """Read a pattern as a float; Python's hold every binary16, 32 and 64 exactly."""
    size = bits_of(type_) // 8
    data = (pattern & ((1 << size * 8) - 1)).to_bytes(size, "little")
    return float(np.frombuffer(data, _FORMATS[type_])[0])


def float_pattern(value: float, type_: str) -> int:
    """Return the pattern of a float that the format holds (or rounds it to nearest)."""
    with np.errstate(all="ignore"):
        data = np.array([value]).astype(_FORMATS[type_]).tobytes()
    return int.from_bytes(data, "little")


def flush(pattern: int) -> int:
    """Replace a subnormal binary32 number by a zero of its sign."""
    return pattern & 0x8000_0000 if pattern & 0x7F80_0000 == 0 else pattern
