"""A real zygote forks a real worker; a client loads PTX and computes through the ring."""

import os
import signal
import struct
import time
from pathlib import Path

import numpy as np
import pytest

from support.kernels import ptx_kernels
from support.processes.worker_client import (
    Client,
    LoadedModule,
    Memory,
    Zygote,
    running_client,
)
from vgpu_sim.hal.compute import spawn
from vgpu_sim.hal.compute.abi import FaultKind, Opcode
from vgpu_sim.hal.compute.address_map import APERTURE_BASES
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import ChunkKind

VECADD = (Path(__file__).parents[4] / "examples/vecadd.ptx").read_bytes()


BACKENDS = ["interp", "jit"]
COUNT = 10_000


def prepare(client: Client) -> tuple[LoadedModule, list[Memory], list[np.ndarray]]:
    """Load vecadd, allocate its vectors and fill its inputs."""
    assert client.ready.status == 0
    module = client.load(VECADD)
    assert (module.status, module.log) == (0, "")
    memory = [client.allocate(4 * COUNT) for _ in range(3)]
    arrays = [np.frombuffer(m.alias, dtype=np.float32)[:COUNT] for m in memory]
    random = np.random.default_rng(client.pid)
    for array in arrays[:2]:
        array[:] = random.random(COUNT, dtype=np.float32)
    return module, memory, arrays


def launch_vecadd(
    client: Client, module: LoadedModule, pointers: list[int], stream: int = 0
) -> int:
    parameters = struct.pack("<QQQi", *pointers, COUNT)
    kernel = module.functions["vecadd"].kernel
    return client.launch(kernel, (-(-COUNT // 256), 1, 1), (256, 1, 1), parameters, stream)


@pytest.mark.parametrize("backend", BACKENDS)
def test_vecadd(zygote: Zygote, backend: str) -> None:
    with running_client(zygote, backend=backend) as client:
        module, memory, (a, b, c) = prepare(client)
        assert module.functions["vecadd"].parameter_bytes == 28
        assert module.parameters == [(0, 8), (8, 8), (16, 8), (24, 4)]
        client.wait(0, launch_vecadd(client, module, [m.address for m in memory]))
        np.testing.assert_array_equal(c, a + b)
        stats = client.gpud
        client.socket.close()
        assert os.waitstatus_to_exitcode(zygote.exit_status(client.pid)) == 0
        assert stats.closed.wait(60), "the worker has said everything"
        assert [m["launches"] for m in stats.events if m["type"] == "stats"][-1] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_flipped_instruction_changes_the_result(zygote: Zygote, backend: str) -> None:
    with running_client(zygote, backend=backend) as client:
        _, memory, (a, b, c) = prepare(client)
        module = client.load(VECADD.replace(b"add.f32", b"sub.f32"))
        client.wait(0, launch_vecadd(client, module, [m.address for m in memory]))
        np.testing.assert_array_equal(c, a - b)


@pytest.mark.parametrize("backend", BACKENDS)
def test_streams_copies_and_timestamps(zygote: Zygote, backend: str) -> None:
    """Two streams: pinned memory is copied in, a launch waits for it, the result is copied out,
    with events.
    """
    with running_client(zygote, backend=backend) as client:
        module, memory, (a, b, _) = prepare(client)
        pinned = client.allocate(8 * COUNT, ChunkKind.HOST)
        staged = np.frombuffer(pinned.alias, dtype=np.float32)
        staged[:COUNT], before = a[::-1], b.copy()
        client.timestamp(0, stream=3)
        copied = client.copy(memory[0].address, pinned.address, 4 * COUNT, stream=3)
        client.put(5, bytes(client.slot(5, Opcode.NOP, ((3, copied),))))
        launch_vecadd(client, module, [m.address for m in memory], stream=5)
        client.fill(memory[1].address, 4, 0x3F800000, 4, stream=5)
        client.timestamp(1, stream=5)
        back = client.copy(pinned.address + 4 * COUNT, memory[2].address, 4 * COUNT, stream=5)
        client.wait(5, back)
        np.testing.assert_array_equal(staged[COUNT : 2 * COUNT], staged[:COUNT] + before)
        assert (b[:4] == 1).all()
        first, second = client.page.timestamps[0:2]
        assert 0 < first < second


def test_contexts_do_not_share_memory(zygote: Zygote) -> None:
    """Two contexts of two processes use the same addresses for different memory."""
    with running_client(zygote) as one, running_client(zygote) as two:
        mine, yours = one.allocate(4096), two.allocate(4096)
        assert mine.address == yours.address
        mine.alias[:4] = b"mine"
        one.wait(0, one.fill(mine.address + 4, 4, ord("x"), 1))
        two.wait(0, two.fill(yours.address + 8, 4, ord("y"), 1))
        assert mine.alias[:12] == b"minexxxx" + bytes(4)
        assert yours.alias[:12] == bytes(8) + b"yyyy"


def until_stopped(pid: int) -> None:
    """Wait until every thread has stopped: one that spins on another CPU runs a moment longer."""

    def states() -> set[str]:
        stats = Path(f"/proc/{pid}/task").glob("*/stat")
        return {stat.read_text().rpartition(")")[2].split()[0] for stat in stats}

    end = time.monotonic() + 10
    while states() != {"T"}:
        assert time.monotonic() < end, states()


def test_a_stopped_worker_computes_nothing(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        module, memory, (a, b, c) = prepare(client)
        os.kill(client.pid, signal.SIGSTOP)
        until_stopped(client.pid)
        value = launch_vecadd(client, module, [m.address for m in memory])
        with pytest.raises(TimeoutError):
            client.wait(0, value, timeout_s=0.3)
        assert not c.any()
        os.kill(client.pid, signal.SIGCONT)
        client.wait(0, value)
        np.testing.assert_array_equal(c, a + b)


def test_a_taken_aperture_is_refused(zygote: Zygote) -> None:
    """If an address range cannot be mapped, the status makes the client try another."""
    with running_client(zygote, aperture_base=0x7FF0_0000_0000) as client:
        assert client.ready.status == CudaError.MAP_FAILED
    with running_client(zygote, aperture_base=APERTURE_BASES[1]) as client:
        module, memory, (a, b, c) = prepare(client)
        client.wait(0, launch_vecadd(client, module, [m.address for m in memory]))
        np.testing.assert_array_equal(c, a + b)


def launch_endless(client: Client) -> tuple[Memory, int]:
    """Launch a kernel that runs until the first byte of the memory is set; return the memory and
    the timeline value.
    """
    module = client.load(ptx_kernels.ENDLESS.encode())
    assert (module.status, module.log) == (0, "")
    flag = client.allocate(4096)
    kernel = module.functions["endless"].kernel
    return flag, client.launch(kernel, (1, 1, 1), (1, 1, 1), struct.pack("<Q", flag.address))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_kernel_that_runs_too_long_ends_its_context(zygote: Zygote, backend: str) -> None:
    with running_client(zygote, backend=backend, kernel_timeout_s=0.2) as client:
        launch_endless(client)
        page = client.wait_for_error()
        assert page.error == CudaError.LAUNCH_TIMEOUT
        assert (page.fault.kind, page.fault.kernel_name) == (FaultKind.TIMEOUT, b"endless")
        assert b"more than the 0.2 s" in page.fault.message
        assert client.gpud.event("fault")["kernel"] == "endless"
        status = os.waitstatus_to_exitcode(zygote.exit_status(client.pid))
        assert status == spawn.FAULTED_STATUS


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_kernel_that_runs_too_long_does_so_while_its_module_is_unloaded(
    zygote: Zygote, backend: str
) -> None:
    """The worker's main thread then waits for the kernel; its time limit must still be enforced."""
    with running_client(zygote, backend=backend, kernel_timeout_s=2.5) as client:
        module = client.load(ptx_kernels.ENDLESS.encode())
        flag = client.allocate(4096)
        kernel = module.functions["endless"].kernel
        client.launch(kernel, (1, 1, 1), (1, 1, 1), struct.pack("<Q", flag.address))
        client.gpud.event("stats", running_kernel="endless")
        with pytest.raises(ConnectionError):
            client.unload(module)
        assert client.wait_for_error().error == CudaError.LAUNCH_TIMEOUT


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_kernel_that_runs_is_reported(zygote: Zygote, backend: str) -> None:
    with running_client(zygote, backend=backend) as client:
        flag, value = launch_endless(client)
        running = client.gpud.event("stats", running_kernel="endless")
        assert running["launches"] == 0
        assert running["busy_ns"] > 0, "the kernel that runs is work too"
        assert running["running_since_ns"] > 0
        flag.alias[0] = 1
        client.wait(0, value)
        done = client.gpud.event("stats", running_kernel="", launches=1)
        assert done["running_since_ns"] == 0
        assert done["busy_ns"] >= running["busy_ns"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_kernel_within_its_time_is_left_alone(zygote: Zygote, backend: str) -> None:
    with running_client(zygote, backend=backend, kernel_timeout_s=3600.0) as client:
        module, memory, (a, b, c) = prepare(client)
        client.wait(0, launch_vecadd(client, module, [m.address for m in memory]))
        np.testing.assert_array_equal(c, a + b)
