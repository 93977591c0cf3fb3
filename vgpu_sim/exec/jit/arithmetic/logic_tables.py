"""LOP3: three-operand logic by an 8-bit truth table, as few AND, OR and XOR operations as needed.

Bit ``4a + 2b + c`` of a table is the result for bits a, b and c. One operand is chosen as the
pivot: the result is one two-operand function where the pivot is one, and another where it is
zero.
"""

from collections.abc import Sequence
from functools import partial

from vgpu_sim.exec.jit.arithmetic.words import Words

_ALL, _X, _Y = 0b1111, 0b1100, 0b1010  # two-operand tables: bit 2x + y
_ROWS = ((4, 5, 6, 7), (2, 3, 6, 7), (1, 3, 5, 7))  # the rows in which the pivot a, b or c is one
_OPERATIONS = {_X & _Y: "and", _X | _Y: "or", _X ^ _Y: "xor"}


def emit_constant_table(words: Words, inputs: Sequence[str], table: int) -> str:
    """Emit the logic function of three inputs that has the truth table ``table``; return the
    result.
    """
    pivot = min(range(3), key=lambda place: _cost(*_halves(table, place)))
    high, low = _halves(table, pivot)
    p = inputs[pivot]
    x, y = (value for place, value in enumerate(inputs) if place != pivot)
    yes, no = (partial(_two, words, x, y, half) for half in (high, low))
    if high == low:
        return yes()
    if high == low ^ _ALL:
        return words.op("xor", p, no())
    if low == 0:
        return words.op("and", p, yes())
    if high == 0:
        return words.op("and", words.inverse(p), no())
    if high == _ALL:
        return words.op("or", p, no())
    if low == _ALL:
        return words.op("or", words.inverse(p), yes())
    chosen = words.op("and", p, yes())
    return words.op("or", chosen, words.op("and", words.inverse(p), no()))


def emit_runtime_table(words: Words, inputs: Sequence[str], table: str) -> str:
    """Emit a logic function of three inputs whose truth table is known only at run time; return
    the result.
    """
    value = words.const(0)
    for row in range(8):
        top = words.op("shl", table, words.const(31 - row))
        entry = words.op("ashr", top, words.const(31))
        for place, source in enumerate(inputs):
            literal = source if row in _ROWS[place] else words.inverse(source)
            entry = words.op("and", entry, literal)
        value = words.op("or", value, entry)
    return value


def _halves(table: int, pivot: int) -> tuple[int, int]:
    """Return the two-operand tables for pivot one and pivot zero."""
    true_rows = [row for row in range(8) if row in _ROWS[pivot]]
    zeros = [row for row in range(8) if row not in _ROWS[pivot]]
    high, low = (
        sum((table >> row & 1) << i for i, row in enumerate(rows)) for rows in (true_rows, zeros)
    )
    return high, low


def _cost(high: int, low: int) -> int:
    if high == low:
        return _cost_of_two(high)
    if high == low ^ _ALL:
        return 1 + _cost_of_two(low)
    if {high, low} & {0, _ALL}:
        return 1 + _cost_of_two(high) + _cost_of_two(low)
    return 3 + _cost_of_two(high) + _cost_of_two(low)


def _cost_of_two(table: int) -> int:
    if table in (0, _ALL, _X, _Y):
        return 0
    return 1 if table in _OPERATIONS or table ^ _ALL in (_X, _Y) else 2


def _two(words: Words, x: str, y: str, table: int) -> str:
    known = {0: words.const(0), _ALL: words.const(-1), _X: x, _Y: y}
    if table in known:
        return known[table]
    if table in _OPERATIONS:
        return words.op(_OPERATIONS[table], x, y)
    if table ^ _ALL in (_X, _Y, *_OPERATIONS):
        return words.inverse(_two(words, x, y, table ^ _ALL))
    # the remaining functions: AND or OR with one operand inverted
    operation = "and" if table in (_X & ~_Y, ~_X & _Y & _ALL) else "or"
    if table in (_X & ~_Y, _X | (~_Y & _ALL)):
        return words.op(operation, x, words.inverse(y))
    return words.op(operation, words.inverse(x), y)
