"""64-bit addresses truncated to 32 bits for shared memory: lanes are contiguous only after
truncation.
"""

import numpy as np
import pytest

from support.execution.both_backends import compare, compiler
from vgpu_sim.compiler import compile_ptx

# clang's code for `t ? a[t - 1] : 0`: 8 * (t - 1) in 64 bits, which is a row only in 32 bits.
_BEFORE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p; .reg .b32 %t, %r; .reg .b64 %o, %a, %b, %x, %y, %z;
    .shared .align 8 .b8 a[1024];
    ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %x, %t, 8; add.s64 %o, %o, %x;
    ld.global.u64 %y, [%o]; mov.u64 %a, a; add.s64 %b, %a, %x; st.shared.u64 [%b], %y;
    bar.sync 0;
    setp.eq.s32 %p, %t, 0; mov.u64 %z, 0;
    @%p bra FIRST;
    add.s32 %r, %t, -1; mul.wide.u32 %x, %r, 8; add.s64 %b, %a, %x; ld.shared.u64 %z, [%b];
FIRST:
    add.s64 %y, %y, %z; st.global.u64 [%o], %y; ret;
}
"""


@pytest.mark.parametrize("threads", [32, 128])
def test_addresses_that_are_a_row_only_in_32_bits(threads: int) -> None:
    module = compile_ptx(_BEFORE, capability=(9, 0))
    values = np.arange(threads, dtype=np.uint64) ** 3
    block = (threads, 1, 1)
    plans = [None, *compiler().legal_plans(module, block)]
    (found,) = compare(module, [values.tobytes()], (1, 1, 1), block, plans)
    want = values.copy()
    want[1:] += values[:-1]
    np.testing.assert_array_equal(np.frombuffer(found, np.uint64), want)
