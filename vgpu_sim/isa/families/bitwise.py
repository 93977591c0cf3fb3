"""Instructions on bits and bytes of a register: fields, counts, searches, funnel shifts,
permutations.
"""

from typing import Final

from vgpu_sim.isa.layout import A, B, C, choice, flag
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import OpSpec, Role
from vgpu_sim.isa.types import DataType, Permute

_V, _COUNT = Role.VALUE, Role.COUNT
_FOURTH = 32
_WORD = (DataType.B32,)
_UNTYPED = (DataType.B32, DataType.B64)
_TYPED = (DataType.U32, DataType.S32, DataType.U64, DataType.S64)
_WRAP = (flag("wrap", "WRAP", 24),)


def _count(op: Op, summary: str, semantics: str, ptx: str) -> OpSpec:
    return OpSpec(op, summary, semantics, ptx, _UNTYPED, (_COUNT,), (_V,))


def _funnel(op: Op, direction: str, result: str, ptx: str) -> OpSpec:
    return OpSpec(
        op,
        f"funnel shift {direction}",
        f"The 64 bits with b above a, shifted {direction} by the unsigned count c: d = their"
        f" {result} half. A count above 32 counts as 32; with WRAP c modulo 32 counts.",
        ptx,
        _WORD,
        (_V,),
        (_V, _V, _V),
        _WRAP,
    )


ROWS: Final = (
    OpSpec(
        Op.BFE,
        "extract a bit field",
        "d = c bits of a from bit b on, extended by the field's highest bit for a signed type,"
        " else by zeros. For types of 32 bits, only the low 8 bits of b and c are used. Bits"
        " above a's highest are copies of it for a signed type, else zeros. A field of no"
        " bits gives 0.",
        "bfe",
        _TYPED,
        (_V,),
        (_V, _COUNT, _COUNT),
    ),
    OpSpec(
        Op.BFI,
        "insert a bit field",
        "d = b with e bits from bit c on replaced by a's low bits. For B32, only the low 8 bits"
        " of c and e are used; bits beyond d's highest are discarded.",
        "bfi",
        _UNTYPED,
        (_V,),
        (_V, _V, _COUNT, _COUNT),
        src_places=(A, B, C, _FOURTH),
    ),
    OpSpec(
        Op.BMSK,
        "bit mask",
        "d = b ones from bit a on, cut off above bit 31. If a is above 31, d is 0; if b is above"
        " 31,"
        " there are ones up to bit 31; with WRAP both are used modulo 32.",
        "bmsk",
        _WORD,
        (_V,),
        (_V, _V),
        _WRAP,
    ),
    OpSpec(
        Op.SZEXT,
        "extend from a bit",
        "d = the low b bits of a, extended by their highest for S32, else by zeros; 0 for b = 0."
        " If b is above 31, d = a; with WRAP b is used modulo 32.",
        "szext",
        (DataType.U32, DataType.S32),
        (_V,),
        (_V, _COUNT),
        _WRAP,
    ),
    OpSpec(
        Op.BFIND,
        "find the highest bit",
        "d (32 bits) = the position of the highest one in a; for a negative number of a signed"
        " type,"
        " of the highest zero; all bits one if there is none. AMOUNT: the shift count that moves"
        " this bit to the top.",
        "bfind",
        _TYPED,
        (_COUNT,),
        (_V,),
        (flag("shift_amount", "AMOUNT", 24),),
    ),
    OpSpec(
        Op.FNS,
        "find the n-th set bit",
        "d = the position of the |c|-th one in a, from bit b on upward for c > 0, downward for c"
        " < 0"
        " (signed); for c = 0, b itself if that bit is one. All bits are one if there is none, or"
        " if b is above 31.",
        "fns",
        _WORD,
        (_V,),
        (_V, _V, _V),
    ),
    _count(Op.POPC, "count ones", "d (32 bits) = the number of ones in a.", "popc"),
    _count(
        Op.CLZ,
        "count leading zeros",
        "d (32 bits) = the number of zeros above the highest one in a; the width of a for a = 0.",
        "clz",
    ),
    OpSpec(
        Op.BREV,
        "reverse bits",
        "d = the bits of a in reverse order.",
        "brev",
        _UNTYPED,
        (_V,),
        (_V,),
    ),
    _funnel(Op.SHF_L, "left", "upper", "shf.l"),
    _funnel(Op.SHF_R, "right", "lower", "shf.r"),
    OpSpec(
        Op.PRMT,
        "permute bytes",
        "Bytes 0 to 3 are a's, 4 to 7 b's, the lowest first. Byte i of d = the byte selected by the"
        " low 3 of bits 4i to 4i+3 of c, or eight copies of its highest bit if the highest of the"
        " four bits is set. In a mode only the low 2 bits of c, n, are used. F4E: bytes n to n+3."
        " B4E: n, n-1, n-2, n-3 modulo 8. RC8: n four times. ECL: byte i, but not below n. ECR:"
        " byte i, but not above n. RC16: 0, 1, 0, 1 for an even n, else 2, 3, 2, 3.",
        "prmt",
        _WORD,
        (_V,),
        (_V, _V, _V),
        (choice("permute", Permute, 24, 3),),
    ),
    OpSpec(
        Op.LOP3,
        "any logic function of three operands",
        "For each bit: d = bit 4a + 2b + c of e, of which only the low 8 bits are used.",
        "lop3",
        _WORD,
        (_V,),
        (_V, _V, _V, _COUNT),
        src_places=(A, B, C, _FOURTH),
    ),
)
