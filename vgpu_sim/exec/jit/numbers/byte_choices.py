"""Evaluation of PRMT's selectors: the source byte of each byte of the result."""

from vgpu_sim.isa import Permute

_CYCLES = {  # the bytes that each mode selects, byte 0 first, for n = 0 to 3
    Permute.F4E: ("0123", "1234", "2345", "3456"),
    Permute.B4E: ("0765", "1076", "2107", "3210"),
    Permute.RC8: ("0000", "1111", "2222", "3333"),
    Permute.ECL: ("0123", "1123", "2223", "3333"),
    Permute.ECR: ("0000", "0111", "0122", "0123"),
    Permute.RC16: ("0101", "2323", "0101", "2323"),
}


def byte_selectors(mode: Permute, selector: int) -> list[int]:
    """Return the 4-bit selector of each result byte of a PRMT in this mode.

    ``selector`` is the constant third operand of the PRMT.
    """
    if mode is Permute.NONE:
        return [selector >> 4 * place & 15 for place in range(4)]
    return [int(digit) for digit in _CYCLES[mode][selector & 3]]
