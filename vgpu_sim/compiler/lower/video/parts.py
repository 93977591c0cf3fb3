"""The parts of a word that an operand of a video instruction selects: ``r.b2``, ``r.h10``,
``r.b7654``.

Source: PTX ISA, "Scalar Video Instructions" and "SIMD Video Instructions".
"""

import re
from dataclasses import replace

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import grammar, tree
from vgpu_sim.isa import DataType, Operand, Register

_SCALAR = {f"b{i}": (8 * i, 8) for i in range(4)} | {f"h{i}": (16 * i, 16) for i in range(2)}


def _split(operand: tree.Operand) -> tuple[tree.Operand, str]:
    """Split an operand into the operand without its selector, and the selector."""
    if not isinstance(operand, tree.Name) or grammar.is_special(operand.text):
        return operand, ""
    if operand.component:
        return replace(operand, component=""), operand.component
    return operand, ""


def scalar_source(context: Context, operand: tree.Operand) -> tuple[Operand, int, int]:
    """Return a source operand, and the first bit and the number of bits of its selected part.

    Raises:
        Invalid: the operand's selector does not select a byte or half of a register.
    """
    plain, selector = _split(operand)
    first, bits = _scalar(selector)
    return values.source(context, plain, DataType.B32), first, bits


def scalar_destination(context: Context, operand: tree.Operand) -> tuple[Register, int, int]:
    """Return a destination, and the first bit and the number of bits of its selected part.

    Without a selector, these are the 32 bits of the whole register. Raises as ``scalar_source``.
    """
    plain, selector = _split(operand)
    first, bits = _scalar(selector)
    return values.destination(context, plain, DataType.B32), first, bits


def _scalar(selector: str) -> tuple[int, int]:
    if selector and selector not in _SCALAR:
        raise Invalid(f"'.{selector}' does not select a byte or half of a register")
    return _SCALAR.get(selector, (0, 32))


def packed_source(
    context: Context, operand: tree.Operand, count: int, usual: str
) -> tuple[Operand, tuple[int, ...]]:
    """Return a source operand and the indices of its selected parts, the lowest element first.

    An index denotes a part of the concatenated operands a and b. ``count`` is the number of
    selected parts, 2 or 4. If the operand has no selector, ``usual`` applies: it has the digits
    of the default selector.

    Raises:
        Invalid: the selector is invalid.
    """
    plain, selector = _split(operand)
    letter = "h" if count == 2 else "b"
    if selector and not re.fullmatch(f"{letter}[0-{2 * count - 1}]{{{count}}}", selector):
        raise Invalid(f"'.{selector}' does not select {count} parts")
    digits = selector[1:] or usual
    return values.source(context, plain, DataType.B32), tuple(map(int, reversed(digits)))


def packed_destination(
    context: Context, operand: tree.Operand, count: int
) -> tuple[Register, tuple[int, ...]]:
    """Return a destination, and the indices of the elements that its mask selects, lowest first.

    Raises:
        Invalid: the mask is invalid.
    """
    plain, mask = _split(operand)
    letter = "h" if count == 2 else "b"
    everything = "".join(str(place) for place in reversed(range(count)))
    digits = mask[1:] or everything
    falling = "".join(sorted(set(digits), reverse=True)) == digits
    if mask and not (mask[0] == letter and falling and set(digits) <= set(everything)):
        raise Invalid(f"'.{mask}' is not a mask of {count} parts")
    return values.destination(context, plain, DataType.B32), tuple(map(int, reversed(digits)))
