"""Conversions between scalar types that have one result on every back end.

A float becomes an integer by saturation; an integer of more than 64 bits is truncated before it
becomes a float. No step rounds where machines may round twice: a ``half`` is made from a
``float``, or from an integer that ``float`` represents exactly. The bits of a NaN are undefined, so
it is replaced before a number's bits are used.
"""

from support.fuzzers.random_ir import scalars
from support.fuzzers.random_ir.frames import Frame

_ORDER = list(scalars.FLOATS)
_NAN_BITS = 77


def convert(frame: Frame, kind: str, value: str, to: str) -> str:
    """Return ``value`` as the type ``to``."""
    if kind == to:
        return value
    if scalars.is_integer(kind):
        make = _integer_to_integer if scalars.is_integer(to) else _integer_to_number
    else:
        make = _number_to_integer if scalars.is_integer(to) else _number_to_number
    return make(frame, kind, value, to)


def as_i64(frame: Frame, kind: str, value: str) -> str:
    """Return 64 bits that depend on all bits of a scalar; they are the same for any NaN."""
    width = scalars.bits(kind)
    if kind in scalars.FLOATS:
        value, kind = plain_bits(frame, kind, value), f"i{width}"
    if width == 64:
        return value
    if width < 64:
        return frame.value(f"{frame.dice.pick(('zext', 'sext'))} {kind} {value} to i64")
    low = frame.value(f"trunc {kind} {value} to i64")
    shifted = frame.value(f"lshr {kind} {value}, 64")
    return frame.value(f"xor i64 {low}, {frame.value(f'trunc {kind} {shifted} to i64')}")


def plain_bits(frame: Frame, kind: str, value: str) -> str:
    """Return a number's bits as an integer of its width, always the same ones for a NaN."""
    width = scalars.bits(kind)
    raw = frame.value(f"bitcast {kind} {value} to i{width}")
    nan = frame.value(f"fcmp uno {kind} {value}, {value}")
    return frame.value(f"select i1 {nan}, i{width} {_NAN_BITS}, i{width} {raw}")


def _integer_to_integer(frame: Frame, kind: str, value: str, to: str) -> str:
    if scalars.bits(kind) > scalars.bits(to):
        return frame.value(f"trunc {kind} {value} to {to}")
    return frame.value(f"{frame.dice.pick(('zext', 'sext'))} {kind} {value} to {to}")


def _integer_to_number(frame: Frame, kind: str, value: str, to: str) -> str:
    widest = 16 if to == "half" else 64
    if scalars.bits(kind) > widest:
        value, kind = frame.value(f"trunc {kind} {value} to i{widest}"), f"i{widest}"
    return frame.value(f"{frame.dice.pick(('sitofp', 'uitofp'))} {kind} {value} to {to}")


def _number_to_integer(frame: Frame, kind: str, value: str, to: str) -> str:
    if kind == "half":
        value, kind = frame.value(f"fpext half {value} to float"), "float"
    by = to if to in ("i8", "i16", "i32", "i64") else "i32"
    name = f"llvm.fpto{frame.dice.pick('su')}i.sat.{by}.f{scalars.bits(kind)}"
    return convert(frame, by, frame.call(by, name, (kind, value)), to)


def _number_to_number(frame: Frame, kind: str, value: str, to: str) -> str:
    if _ORDER.index(kind) < _ORDER.index(to):
        return frame.value(f"fpext {kind} {value} to {to}")
    if (kind, to) == ("double", "half"):
        value, kind = frame.value(f"fptrunc double {value} to float"), "float"
    return frame.value(f"fptrunc {kind} {value} to {to}")
