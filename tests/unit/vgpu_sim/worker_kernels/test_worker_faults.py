"""How contexts end: by their kernels, by fences, by force; other contexts are not affected."""

import os
import signal
import struct
import time
from pathlib import Path

import numpy as np
import pytest

from support.processes.worker_client import MIB, Client, Zygote, running_client
from vgpu_sim.hal.compute import abi
from vgpu_sim.hal.compute.abi import FaultKind
from vgpu_sim.hal.compute.cuda import CudaError

VECADD = (Path(__file__).parents[4] / "examples/vecadd.ptx").read_bytes()
LOAD_LINES = [i for i, line in enumerate(VECADD.splitlines(), 1) if b"ld.global" in line]
STORE_LINE = next(i for i, line in enumerate(VECADD.splitlines(), 1) if b"st.global" in line)
TRAP = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry stop(.param .u32 limit)
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [limit];
    mov.u32 %r2, %ctaid.x;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra DONE;
    trap;
DONE:
    ret;
}
"""
TRAP_LINE = next(i for i, line in enumerate(TRAP.splitlines(), 1) if b"trap;" in line)
BACKENDS = ["interp", "jit"]


def launch(client: Client, pointers: tuple[int, int, int], count: int = 1000) -> int:
    kernel = client.load(VECADD).functions["vecadd"].kernel
    parameters = struct.pack("<QQQi", *(p % (1 << 64) for p in pointers), count)
    return client.launch(kernel, (-(-count // 256), 1, 1), (256, 1, 1), parameters)


def expect_death(
    zygote: Zygote, client: Client, kind: FaultKind, error: CudaError
) -> abi.FaultRecord:
    """Check that the page, gpud's event, the socket and the exit status report the same error."""
    page = client.wait_for_error()
    assert (page.error, page.fault.kind) == (error, kind)
    assert client.socket.recv(1) == b""
    event = client.gpud.event("fault")
    assert event["kind"] == kind.name
    assert event["message"] == page.fault.message.decode()
    assert (event["kernel"], event["ptx_line"]) == (
        page.fault.kernel_name.decode(),
        page.fault.ptx_line,
    )
    assert os.waitstatus_to_exitcode(zygote.exit_status(client.pid)) == 70
    return page.fault


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("where", ["null", "host", "below", "beyond", "far", "negative"])
def test_a_store_outside_kills_its_context_alone(zygote: Zygote, backend: str, where: str) -> None:
    host = np.zeros(1000, dtype=np.float32)
    with (
        running_client(zygote, backend=backend) as client,
        running_client(zygote, backend=backend) as neighbour,
    ):
        memory = client.allocate(4000)
        pointers = {
            "null": 0,
            "host": host.ctypes.data,
            "below": memory.address - (1 << 21),
            "beyond": memory.address + (1 << 21),
            "far": memory.address + (1 << 43),
            "negative": -8,
        }
        others = [neighbour.allocate(4000) for _ in range(3)]
        a, b, c = (np.frombuffer(m.alias, dtype=np.float32)[:1000] for m in others)
        a[:], b[:] = np.arange(1000), 1
        value = launch(client, (memory.address, memory.address, pointers[where]))
        fault = expect_death(zygote, client, FaultKind.ADDRESS, CudaError.ILLEGAL_ADDRESS)
        assert fault.kernel_name == b"vecadd"
        assert fault.ptx_line == STORE_LINE
        assert fault.block < 4
        # The program's own address, not the confined one.
        assert (fault.address - pointers[where]) % (1 << 64) < 4000
        assert b"ST.GLOBAL" in fault.message
        assert b"PTX line" not in fault.message  # the client adds that
        assert client.page.timeline[0] == value - 1
        assert not host.any()
        assert not np.frombuffer(memory.alias, dtype=np.float32).any()
        done = launch(neighbour, (others[0].address, others[1].address, others[2].address))
        neighbour.wait(0, done)
        np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_misaligned_store(zygote: Zygote, backend: str) -> None:
    with running_client(zygote, backend=backend) as client:
        memory, other = client.allocate(4000), client.allocate(4000)
        launch(client, (memory.address, memory.address, other.address + 2))
        fault = expect_death(zygote, client, FaultKind.MISALIGNED, CudaError.MISALIGNED_ADDRESS)
        assert fault.ptx_line == STORE_LINE
        assert other.address <= fault.address < other.address + 4000
        assert fault.address % 4 == 2
        assert not np.frombuffer(other.alias, dtype=np.uint8).any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_load_outside_is_found_in_the_ptx(zygote: Zygote, backend: str) -> None:
    with running_client(zygote, backend=backend) as client:
        memory = client.allocate(4000)
        launch(client, (memory.address, 16, memory.address))
        fault = expect_death(zygote, client, FaultKind.ADDRESS, CudaError.ILLEGAL_ADDRESS)
        # A native instruction may implement both loads; the interpreter distinguishes them.
        assert fault.ptx_line in (LOAD_LINES if backend == "jit" else LOAD_LINES[1:])


@pytest.mark.parametrize("backend", BACKENDS)
def test_freed_memory_faults(zygote: Zygote, backend: str) -> None:
    with running_client(zygote, backend=backend) as client:
        memory, other = client.allocate(4000), client.allocate(4000)
        client.wait(0, launch(client, (memory.address, memory.address, other.address)))
        assert client.free(other) == CudaError.SUCCESS
        launch(client, (memory.address, memory.address, other.address))
        fault = expect_death(zygote, client, FaultKind.ADDRESS, CudaError.ILLEGAL_ADDRESS)
        assert other.address <= fault.address < other.address + 4000


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trap(zygote: Zygote, backend: str) -> None:
    with running_client(zygote, backend=backend) as client:
        kernel = client.load(TRAP).functions["stop"].kernel
        client.wait(0, client.launch(kernel, (3, 1, 1), (32, 1, 1), struct.pack("<I", 3)))
        client.launch(kernel, (8, 1, 1), (32, 1, 1), struct.pack("<I", 7))
        fault = expect_death(zygote, client, FaultKind.TRAP, CudaError.LAUNCH_FAILED)
        assert fault.kernel_name == b"stop"
        assert fault.block == 7
        assert fault.ptx_line == TRAP_LINE
        assert fault.message == b"the kernel executed a trap: TRAP"


LOST = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry lost(.param .u64 a, .param .u64 b)
{
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [a];
    ld.param.u64 %d2, [b];
    xor.b64 %d3, %d1, %d2;
    st.global.u32 [%d3], 7;
    ret;
}
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_address_that_native_code_does_not_keep(zygote: Zygote, backend: str) -> None:
    """It is computed from two pointers, so the faulting address does not determine it."""
    with running_client(zygote, backend=backend) as client:
        kernel = client.load(LOST).functions["lost"].kernel
        client.launch(kernel, (1, 1, 1), (32, 1, 1), struct.pack("<QQ", 0x1230, 0x30))
        fault = expect_death(zygote, client, FaultKind.ADDRESS, CudaError.ILLEGAL_ADDRESS)
        assert fault.address == 0x1200  # found by running the threads again, one by one
        assert fault.message.endswith(b" at 0x1200")


def test_a_launch_after_unload_is_a_protocol_error(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        module = client.load(VECADD)
        assert client.unload(module) == CudaError.SUCCESS
        kernel = module.functions["vecadd"].kernel
        client.launch(kernel, (1, 1, 1), (32, 1, 1), bytes(28))
        expect_death(zygote, client, FaultKind.PROTOCOL, CudaError.LAUNCH_FAILED)


def test_a_copy_that_goes_no_way_is_a_protocol_error(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        for direction in abi.Direction:  # without an observer they have no effect
            slot = client.slot(0, abi.Opcode.COPIED)
            slot.body.copied = abi.CopiedBody((1 << 64) - 1, direction, 1)
            client.put(0, bytes(slot))
        client.wait(0, len(abi.Direction))
        slot = client.slot(0, abi.Opcode.COPIED)
        slot.body.copied = abi.CopiedBody(1, 4, 0)
        client.put(0, bytes(slot))
        expect_death(zygote, client, FaultKind.PROTOCOL, CudaError.LAUNCH_FAILED)


def test_a_fence_ends_the_context(zygote: Zygote) -> None:
    with running_client(zygote) as client, running_client(zygote) as neighbour:
        client.gpud.fence("the pod was deleted")
        fault = expect_death(zygote, client, FaultKind.FENCED, CudaError.DEVICE_UNAVAILABLE)
        assert b"the pod was deleted" in fault.message
        assert neighbour.memory_info()[0] > 0


def test_a_fence_ends_a_context_that_computes(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        memory = client.allocate(64 * MIB)
        kernel = client.load(VECADD).functions["vecadd"].kernel
        address, count = memory.address, 16 * MIB
        parameters = struct.pack("<QQQi", address, address, address, count)
        client.launch(kernel, (count // 256, 1, 1), (256, 1, 1), parameters)
        time.sleep(0.05)
        client.gpud.fence("the pod was deleted")
        expect_death(zygote, client, FaultKind.FENCED, CudaError.DEVICE_UNAVAILABLE)
        assert client.page.timeline[0] == 0


def test_a_fence_ends_an_unload_that_waits_for_a_launch(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        memory = client.allocate(64 * MIB)
        module = client.load(VECADD)
        address, count = memory.address, 16 * MIB
        parameters = struct.pack("<QQQi", address, address, address, count)
        kernel = module.functions["vecadd"].kernel
        client.launch(kernel, (count // 256, 1, 1), (256, 1, 1), parameters)
        time.sleep(0.05)
        client.gpud.fence("the pod was deleted")
        with pytest.raises(ConnectionError):
            client.unload(module)
        expect_death(zygote, client, FaultKind.FENCED, CudaError.DEVICE_UNAVAILABLE)


def test_an_unload_waits_for_a_launch(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        memory = [client.allocate(8 * MIB) for _ in range(3)]
        a, b, c = (np.frombuffer(m.alias, dtype=np.float32) for m in memory)
        a[:], b[:] = 1, 2
        module = client.load(VECADD)
        parameters = struct.pack("<QQQi", *(m.address for m in memory), 2 * MIB)
        kernel = module.functions["vecadd"].kernel
        value = client.launch(kernel, (2 * MIB // 256, 1, 1), (256, 1, 1), parameters)
        # A result shows that the launch runs; the ring's tail advances before the worker holds the
        # kernel.
        while not c.any():
            time.sleep(0.001)
        assert client.unload(module) == CudaError.SUCCESS
        client.wait(0, value)
        assert (c == 3).all()


def test_a_killed_worker_leaves_no_error_but_a_closed_socket(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        os.kill(client.pid, signal.SIGKILL)
        assert client.socket.recv(1) == b""
        assert client.page.error == 0
        assert os.waitstatus_to_exitcode(zygote.exit_status(client.pid)) == -signal.SIGKILL


def test_without_gpud_a_program_goes_on_but_gets_no_memory(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        memory = client.allocate(4000)
        client.gpud.connection.shutdown(2)
        client.gpud.connection.close()
        assert client.gpud.closed.wait(60)
        client.wait(0, launch(client, (memory.address,) * 3))
        with pytest.raises(MemoryError):
            client.allocate(4000)
        assert client.memory_info() == (0, client.config.memory_limit_bytes)
        assert client.free(memory) == CudaError.SUCCESS
        assert client.page.error == 0


def test_a_fault_is_known_soon(zygote: Zygote) -> None:
    """Includes the time in which Python finds the PTX line: 0.06 s on an idle machine, and twice
    as much beside other tests.
    """
    times = []
    for _ in range(5):
        with running_client(zygote, backend="jit") as client:
            memory = client.allocate(4000)
            kernel = client.load(VECADD).functions["vecadd"].kernel
            for pointer in (memory.address, 0):  # the first launch compiles
                parameters = struct.pack("<QQQi", pointer, pointer, pointer, 1000)
                start = time.monotonic()
                value = client.launch(kernel, (4, 1, 1), (256, 1, 1), parameters)
                while not client.page.error and client.page.timeline[0] < value:
                    time.sleep(0.0001)
            times.append(time.monotonic() - start)
            assert client.page.fault.ptx_line in LOAD_LINES
    print("fault known after", [f"{t * 1e3:.1f} ms" for t in times])
    assert min(times) < 0.5, times
