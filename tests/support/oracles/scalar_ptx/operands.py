"""The places of operands: each register, constant and address has an index in a thread's list."""

from collections.abc import Callable

from support.oracles.scalar_ptx import calls, numbers
from support.oracles.scalar_ptx.text import Kernel, Number, Operand, SyntaxFault
from support.oracles.scalar_ptx.threads import SPECIALS

Step = Callable[[list[int]], int | None]
"""The effect of a statement on a thread's registers; returns the next statement, None: the
following.
"""
STOP = -1  # returned by a step at which its thread waits


class Operands:
    """The operands of one kernel or function. ``symbols`` are the addresses of variables."""

    def __init__(self, kernel: Kernel, symbols: dict[str, int]) -> None:
        self._kernel = kernel
        self._symbols = symbols
        self._initial = [0] * (len(kernel.registers) + len(SPECIALS) + 1)
        self._carry = len(self._initial) - 1
        self._index = {name: i for i, name in enumerate((*kernel.registers, *SPECIALS))}
        self._width = {**kernel.registers, **dict.fromkeys(SPECIALS, 32)}
        self._constants: dict[int, int] = {}

    def _constant(self, value: int) -> int:
        if value not in self._constants:
            self._constants[value] = len(self._initial)
            self._initial.append(value)
        return self._constants[value]

    def _predicate(self, operand: Operand) -> int:
        if isinstance(operand, Number):
            return self._constant(int(operand.value != 0))
        if not isinstance(operand, str) or self._width.get(operand) != 1:
            raise SyntaxFault(f"{operand!r} is no predicate")
        return self._index[operand]

    def _source(self, operand: Operand, bits: int, *, wider: bool = False) -> int:
        if isinstance(operand, Number):
            if operand.float_bits not in (0, bits):
                raise SyntaxFault(f"{operand!r} as {bits} bits")
            return self._constant(operand.value & ((1 << bits) - 1))
        if isinstance(operand, str) and operand in self._kernel.shared:
            return self._constant(self._kernel.shared[operand])
        if isinstance(operand, str) and operand in self._kernel.local:
            return self._constant(self._kernel.local[operand])
        if isinstance(operand, str) and operand in self._kernel.functions:
            return self._constant(calls.number(self._kernel, operand))
        if isinstance(operand, str) and operand in self._symbols:
            return self._constant(self._symbols[operand])
        return self._target(operand, bits, wider=wider)

    def _target(self, operand: Operand, bits: int, *, wider: bool = False) -> int:
        width = self._width.get(operand, 0) if isinstance(operand, str) else 0
        if width == bits or (wider and width > bits):
            return self._index[str(operand)]
        raise SyntaxFault(f"{operand!r} as {bits} bits")

    def _extension(self, operand: Operand, bits: int, signed: bool) -> Callable[[int], int] | None:
        mask = (1 << self._width[str(operand)]) - 1
        if not signed or mask >> bits == 0:
            return None
        return lambda value: numbers.to_signed(value, bits) & mask
