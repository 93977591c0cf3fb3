"""Generic loads from one address by some lanes of a group, in kernels that have local memory."""

import struct

import pytest

from support.execution import both_backends
from vgpu_sim.compiler.pipeline import compile_ptx
from vgpu_sim.exec import jit

# Only thread 5 counts the words of a text, through a generic address.
LENGTH = """.version 8.0
.target sm_80
.address_size 64
.visible .entry length(.param .u64 text, .param .u64 out)
{
  .local .align 8 .b8 own[8];
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .b64 %d<6>;
  ld.param.u64 %d1, [text];
  ld.param.u64 %d2, [out];
  mov.b64 %d3, own;
  cvta.local.u64 %d3, %d3;
  st.b64 [%d3], %d1; // so that the address is unknown
  ld.b64 %d1, [%d3];
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p, %r1, 5;
  @%p bra DONE;
  mov.b32 %r2, 0;
BYTE:
  ld.LOADED %r3, [%d1];
  add.u64 %d1, %d1, 4;
  setp.eq.b32 %p, %r3, 0;
  @%p bra ENDED;
  add.u32 %r2, %r2, 1;
  bra BYTE;
ENDED:
  st.global.b32 [%d2], %r2;
DONE:
  ret;
}
"""


@pytest.mark.parametrize("loaded", ["u8", "b32", "f32"])
@pytest.mark.parametrize("plan", [(1, 1), (4, 1), (4, 2), (8, 1)])
def test_a_lane_other_than_the_first_loads_alone(loaded, plan):
    text = LENGTH.replace("LOADED", loaded)
    if loaded == "f32":
        text = text.replace(".reg .b32 %r<4>;", ".reg .b32 %r<3>;\n  .reg .f32 %r3;")
        text = text.replace("setp.eq.b32 %p, %r3, 0;", "setp.eq.f32 %p, %r3, 0f00000000;")
    module = compile_ptx(text, capability=(9, 0))
    data = struct.pack("<8f", *[1.0 / 3] * 7, 0.0)
    buffers = [data + bytes(32), bytes(64)]
    found = both_backends.compare(module, buffers, (1, 1, 1), (8, 1, 1), [jit.Plan(*plan)])
    assert found[1][:4] == struct.pack("<I", 7)
