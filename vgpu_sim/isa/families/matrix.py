"""Products of small matrices that the lanes of a warp hold, and the loads of such matrices.

PTX ISA, "Matrix Fragments for mma", defines which element a lane has in which register.
"""

from collections.abc import Iterator
from typing import Final

from vgpu_sim.isa.effects import Effects
from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.layout import DST, A, Modifier, choice, flag
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import OpSpec, Role
from vgpu_sim.isa.types import DataType, MatrixShape, Space

D, M = DataType, MatrixShape
_TOTALS: Final = (D.F32, D.U32, D.S32)
_WHOLE: Final = (D.U32, D.S32)
_FACTORS: Final = {
    **dict.fromkeys((D.F16, D.BF16, D.TF32, D.E4M3, D.E5M2, D.E2M1), (D.F32,)),
    **dict.fromkeys((D.U8, D.S8), _WHOLE),
}
_SCALES: Final = dict.fromkeys((D.UE8M0, D.E4M3), (D.F32,))
SHAPES: Final = {
    **dict.fromkeys((D.F16, D.BF16), (M.M8N8K16, M.M16N8K8, M.M16N8K16)),
    D.TF32: (M.M16N8K4, M.M16N8K8),
    **dict.fromkeys((D.E4M3, D.E5M2), (M.M16N8K16, M.M16N8K32)),
    D.E2M1: (M.M16N8K32,),
    **dict.fromkeys((D.U8, D.S8), (M.M8N8K16, M.M16N8K16, M.M16N8K32)),
}


def _product_errors(instruction: Instruction, function: Function) -> Iterator[str]:
    shape, factor = instruction.matrix, instruction.source_type
    if shape is not None and factor is not None and shape not in SHAPES.get(factor, ()):
        yield f"MMA has no shape {shape.name} of {factor.name}"


ROWS: Final = (
    OpSpec(
        Op.MMA,
        "multiply matrices",
        "D = A x B + C, for matrices that the warp holds; all lanes are members. A register of"
        " 32 bits "
        "holds e elements: register i of A has those of row g + 8 * (i % (m / 8)) from "
        "column t * e + 4 * e * (i / (m / 8)) on, register i of B those of column g from row t "
        "* e + 4 * e * i on, and register i of C and D is row g + 8 * (i / 2), column 2 * t + "
        "i % 2, with g = lane / 4 and t = lane % 4. Each element of D starts as that of C, and "
        "the products of A's row and B's column are added one by one. F16, TF32, E4M3, E5M2 and "
        "E2M1 (of four bits here), in the order of depth k: d = a * b + d in binary32, rounded "
        "once, to nearest even; the lower 13 bits of TF32 factors are ignored. BF16, for each "
        "pair k = 2i and 2i + 1 in the order of i, first the second, then the first: the same, but "
        "subnormal operands a, b and d are replaced by zeros of their sign, and so is a result "
        "that, rounded to 24 bits with an unbounded exponent, is less than 2^-126. A NaN result is "
        "the canonical one. U32 and S32: the exact sum modulo 2^32; A's bytes are signed for S32, "
        "B's for a source type of S8. For a lane that does not take part zeros are read. PTX "
        "products of factors of other types (f64, s4, u4, b1) are supported as well: they are "
        "compiled to SHFL and FMA, DP4A or POPC (docs/binding.md).",
        "mma, wmma.mma, wgmma.mma_async",
        _TOTALS,
        (Role.TOTALS,),
        (Role.LEFT, Role.RIGHT, Role.TOTALS),
        (
            choice("matrix", MatrixShape, 24, 3),
            choice("source_type", DataType, 32, 8, _FACTORS, spoken=False),
        ),
        effects=Effects(collective=True),
        check=_product_errors,
    ),
    OpSpec(
        Op.MMA_SCALE,
        "apply block scales",
        "The first sources are four sums for each of one, two (V2) or four (V4) blocks: what MMA "
        "returns for the block and zeros. Two words with scales follow, then C. Byte j of a word "
        "is the scale of block j: lane 4 * g + r has those of row g + 8 * r of A in the first "
        "word, lane 4 * g those of column g of B in the second. A scale is UE8M0, or for E4M3 the "
        "number of the lower seven bits. Each element of D starts as that of C; for each block in "
        "order d = s * x * y + d, where x and y are the scales of its row and column, is rounded "
        "once, to binary64, to nearest even. At the end d is rounded to binary32, to nearest even; "
        "a NaN result is the canonical one. All lanes are members. For a lane that does not take "
        "part zeros are read.",
        "mma with block scales",
        (D.F32,),
        (Role.TOTALS,),
        (Role.LEFT, Role.RIGHT, Role.TOTALS),
        (
            Modifier("vector", 28, 2, {1: 0, 2: 1, 4: 2}, {2: "V2", 4: "V4"}),
            choice("source_type", DataType, 32, 8, _SCALES, spoken=False),
        ),
        effects=Effects(collective=True),
    ),
    OpSpec(
        Op.LDMATRIX,
        "load matrices of eight by eight halves",
        "di, i from 1 on, is the part of matrix i that the lane holds, with g = lane / 4 and t "
        "= lane % 4: the word of columns 2t and 2t + 1 of row g; TRANS: the half of column g "
        "in rows 2t and 2t + 1. Row r of matrix i is the 16 bytes at the address a of lane "
        "8 * (i - 1) + r, a multiple of 16. All lanes are members; the row of a lane that does "
        "not take part is zeros.",
        "ldmatrix, wgmma.mma_async",
        (D.B32,),
        (Role.DATA,),
        (Role.ADDRESS,),
        (
            choice("space", Space, 24, 4, {Space.SHARED: (D.B32,)}),
            Modifier("vector", 28, 2, {1: 0, 2: 1, 4: 2}, {2: "V2", 4: "V4"}),
            flag("transposed", "TRANS", 30),
        ),
        dst_places=(DST,),
        src_places=(A,),
        effects=Effects(reads=True, collective=True),
    ),
)
