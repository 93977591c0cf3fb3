"""Blocks whose threads share memory and synchronize, through PTX and a real worker, on both
backends.
"""

import os
import struct

import numpy as np
import pytest

from support.processes.worker_client import Client, Zygote, running_client
from vgpu_sim.hal.compute.abi import FaultKind
from vgpu_sim.hal.compute.cuda import CudaError

_THREADS, _GRID = 96, 40
_BAD_BLOCK = 17
_PTX = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry sums(.param .u64 out, .param .u64 in)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %d<8>;
    .shared .align 4 .b8 tile[{bytes}];
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [in];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, {threads}, %r1;
    mul.wide.u32 %d3, %r3, 4;
    add.u64 %d4, %d2, %d3;
    ld.global.u32 %r4, [%d4];
    mov.u32 %r5, tile;
    shl.b32 %r6, %r1, 2;
    add.u32 %r7, %r5, %r6;
    st.shared.u32 [%r7], %r4;
    mov.u32 %r8, {threads};
again:
    bar.sync 0;
    setp.lt.u32 %p1, %r8, 2;
    @%p1 bra done;
    add.u32 %r9, %r8, 1;
    shr.u32 %r9, %r9, 1;
    add.u32 %r10, %r1, %r9;
    setp.ge.u32 %p2, %r10, %r8;
    @%p2 bra skip;
    shl.b32 %r11, %r10, 2;
    add.u32 %r11, %r11, %r5;
    ld.shared.u32 %r12, [%r11];
    ld.shared.u32 %r13, [%r7];
    add.u32 %r13, %r13, %r12;
    st.shared.u32 [%r7], %r13;
skip:
    mov.u32 %r8, %r9;
    bra again;
done:
    setp.ne.u32 %p3, %r2, {bad_block};
    @%p3 bra good;
    {wrong}
good:
    ld.shared.u32 %r14, [tile];
    mul.wide.u32 %d5, %r2, 4;
    add.u64 %d6, %d1, %d5;
    st.global.u32 [%d6], %r14;
    ret;
}}
"""
_WRONG = {
    "past the end": (
        "st.shared.u32 [%r7+4096], %r1; // wrong",
        FaultKind.ADDRESS,
        CudaError.ILLEGAL_ADDRESS,
        "illegal address: ST.SHARED.U32",
        4096,
    ),
    "before the beginning": (
        "ld.shared.u32 %r4, [%r6+-4096]; st.global.u32 [%d2], %r4; // wrong",
        FaultKind.ADDRESS,
        CudaError.ILLEGAL_ADDRESS,
        "illegal address: LD.SHARED.U32",
        (1 << 32) - 4096,
    ),
    "misaligned": (
        "st.shared.u32 [%r7+6], %r1; // wrong",
        FaultKind.MISALIGNED,
        CudaError.MISALIGNED_ADDRESS,
        "misaligned address: ST.SHARED.U32",
        6,
    ),
    "a barrier that is never completed": (
        "@%p2 bra good; bar.sync 1, 64; // wrong",
        FaultKind.TRAP,
        CudaError.LAUNCH_FAILED,
        "no thread of the block can make progress",
        0,
    ),
}


def _text(wrong: str = "") -> str:
    return _PTX.format(bytes=4 * _THREADS, threads=_THREADS, bad_block=_BAD_BLOCK, wrong=wrong)


def _launch(client: Client, text: str, out: int, numbers: int) -> int:
    kernel = client.load(text.encode()).functions["sums"].kernel
    return client.launch(kernel, (_GRID, 1, 1), (_THREADS, 1, 1), struct.pack("<QQ", out, numbers))


@pytest.mark.parametrize("backend", ["interp", "jit"])
def test_blocks_add_up_in_shared_memory(zygote: Zygote, backend: str) -> None:
    with running_client(zygote, backend=backend) as client:
        out, numbers = client.allocate(4 * _GRID), client.allocate(4 * _GRID * _THREADS)
        given = np.random.default_rng(3).integers(0, 1 << 32, _GRID * _THREADS, np.uint32)
        np.frombuffer(numbers.alias, np.uint32)[: len(given)] = given
        client.wait(0, _launch(client, _text(), out.address, numbers.address))
        found = np.frombuffer(out.alias, np.uint32)[:_GRID]
        assert (found == given.reshape(_GRID, _THREADS).sum(axis=1, dtype=np.uint32)).all()


@pytest.mark.parametrize("backend", ["interp", "jit"])
@pytest.mark.parametrize(
    "access",
    [
        "mov.u32 %r1, 0x400000; ld.shared.u32 %r2, [%r1];",
        "cvta.shared.u64 %d1, 0x400000; ld.u32 %r2, [%d1];",
        "mov.u32 %r1, 0x400000; atom.shared.add.u32 %r2, [%r1], 0;",
    ],
)
def test_a_kernel_without_shared_memory_has_none(zygote: Zygote, backend: str, access: str) -> None:
    """Its addresses are not those of the worker's own memory."""
    text = f"""
        .version 7.0
        .target sm_80
        .address_size 64
        .visible .entry sums(.param .u64 out, .param .u64 in)
        {{
            .reg .b32 %r<3>; .reg .b64 %d<2>;
            {access}
            ld.param.u64 %d0, [out];
            st.global.u32 [%d0], %r2;
            ret;
        }}
    """
    with running_client(zygote, backend=backend) as client:
        out = client.allocate(4096)
        _launch(client, text, out.address, out.address)
        page = client.wait_for_error()
        assert page.error == CudaError.ILLEGAL_ADDRESS, page.fault.message


@pytest.mark.parametrize("backend", ["interp", "jit"])
@pytest.mark.parametrize("case", _WRONG)
def test_what_a_block_does_wrong_is_named(zygote: Zygote, backend: str, case: str) -> None:
    wrong, kind, error, message, distance = _WRONG[case]
    text = _text(wrong)
    line = next(n for n, one in enumerate(text.splitlines(), 1) if "// wrong" in one)
    with running_client(zygote, backend=backend) as client:
        out, numbers = client.allocate(4 * _GRID), client.allocate(4 * _GRID * _THREADS)
        _launch(client, text, out.address, numbers.address)
        page = client.wait_for_error()
        fault = page.fault
        assert (page.error, fault.kind) == (error, kind), fault.message
        assert (fault.ptx_line, fault.block) == (line, _BAD_BLOCK), fault.message
        assert fault.message.decode().startswith(message)
        if distance:
            assert (fault.address - distance) % (1 << 32) < 4 * _THREADS
            assert f"at {fault.address:#x}" in fault.message.decode()
        assert os.waitstatus_to_exitcode(zygote.exit_status(client.pid)) == 70
