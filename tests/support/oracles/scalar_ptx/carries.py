"""Extended-precision arithmetic: the carry flag CC.CF is one more register of a thread.

Source: PTX ISA, "Extended-Precision Integer Arithmetic Instructions".
"""

from collections.abc import Callable

from support.oracles.scalar_ptx.numbers import to_signed
from support.oracles.scalar_ptx.text import WIDTHS


def function(words: tuple[str, ...]) -> tuple[int, Callable[..., tuple[int, int]]] | None:
    """Return the width, and a function from operands and flag to the result and the new flag.

    None if an instruction does not use the flag.
    """
    opcode, *modifiers = words
    takes, gives = opcode in ("addc", "subc", "madc"), "cc" in modifiers
    if not takes and not gives:
        return None
    bits, is_signed = WIDTHS[modifiers[-1]], modifiers[-1][0] == "s"
    mask = (1 << bits) - 1

    def compute(flag: int, *operands: int) -> tuple[int, int]:
        carry = flag if takes else 0
        if opcode.startswith("sub"):
            borrow = 1 - flag if takes else 0  # the flag is that of an adder, for a + ~b + 1
            exact = operands[0] - (operands[1] + borrow)
            out = int(exact >= 0)
        else:
            first = operands[0]
            if opcode.startswith("mad"):
                x, y = (to_signed(v, bits) if is_signed else v for v in operands[:2])
                first = x * y >> (bits if "hi" in modifiers else 0) & mask
            exact = first + operands[-1] + carry
            out = int(exact > mask)
        return exact & mask, out if gives else flag

    return bits, compute
