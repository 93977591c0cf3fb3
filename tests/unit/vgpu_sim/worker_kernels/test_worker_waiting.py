"""Blocks that wait for others in a real worker: they finish, report faults, and end with it."""

import os
import struct

import numpy as np
import pytest

from support.processes.worker_client import Client, Memory, Zygote, running_client
from vgpu_sim.hal.compute.abi import FaultKind
from vgpu_sim.hal.compute.cuda import CudaError

_BACKENDS = ["interp", "jit"]
_GRID, _THREADS = 12, 64
# Each block waits for the flag of the next block; the last one does {last}, then sets its own flag.
# Threads with odd numbers wait for the even one before them.
_PTX = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry waits(.param .u64 flags)
{{
    .reg .pred %p<8>;
    .reg .b32 %r<16>;
    .reg .b64 %d<8>;
    .shared .align 4 .b8 tile[{bytes}];
    ld.param.u64 %d1, [flags];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, tile;
    shl.b32 %r4, %r1, 2;
    add.u32 %r3, %r3, %r4;
    mul.wide.u32 %d2, %r2, 4;
    add.u64 %d2, %d1, %d2;
    and.b32 %r5, %r1, 1;
    setp.ne.u32 %p1, %r5, 0;
    @%p1 bra AFTER;
    setp.eq.u32 %p2, %r2, {last_block};
    @%p2 bra LAST;
WAIT:
    ld.volatile.global.u32 %r6, [%d2+4];
    setp.eq.u32 %p3, %r6, 0;
    @%p3 bra WAIT;
    bra GOT;
LAST:
    {last}
GOT:
    mov.u32 %r7, 1;
    st.volatile.shared.u32 [%r3], %r7;
    bra MEET;
AFTER:
    ld.volatile.shared.u32 %r8, [%r3+-4];
    setp.eq.u32 %p4, %r8, 0;
    @%p4 bra AFTER;
MEET:
    bar.sync 0;
    setp.ne.u32 %p5, %r1, 0;
    @%p5 bra END;
    st.volatile.global.u32 [%d2], 1;
END:
    ret;
}}
"""


def _launch(client: Client, last: str = "") -> tuple[Memory, int, int]:
    """Return the flags, the launch's value, and the line of ``last``."""
    text = _PTX.format(bytes=4 * _THREADS, last_block=_GRID - 1, last=last)
    line = next(n for n, one in enumerate(text.splitlines(), 1) if one == "LAST:") + 1
    module = client.load(text.encode())
    assert (module.status, module.log) == (0, "")
    flags = client.allocate(4 * _GRID)
    kernel = module.functions["waits"].kernel
    parameters = struct.pack("<Q", flags.address)
    return flags, client.launch(kernel, (_GRID, 1, 1), (_THREADS, 1, 1), parameters), line


@pytest.mark.parametrize("backend", _BACKENDS)
def test_blocks_wait_for_the_one_behind_them(zygote: Zygote, backend: str) -> None:
    with running_client(zygote, backend=backend) as client:
        flags, value, _ = _launch(client)
        client.wait(0, value, timeout_s=30)
        assert (np.frombuffer(flags.alias, np.uint32)[:_GRID] == 1).all()


@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize(
    ("last", "kind", "error"),
    [
        ("trap;", FaultKind.TRAP, CudaError.LAUNCH_FAILED),
        ("ld.global.u32 %r6, [0]; st.global.u32 [%d2], %r6;", FaultKind.ADDRESS, 700),
        ("ld.shared.u32 %r6, [%r3+8192]; st.global.u32 [%d2], %r6;", FaultKind.ADDRESS, 700),
        ("bar.sync 1, 96;", FaultKind.TRAP, CudaError.LAUNCH_FAILED),
    ],
)
def test_a_fault_is_distinguished_from_blocks_that_wait(
    zygote: Zygote, backend: str, last: str, kind: FaultKind, error: int
) -> None:
    with running_client(zygote, backend=backend) as client:
        _, _, line = _launch(client, last)
        page = client.wait_for_error()
        assert (page.error, page.fault.kind) == (error, kind), page.fault.message
        assert (page.fault.block, page.fault.ptx_line) == (_GRID - 1, line), page.fault.message
        assert os.waitstatus_to_exitcode(zygote.exit_status(client.pid)) == 70


@pytest.mark.parametrize("backend", _BACKENDS)
def test_a_launch_that_waits_forever_ends_with_the_client(zygote: Zygote, backend: str) -> None:
    again = "AGAIN: ld.volatile.global.u32 %r9, [%d2]; setp.eq.u32 %p6, %r9, 0; @%p6 bra AGAIN;"
    with running_client(zygote, backend=backend) as client:
        _launch(client, again)
        client.gpud.event("stats", running_kernel="waits")
        client.close()
        zygote.exit_status(client.pid)
