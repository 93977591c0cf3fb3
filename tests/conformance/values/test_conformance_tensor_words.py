"""TMMA in hand-written ISA: words that the compiler never emits, on both executors."""

from contextlib import closing

import numpy as np
import pytest

from support.kernels.tensor_memory import Runs
from vgpu_sim.isa import Module
from vgpu_sim.isa.asm import assemble

_KIND_F16, _KIND_F8F6F4, _PAIR, _SPARSE = 0, 2, 128, 512
_KIND_MXF8F6F4, _KIND_MXF4, _KIND_MXF4NVF4 = 4, 5, 6
_SMALL = 1 << 4 | 2 << 17 | 8 << 24  # 128 x 16
_SCALED = 2 << 17 | 1 << 23 | 1 << 27  # the same, of a kind with scales
_SCALES = 1 << 5  # a unit of the field that states how many elements a scale has
_DESCRIPTOR = 8 << 16, 1 << 14 | 8


def _module(flags: int, idesc: int, *, tensor_memory: bool = True) -> Module:
    """Return a kernel that stores the result of a TMMA of one thread."""
    low, high = _DESCRIPTOR
    words = [0, low, high, low, high, idesc, flags, 4096, *[0] * 8]
    groups = ", ".join("{" + ", ".join(map(str, words[n : n + 4])) + "}" for n in range(0, 16, 4))
    parameters = "\n    ".join(f".parameter p{n} offset {8 * n} size 8 align 8" for n in range(5))
    text = f"""
.isa 1
.capability 10 0
.ptx 8 8

.function k
    {parameters}
    .parameter_bytes 40
    .registers r0-r0 64
    .registers r1-r2 32
    .predicates 1
    .shared 4096
    {".tensor_memory" if tensor_memory else ""}
{{
      LD.PARAM.U64 r0, [0]
      S2R.B32 r1, TID_X
      SETP.U32.EQ p0, r1, 0
      MOV.B32 r2, 7
@p0   TMMA.V4.B32 r2, {groups}
@p0   ST.GLOBAL.B32 [r0], r2
      RET
}}
"""
    return assemble(text)


@pytest.mark.parametrize(
    ("flags", "idesc", "tensor_memory", "result"),
    [
        (_KIND_F16, _SMALL, True, 0),
        (_KIND_F16, _SMALL, False, 1),
        (_KIND_F8F6F4, _SMALL, True, 0),
        (_KIND_F8F6F4, _SMALL | 2 << 7, True, 1),  # formats 2, 6 and 7
        (_KIND_F8F6F4, _SMALL | 2 << 10, True, 1),
        (_KIND_F8F6F4, _SMALL | 6 << 7, True, 1),
        (_KIND_F8F6F4, _SMALL | 7 << 10, True, 1),
        (_KIND_F16, _SMALL + (1 << 24), True, 1),  # 144 rows
        (_KIND_F16, _SMALL | 63 << 17, True, 1),  # 504 columns
        (7, _SMALL, True, 1),  # no kind
        (_KIND_F8F6F4 | _SPARSE | 510 << 16, _SMALL, True, 0),
        (_KIND_F8F6F4 | _SPARSE | 511 << 16, _SMALL, True, 1),  # metadata beyond the last column
        (_KIND_F16 | _SPARSE | 511 << 16, _SMALL, True, 0),
        (_KIND_F16 | _PAIR, _SMALL, True, 1),  # no pair of blocks
        (_KIND_F16, _SMALL & ~(63 << 17), True, 1),  # no columns
        (_KIND_F16 | 3 * _SCALES, _SMALL, True, 1),  # two bits have three values
        (_KIND_MXF8F6F4 | _SCALES, _SCALED, True, 0),
        (_KIND_MXF8F6F4, _SCALED, True, 1),  # rows have no 64 elements
        (_KIND_MXF8F6F4 | 3 * _SCALES, _SCALED, True, 1),
        (_KIND_MXF4, _SCALED, True, 0),
        (_KIND_MXF4 | 2 * _SCALES | _SPARSE, _SCALED, True, 0),
        (_KIND_MXF4 | 3 * _SCALES, _SCALED, True, 1),
        (_KIND_MXF4NVF4 | 2 * _SCALES, _SCALED, True, 0),
        (_KIND_MXF4NVF4 | 3 * _SCALES | _SPARSE, _SCALED, True, 1),
    ],
)
def test_illegal_words(flags: int, idesc: int, tensor_memory: bool, result: int) -> None:
    module = _module(flags, idesc, tensor_memory=tensor_memory)
    with closing(Runs(module, 64)) as runs:
        for found in (runs.interpret(), runs.execute()):
            assert found is not None
            np.testing.assert_array_equal(found[0], result)
