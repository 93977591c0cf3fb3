"""Accesses of resident blocks, by space, for an observer without a clock or a model."""

import struct

import numpy as np

from vgpu_sim import compiler
from vgpu_sim.exec import interp
from vgpu_sim.exec.interp import BufferMemory
from vgpu_sim.exec.interp.cta import ResidentBlocks
from vgpu_sim.exec.interp.launch import InterpretedLaunch
from vgpu_sim.exec.interp.numbers.bits import Mask
from vgpu_sim.isa import Instruction, Op, Space
from vgpu_sim.worker.observing.probes import Access, accesses_of

BASE = 0x2000_0000_0000
# Lane 3n writes to shared memory, lane 3n + 1 to local, lane 3n + 2 to global memory.
PTX = """.version 8.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 po)
{
.reg .pred %p<3>;
.reg .b32 %r<4>;
.reg .b64 %rd<8>;
.shared .align 4 .b8 together[256];
.local .align 4 .b8 own[16];
ld.param.u64 %rd0, [po];
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd1, %r0, 4;
add.u64 %rd0, %rd0, %rd1;
mov.u64 %rd2, together;
cvta.shared.u64 %rd2, %rd2;
add.u64 %rd2, %rd2, %rd1;
mov.u64 %rd3, own;
cvta.local.u64 %rd3, %rd3;
rem.u32 %r1, %r0, 3;
setp.eq.u32 %p0, %r1, 0;
setp.eq.u32 %p1, %r1, 1;
selp.b64 %rd4, %rd3, %rd0, %p1;
selp.b64 %rd4, %rd2, %rd4, %p0;
st.u32 [%rd4], %r0;
atom.global.add.u32 %r2, [%rd0], 1;
ret;
}
"""


def accesses(threads: int) -> list[tuple[Op, Access]]:
    """Run a block, and return what its instructions access."""
    module = compiler.compile_ptx(PTX, capability=(8, 0))
    launch = InterpretedLaunch(
        module,
        module.function("k"),
        (1, 1, 1),
        (threads, 1, 1),
        struct.pack("<Q", BASE),
        BufferMemory(BASE, bytearray(4 * threads)),
        BASE,
        0,
        interp.Surroundings(0, 1, 1024),
    )
    launch.place_parameters()
    blocks = ResidentBlocks(launch, [0], 1)
    found: list[tuple[Op, Access]] = []

    def watch(instruction: Instruction, present: Mask, allowed: Mask) -> None:
        found.extend((instruction.op, one) for one in accesses_of(blocks, instruction, allowed))

    blocks.watch = watch
    with np.errstate(all="ignore"):
        while not blocks.done:
            blocks.run_round()
    return found


def test_each_lane_of_a_generic_access_is_of_the_space_that_its_address_is_in() -> None:
    shared, local, there, atomic = accesses(64)
    lanes = np.arange(64)
    assert [op for op, _ in (shared, local, there)] == [Op.ST] * 3
    for (_, access), space, rest in (
        (shared, Space.SHARED, 0),
        (local, Space.LOCAL, 1),
        (there, Space.GENERIC, 2),
    ):
        mine = lanes[lanes % 3 == rest]
        assert (access.space, access.width, access.atomic) == (space, 4, False)
        assert access.warps.tolist() == (mine // 32).tolist()
        if space is not Space.LOCAL:  # all lanes write to the same offset of their own
            base = BASE if space is Space.GENERIC else int(access.addresses[0])
            assert access.addresses.tolist() == (base + 4 * mine).tolist()
    assert len(set(local[1].addresses.tolist())) == 1
    assert (atomic[1].space, atomic[1].atomic) == (Space.GLOBAL, True)
    assert atomic[1].addresses.tolist() == (BASE + 4 * lanes).tolist()
