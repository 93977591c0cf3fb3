"""Products of matrices in tensor memory."""

from vgpu_sim.isa.effects import Effects
from vgpu_sim.isa.layout import DST, A, B, C, Modifier
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import OpSpec, Role
from vgpu_sim.isa.types import DataType as D

ROWS = (
    OpSpec(
        Op.TMMA,
        "multiply matrices to tensor memory",
        "D = A x B + D, in tensor memory (`tcgen05.mma`), once for each lane in the guard, in the"
        " order of lanes. The sixteen words are: D's address; A's descriptor of 64 bits, or its"
        " address in tensor memory; B's descriptor; the instruction descriptor; flags; the bytes"
        " of the block's shared memory; and eight words. Of these, the first two are the addresses"
        " of A's and B's scales if the kind has scales; else the set bits of the first four words,"
        " and of the last four for the odd block of a pair, are the lanes that are not written,"
        " except with bit 8. Flags: bits 0 to 2: the kind (0 f16, 1 tf32, 2 f8f6f4, 3 i8, 4"
        " mxf8f6f4, 5 mxf4, 6 mxf4nvf4); bit 3: D is added, else +0 or 0; bit 4: A is in tensor"
        " memory; bits 5 and 6: each scale covers 64, 32 or 16 elements of depth, as 0, 1, 2,"
        " but not 64 in kind 4; bit"
        " 7: a pair of blocks, of which each has half of the rows of A and D, and half of the"
        " columns of B; bit 8: `.ws`; bit 9: A is sparse (below); bit 10: row n of a block's A is"
        " the stored row n - 1, except row 0; bit 11, with bit 8: the first two of the eight words"
        " are a descriptor of zero columns (below); bits 12 to 15: n, where D is multiplied by 2^-n"
        " before; bits 16 to 31: the column, in 9 bits, and the lane of A's metadata. With M rows"
        " in each block and bit 7 or 8, D's columns are in 128 / M parts, one in each M lanes;"
        " else 64 rows are in the first 16 of each 32 lanes. Elements of A and B are converted"
        " exactly: F16, E4M3, E5M2, E2M3, E3M2 and E2M1 to binary32, and products are added in the"
        " order of depth, d = a * b + d, rounded once; BF16 and TF32 as MMA adds them, and 8-bit"
        " integers modulo 2^32. Negated factors have the other sign. With scales, the order is"
        " that of MMA and MMA_SCALE: the sum of the products of each scale's elements begins with"
        " +0, and d = s * x * y + d, in the order of depth, is rounded to binary64, and at the end"
        " to binary32. If D is F16, it is converted exactly before, and rounded to nearest even at"
        " the end. A NaN result is the canonical one. If A is sparse, B and the blocks of scales"
        " have twice the depth, and A's stored elements are as many as without. Four bits of"
        " metadata place those of a chunk, the lower two bits the first: two in a chunk of four;"
        " in kinds 5 and 6 two pairs in a chunk of four pairs; in kind 1 one in a chunk of two, by"
        " bit 1. Other elements are +0, also if A is negated; of two in one place the second"
        " remains. Kinds 0 and 1 have 16 bits of metadata for each half of a row: of the row r of"
        " A, and of its part of D's columns, in lane r - r % 16 + r % 8, for the second half 8"
        " lanes further, of the lanes that rows of D have; in the upper half of the word if r % 16"
        " is 8 or more. Other kinds have 64 bits, in two words of the row's lane. Zero columns: if"
        " bit 39 of the descriptor is set, each part of D's columns has a mask of alternating"
        " spans, of used columns (bits 40 to 47, plus 1) and of columns of B that are zeros (bits"
        " 48 to 55, plus 1). That of part i begins as many columns after the begin of a span as"
        " bits 8i to 8i + 7 state, and this is a span of zeros if bit 32 + i is set. The compiler"
        " tests all fields before. d is 0, or 1 if a row of 16 bytes is outside the block's shared"
        " memory, a format, a number of rows, of columns or of elements of a scale does not exist,"
        " the block has no tensor"
        " memory or no other block of its pair; then nothing is written.",
        "tcgen05.mma",
        (D.B32,),
        (Role.VALUE,),
        (Role.DATA, Role.DATA, Role.DATA, Role.DATA),
        (Modifier("vector", 28, 2, {4: 2}, {4: "V4"}),),
        dst_places=(32,),
        src_places=(DST, A, B, C),
        effects=Effects(orders=True),
    ),
)
