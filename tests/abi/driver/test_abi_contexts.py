"""Contexts: the stack, the primary context, and contexts that end by a fault or a dead worker."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from support.kernels import ptx_kernels
from support.processes.gpud_process import wait_until

INVALID_VALUE = 1
INVALID_DEVICE = 101
INVALID_CONTEXT = 201
INVALID_HANDLE = 400
ILLEGAL_ADDRESS = 700
DESTROYED = 709
LAUNCH_FAILED = 719
NOT_SUPPORTED = 801


def poke(cuda, address: int) -> None:
    """Launch a kernel that stores 32 bits at the address."""
    module = cuda.cuModuleLoadData(ptx_kernels.POKE.encode() + b"\0")
    function = cuda.cuModuleGetFunction(module, b"poke")
    given = ((address, 7), (ctypes.c_uint64, ctypes.c_uint32))
    cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, given, 0)


def worker_pids(node) -> set[int]:
    with node.admin() as admin:
        gpus = admin.call("inventory")["gpus"]
    return {
        context["pid"]
        for gpu in gpus
        for instance in gpu["instances"]
        for context in instance["contexts"]
    }


def first_workers(node) -> set[int]:
    """Return the workers before a test; gpud may list the fixture context's worker late."""
    wait_until(lambda: worker_pids(node))
    return worker_pids(node)


def new_worker(node, before: set[int]) -> int:
    """Return the new worker's process; the client may know its context before gpud lists it."""
    wait_until(lambda: worker_pids(node) - before)
    (pid,) = worker_pids(node) - before
    return pid


def stop(pid: int) -> None:
    """Stop a process and wait until all its threads have stopped."""
    os.kill(pid, signal.SIGSTOP)
    threads = [f"/proc/{pid}/task/{thread}/stat" for thread in os.listdir(f"/proc/{pid}/task")]
    wait_until(
        lambda: all(Path(one).read_text().rsplit(")", 1)[1].split()[0] == "T" for one in threads)
    )


def test_the_stack(cuda, driver):
    base = cuda.cuCtxGetCurrent()
    other = cuda.cuCtxCreate(None, 0, 0)
    assert int(cuda.cuCtxGetCurrent()) == int(other)
    assert int(cuda.cuCtxPopCurrent()) == int(other)
    assert int(cuda.cuCtxGetCurrent()) == int(base)
    cuda.cuCtxPushCurrent(other)
    cuda.cuCtxPushCurrent(base)
    assert int(cuda.cuCtxGetCurrent()) == int(base)
    assert int(cuda.cuCtxPopCurrent()) == int(base)
    cuda.cuCtxSetCurrent(0)
    assert int(cuda.cuCtxGetCurrent()) == int(base)
    cuda.cuCtxDestroy(other)
    assert cuda.code("cuCtxPushCurrent", other) == INVALID_CONTEXT
    assert cuda.code("cuCtxSetCurrent", other) == INVALID_CONTEXT
    assert cuda.code("cuCtxDestroy", other) == INVALID_CONTEXT
    assert cuda.code("cuCtxDestroy", 0) == INVALID_CONTEXT
    assert cuda.code("cuCtxCreate", None, 0, 7) == INVALID_DEVICE
    for primary in (False, True):  # two scheduling modes, an invalid flag, unsupported flags
        for flags, code in ((3, INVALID_VALUE), (0x100, INVALID_VALUE), (0x80, NOT_SUPPORTED)):
            name, given = "cuCtxCreate", (None, flags, 0)
            if primary:
                name, given = "cuDevicePrimaryCtxSetFlags", (0, flags)
            assert cuda.code(name, *given) == code, (name, flags)
    assert cuda.cuCtxGetApiVersion(base) == 3020
    assert int(cuda.cuCtxGetDevice()) == 0


def test_a_thread_begins_without_a_context(cuda):
    answers = []

    def ask() -> None:
        answers.append(int(cuda.cuCtxGetCurrent()))
        answers.append(cuda.code("cuCtxGetDevice"))
        answers.append(cuda.code("cuMemAlloc", 16))
        answers.append(cuda.code("cuCtxSynchronize"))
        answers.append(cuda.code("cuCtxPopCurrent"))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert answers == [0] + [INVALID_CONTEXT] * 4


def test_a_context_destroyed_elsewhere(cuda):
    """A thread whose context another thread has destroyed gets 709 from then on."""
    context = cuda.cuCtxCreate(None, 0, 0)
    cuda.cuCtxPopCurrent()
    steps = [threading.Event(), threading.Event()]
    answers = []

    def use() -> None:
        cuda.cuCtxSetCurrent(context)
        stream = cuda.cuStreamCreate(0)
        event = cuda.cuEventCreate(0)
        pointer = int(cuda.cuMemAlloc(16))
        steps[0].set()
        steps[1].wait()
        answers.extend(
            [
                cuda.code("cuMemAlloc", 16),
                cuda.code("cuMemcpyHtoD", pointer, b"12345678", 8),
                cuda.code("cuCtxSynchronize"),
                cuda.code("cuStreamSynchronize", stream),
                cuda.code("cuEventSynchronize", event),
            ]
        )
        cuda.code("cuStreamDestroy", stream)
        cuda.code("cuEventDestroy", event)

    thread = threading.Thread(target=use)
    thread.start()
    steps[0].wait()
    cuda.cuCtxDestroy(context)
    steps[1].set()
    thread.join()
    assert answers == [DESTROYED] * 5


def test_a_stream_works_while_another_context_is_current(cuda):
    """CUDA C++ Programming Guide, "Stream and Event Behavior": only launches need its context."""
    module = cuda.cuModuleLoadData(ptx_kernels.SPIN.encode() + b"\0")
    function = cuda.cuModuleGetFunction(module, b"spin")
    stream, free = cuda.cuStreamCreate(0), cuda.cuStreamCreate(0)
    begin, end = cuda.cuEventCreate(0), cuda.cuEventCreate(0)
    target, copied = int(cuda.cuMemAlloc(4)), int(cuda.cuMemAlloc(4))
    given = ((target, 30_000), (ctypes.c_uint64, ctypes.c_uint32))
    other = cuda.cuCtxCreate(None, 0, 0)
    theirs, their_event = cuda.cuStreamCreate(0), cuda.cuEventCreate(0)

    cuda.cuEventRecord(begin, stream)
    cuda.cuMemsetD32Async(target, 5, 1, stream)
    cuda.cuCtxPopCurrent()
    cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, given, 0)
    cuda.cuCtxPushCurrent(other)
    cuda.cuEventRecord(end, stream)
    cuda.cuStreamWaitEvent(free, end, 0)
    cuda.cuMemcpyDtoDAsync(copied, target, 4, free)
    back = np.zeros(1, np.uint32)
    cuda.cuMemcpyDtoHAsync(back, copied, 4, free)
    cuda.cuStreamSynchronize(free)
    assert back[0] == 30_005
    assert cuda.cuEventElapsedTime(begin, end) > 0

    # A variable belongs to the context that loaded it, whichever context's stream copies it.
    variables = cuda.cuModuleLoadData(ptx_kernels.VARIABLES.encode() + b"\0")
    counter, _ = cuda.cuModuleGetGlobal(variables, b"counter")
    cuda.cuMemcpyHtoDAsync(counter, np.array([41], np.uint32), 4, stream)
    cuda.cuMemcpyDtoDAsync(copied, counter, 4, stream)
    cuda.cuMemcpyDtoHAsync(back, copied, 4, stream)
    assert back[0] == 41

    # Handles of two contexts can never be combined.
    assert cuda.code("cuEventRecord", end, theirs) == INVALID_HANDLE
    assert cuda.code("cuEventRecord", end, 0) == INVALID_HANDLE
    assert cuda.code("cuEventRecord", their_event, stream) == INVALID_HANDLE
    code = cuda.code("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, given, 0)
    assert code == INVALID_HANDLE
    cuda.cuCtxDestroy(other)


def assert_does_not_block(
    pid: int, wait: Callable[[], int], other: Callable[[], object], other_s: float
) -> None:
    """Check that ``other`` is done within ``other_s`` while ``wait`` waits for a stopped worker."""
    codes: list[int] = []
    waiting = threading.Thread(target=lambda: codes.append(wait()))
    done = threading.Event()

    def run() -> None:
        other()
        done.set()

    running = threading.Thread(target=run)
    try:
        waiting.start()
        waiting.join(0.3)
        assert not codes
        running.start()
        assert done.wait(other_s)
        assert not codes
    finally:
        os.kill(pid, signal.SIGCONT)
    waiting.join()
    running.join()
    assert codes == [0]


@pytest.mark.parametrize("primary", [False, True], ids=["created", "primary"])
def test_destroying_a_context_does_not_block_others(cuda, node, primary):
    before = first_workers(node)
    if primary:
        context = cuda.cuDevicePrimaryCtxRetain(0)
        cuda.cuCtxPushCurrent(context)
    else:
        context = cuda.cuCtxCreate(None, 0, 0)
    pid = new_worker(node, before)
    cuda.cuMemAlloc(4)
    stop(pid)
    cuda.cuEventRecord(cuda.cuEventCreate(2), 0)
    cuda.cuCtxPopCurrent()
    call = ("cuDevicePrimaryCtxRelease", 0) if primary else ("cuCtxDestroy", context)

    def create() -> None:
        cuda.cuCtxDestroy(cuda.cuCtxCreate(None, 0, 0))

    assert_does_not_block(pid, lambda: cuda.code(*call), create, 20)


@pytest.mark.parametrize("kind", ["Module", "Library"])
def test_a_waiting_unload_does_not_block_other_contexts(cuda, node, kind):
    image = ptx_kernels.SPIN.encode() + b"\0"
    function = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(image), b"spin")
    before = first_workers(node)
    context = cuda.cuCtxCreate(None, 0, 0)
    pid = new_worker(node, before)
    if kind == "Module":
        loaded = cuda.cuModuleLoadData(image)
    else:
        loaded = cuda.cuLibraryLoadData(image, [], [], 0, [], [], 0)
    stop(pid)
    cuda.cuEventRecord(cuda.cuEventCreate(2), 0)

    def unload() -> int:
        cuda.cuCtxSetCurrent(context)
        return cuda.code(f"cu{kind}Unload", loaded)

    assert_does_not_block(pid, unload, lambda: cuda.cuFuncGetName(function), 10)
    cuda.cuCtxDestroy(context)


def test_the_primary_context(cuda, driver):
    assert cuda.cuDevicePrimaryCtxGetState(0) == (0, 0)
    cuda.cuDevicePrimaryCtxSetFlags(0, 4)
    first, second = cuda.cuDevicePrimaryCtxRetain(0), cuda.cuDevicePrimaryCtxRetain(0)
    assert int(first) == int(second)
    assert cuda.cuDevicePrimaryCtxGetState(0) == (4, 1)
    assert cuda.code("cuCtxDestroy", first) == INVALID_CONTEXT
    cuda.cuCtxPushCurrent(first)
    assert cuda.cuCtxGetFlags() == 4
    pointer = cuda.cuMemAlloc(100)
    cuda.cuDevicePrimaryCtxRelease(0)
    cuda.cuMemFree(pointer)
    cuda.cuDevicePrimaryCtxRelease(0)
    assert cuda.cuDevicePrimaryCtxGetState(0) == (4, 0)
    assert cuda.code("cuDevicePrimaryCtxRelease", 0) == INVALID_CONTEXT
    assert cuda.code("cuMemAlloc", 100) == DESTROYED
    cuda.cuCtxPopCurrent()
    cuda.cuDevicePrimaryCtxRetain(0)
    cuda.cuDevicePrimaryCtxReset(0)
    assert cuda.cuDevicePrimaryCtxGetState(0) == (0, 0)


def test_a_destroyed_contexts_memory_comes_back(cuda):
    free = int(cuda.cuMemGetInfo()[0])
    for _ in range(3):
        context = cuda.cuCtxCreate(None, 0, 0)
        cuda.cuMemAlloc(32 << 20)
        cuda.cuCtxDestroy(context)
    wait_until(lambda: int(cuda.cuMemGetInfo()[0]) == free)


@pytest.mark.parametrize(
    "address",
    ["null", "host", "freed", "guard", "beyond", *(f"bit{k}" for k in (33, 40, 43, 44, 47, 63))],
)
def test_a_bad_store_ends_only_its_context(cuda, address):
    """The error is 700, permanently, in that context; another one in the process continues."""
    neighbour = cuda.cuCtxGetCurrent()
    kept = int(cuda.cuMemAlloc(4))
    cuda.cuMemsetD32(kept, 1234, 1)
    context = cuda.cuCtxCreate(None, 0, 0)
    mine = int(cuda.cuMemAlloc(4 << 20))
    host = np.full(16, 9, np.uint32)
    freed = int(cuda.cuMemAlloc(4 << 20))
    cuda.cuMemFree(freed)
    where = {
        "null": 0,
        "host": host.ctypes.data,
        "freed": freed,
        "guard": kept,  # the memory of another context
        "beyond": mine + (4 << 20),
    }
    target = where[address] if address in where else mine ^ (1 << int(address[3:]))
    poke(cuda, target)
    assert cuda.code("cuCtxSynchronize") == ILLEGAL_ADDRESS
    for name, *arguments in (
        ("cuMemAlloc", 16),
        ("cuMemFree", mine),
        ("cuStreamCreate", 0),
        ("cuMemcpyHtoD", mine, host, 4),
        ("cuCtxSynchronize",),
        ("cuMemGetInfo",),
        ("cuStreamQuery", 0),
    ):
        assert cuda.code(name, *arguments) == ILLEGAL_ADDRESS, name
    assert (host == 9).all()
    cuda.cuCtxDestroy(context)
    assert int(cuda.cuCtxGetCurrent()) == int(neighbour)
    back = np.zeros(1, np.uint32)
    cuda.cuMemcpyDtoH(back, kept, 4)
    assert back[0] == 1234


def test_a_primary_context_can_be_used_again_after_a_fault(cuda):
    context = cuda.cuDevicePrimaryCtxRetain(0)
    cuda.cuCtxPushCurrent(context)
    poke(cuda, 0)
    assert cuda.code("cuCtxSynchronize") == ILLEGAL_ADDRESS
    cuda.cuCtxPopCurrent()
    cuda.cuDevicePrimaryCtxReset(0)
    cuda.cuCtxPushCurrent(cuda.cuDevicePrimaryCtxRetain(0))
    cuda.cuMemFree(cuda.cuMemAlloc(100))
    cuda.cuCtxPopCurrent()
    cuda.cuDevicePrimaryCtxRelease(0)


def test_a_killed_worker_is_launch_failed(cuda, node):
    before = first_workers(node)
    context = cuda.cuCtxCreate(None, 0, 0)
    pid = new_worker(node, before)
    event = cuda.cuEventCreate(2)
    stop(pid)
    cuda.cuEventRecord(event, 0)  # the worker that would execute it has ended
    os.kill(pid, signal.SIGKILL)
    assert cuda.code("cuEventSynchronize", event) == LAUNCH_FAILED
    assert cuda.code("cuMemAlloc", 16) == LAUNCH_FAILED
    assert cuda.code("cuCtxSynchronize") == LAUNCH_FAILED
    cuda.cuCtxDestroy(context)


def test_a_stream_knows_its_context_and_its_device(cuda):
    stream = cuda.cuStreamCreate(0)
    for known in (stream, 0):
        assert int(cuda.cuStreamGetCtx(known)) == int(cuda.cuCtxGetCurrent())
        assert int(cuda.cuStreamGetDevice(known)) == 0
    cuda.cuStreamDestroy(stream)
    assert cuda.code("cuStreamGetDevice", stream) == INVALID_HANDLE


def test_properties_equal_the_attributes_or_zero(cuda):
    properties = cuda.cuDeviceGetProperties(0)

    def attribute(name):
        number = getattr(cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        known = cuda.code("cuDeviceGetAttribute", number, 0) == 0
        return cuda.cuDeviceGetAttribute(number, 0) if known else 0

    for name, wanted in (
        ("maxThreadsPerBlock", "MAX_THREADS_PER_BLOCK"),
        ("sharedMemPerBlock", "MAX_SHARED_MEMORY_PER_BLOCK"),
        ("totalConstantMemory", "TOTAL_CONSTANT_MEMORY"),
        ("SIMDWidth", "WARP_SIZE"),
        ("memPitch", "MAX_PITCH"),
        ("regsPerBlock", "MAX_REGISTERS_PER_BLOCK"),
        ("clockRate", "CLOCK_RATE"),
        ("textureAlign", "TEXTURE_ALIGNMENT"),
    ):
        assert getattr(properties, name) == attribute(wanted), name
    for axis, letter in enumerate("XYZ"):
        assert properties.maxThreadsDim[axis] == attribute(f"MAX_BLOCK_DIM_{letter}")
        assert properties.maxGridSize[axis] == attribute(f"MAX_GRID_DIM_{letter}")


FORKING = """
import os
from cuda.bindings import driver as d
assert (int(d.cuInit(0)[0]), int(d.cuCtxCreate(None, 0, 0)[0])) == (0, 0)
child = os.fork()
if child == 0:
    os.write(1, os.read(0, 1))
os._exit(0)
"""


def test_a_forked_child_keeps_no_worker_of_its_parent(cuda, node, environment):
    before = first_workers(node)
    command = [sys.executable, "-c", FORKING]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe) as program:
        assert program.wait() == 0
        wait_until(lambda: worker_pids(node) <= before)
        program.stdin.write(b"x")
        program.stdin.flush()
        assert program.stdout.read() == b"x"  # the child still lives


def test_a_kernel_is_known_elsewhere_where_its_context_has_ended(cuda):
    """The attributes of a kernel do not depend on the current context."""
    library = cuda.cuLibraryLoadData(ptx_kernels.SPIN.encode() + b"\0", [], [], 0, [], [], 0)
    kernel = cuda.cuLibraryGetKernel(library, b"spin")
    cuda.cuKernelGetFunction(kernel)
    context = cuda.cuCtxCreate(None, 0, 0)
    poke(cuda, 0)
    assert cuda.code("cuCtxSynchronize") == ILLEGAL_ADDRESS
    assert cuda.cuKernelGetParamInfo(kernel, 1) == (8, 4)
    cuda.cuCtxDestroy(context)
    cuda.cuLibraryUnload(library)


def test_a_polling_program_detects_a_killed_worker(cuda, node):
    before = first_workers(node)
    context = cuda.cuCtxCreate(None, 0, 0)
    pid = new_worker(node, before)
    stop(pid)
    event = cuda.cuEventCreate(2)
    cuda.cuEventRecord(event, 0)
    assert cuda.code("cuEventQuery", event) == 600
    os.kill(pid, signal.SIGKILL)
    code = 600
    while code == 600:
        code = cuda.code("cuEventQuery", event)
    assert code == LAUNCH_FAILED
    cuda.cuCtxDestroy(context)


def test_a_stopped_worker_blocks_and_computes_nothing(cuda, node):
    before = first_workers(node)
    context = cuda.cuCtxCreate(None, 0, 0)
    pid = new_worker(node, before)
    target = int(cuda.cuMemAlloc(4))
    cuda.cuMemsetD32(target, 1, 1)
    cuda.cuCtxSynchronize()
    stop(pid)
    cuda.cuMemsetD32(target, 2, 1)
    done = threading.Event()

    def wait() -> None:
        cuda.cuCtxSetCurrent(context)
        cuda.cuCtxSynchronize()
        done.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not done.wait(0.5)
    os.kill(pid, signal.SIGCONT)
    assert done.wait(60)
    thread.join()
    back = np.zeros(1, np.uint32)
    cuda.cuMemcpyDtoH(back, target, 4)
    assert back[0] == 2
    cuda.cuCtxDestroy(context)
