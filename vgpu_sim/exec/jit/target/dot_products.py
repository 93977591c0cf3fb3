"""Tests of whether the host's dot product instructions match the instruction set.

VDPBF16PS (Intel 64 and IA-32 Architectures SDM) is the arithmetic of MMA on BF16: for each pair
first the second product, then the first, each fused, rounded to nearest even, with subnormal
operands and results flushed to zero. It is used only if it returns the expected results for
operands that distinguish other orders, roundings and kinds of flushing; otherwise fused
multiply-adds compute the same. VPDPBUSD and TDPBSSD are integer arithmetic and need no test.
"""

import ctypes
import functools
from collections.abc import Sequence
from typing import Final

from vgpu_sim.isa import DataType

DOT: Final = "llvm.x86.avx512bf16.dpbf16ps.512"
BYTES: Final = (DataType.U8, DataType.S8)
_LANES: Final = 16
_REGISTER: Final = ctypes.c_uint32 * _LANES
# c, a's pair (the second half upper), b's pair, and the expected result
CASES: Final = (
    (0x3F800000, 0x3F80_0000, 0x3F80_0000, 0x40000000),
    (0x7F800000, 0x3F80_3F80, 0x3F80_FF80, 0x7FC00000),  # infinity minus infinity: a NaN
    (0x4B800000, 0x3F80_BF80, 0x3F80_3F80, 0x4B7FFFFF),  # 2^24 + 1 - 1: a tie, then a difference
    (0x4B800000, 0xBF80_3F80, 0x3F80_3F80, 0x4B800000),  # 2^24 - 1 + 1
    (0x80000000, 0x0000_8000, 0x3F80_3F80, 0x00000000),  # signs of zeros
    (0x80000000, 0x8000_8000, 0x3F80_3F80, 0x80000000),
    (0x00000001, 0x0000_0000, 0x0000_0000, 0x00000000),  # a subnormal addend
    (0x80000001, 0x8000_8000, 0x3F80_3F80, 0x80000000),
    (0x00000000, 0x0000_007F, 0x0000_7F00, 0x00000000),  # a subnormal factor
    (0x00000000, 0x0000_0080, 0x0000_3F00, 0x00000000),  # half the smallest normal number
    (0x80800000, 0x0000_2752, 0x0000_1518, 0x80000000),  # tiny before it is rounded as a subnormal
    (0x00800000, 0x1C54_0000, 0xA14B_0000, 0x00000000),
    (0x00800000, 0x0000_9A00, 0x0000_1A00, 0x00000000),  # 2^-126 - 2^-150
    (0x00800001, 0x1A00_9B00, 0x9A00_1A00, 0x00000000),
    (0x3F800000, 0x3380_3380, 0x3F80_3F80, 0x3F800000),  # two ties to even
    (0x3F800001, 0x3380_3300, 0x3F80_3F80, 0x3F800002),
    (0x7F7FFFFF, 0x7280_F280, 0x3F80_3F80, 0x7F7FFFFF),
    (0x7F7FFFFF, 0x7380_F380, 0x3F80_3F80, 0x7F800000),  # an intermediate overflow persists
    (0xFFC12345, 0x3F80_3F80, 0x3F80_3F80, 0xFFC12345),
)


def native_pairs() -> bool:
    """Return whether generated code may use VDPBF16PS for products of BF16 numbers."""
    return _has("avx512bf16") and _pairs_are_right()


def native_bytes() -> bool:
    """Return whether generated code may use VPDPBUSD for products of bytes."""
    return _has("avx512vnni")


def native_tiles() -> bool:
    """Return whether generated code may multiply bytes in tile registers (AMX)."""
    return _has("amx-tile") and _has("amx-int8")


def _has(feature: str) -> bool:
    from vgpu_sim.exec.jit.target import llvm  # only a compiler loads LLVM

    return llvm.vector_bits() == 512 and f"+{feature}" in llvm.cpu()[1].split(",")


@functools.cache
def _pairs_are_right() -> bool:
    """Execute VDPBF16PS on all test cases; return whether all results are as expected."""
    results = execute([case[:3] for case in CASES])
    return all(
        have == want or (is_nan(have) and is_nan(want))
        for have, (*_, want) in zip(results, CASES, strict=True)
    )


def is_nan(pattern: int) -> bool:
    """Return whether a pattern of binary32 is a NaN."""
    return pattern & 0x7FFF_FFFF > 0x7F80_0000


def execute(operands: Sequence[tuple[int, ...]]) -> list[int]:
    """Execute VDPBF16PS and return the results as bit patterns.

    Each of the ``operands`` has the bit patterns of c, a and b in one lane.
    """
    from llvmlite import binding

    from vgpu_sim.exec.jit.target import llvm

    builder = binding.JITLibraryBuilder()
    builder.add_object_img(llvm.object_code(_TEXT, 1)).export_symbol("dots")
    session = llvm.session()
    tracker = builder.link(session, "dots")
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(tracker["dots"])
    results: list[int] = []
    for first in range(0, len(operands), _LANES):
        rows = operands[first : first + _LANES]
        columns = [_REGISTER(*(row[place] for row in rows)) for place in range(3)]
        result = _REGISTER()
        function(ctypes.byref(result), *(ctypes.byref(column) for column in columns))
        results += result[: len(rows)]
    return results


_TEXT: Final = f"""
declare <16 x float> @{DOT}(<16 x float>, <32 x bfloat>, <32 x bfloat>)
define void @dots(ptr %d, ptr %c, ptr %a, ptr %b) {{
  %x = load <16 x float>, ptr %c, align 4
  %y = load <32 x bfloat>, ptr %a, align 4
  %z = load <32 x bfloat>, ptr %b, align 4
  %r = call <16 x float> @{DOT}(<16 x float> %x, <32 x bfloat> %y, <32 x bfloat> %z)
  store <16 x float> %r, ptr %d, align 4
  ret void
}}
"""
