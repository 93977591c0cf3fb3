"""Streams: per-thread default streams, host functions, values in memory."""

import ctypes
import threading
from pathlib import Path

import numpy as np
import pytest

from support.kernels import ptx_kernels
from support.processes.gpud_process import wait_until

PER_THREAD = 2
CAPTURE_INVALIDATED, CAPTURE_IMPLICIT = 901, 906


@pytest.fixture
def raw(cuda, libraries):
    """The library itself, for symbols that cuda.bindings does not call."""
    return ctypes.CDLL(str(libraries / "libcuda.so.1"))


def in_thread(work):
    """Run ``work`` in a new thread and return its result, once the thread has ended.

    ``join`` returns before the destructors of what libraries keep for the thread have run.
    """
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    wait_until(lambda: not Path(f"/proc/self/task/{thread.native_id}").exists())
    return found[0]


def test_each_thread_has_a_default_stream_of_its_own(cuda):
    context = cuda.cuCtxGetCurrent()
    mine = cuda.cuStreamGetId(PER_THREAD)
    assert mine not in (cuda.cuStreamGetId(0), 0)
    assert cuda.cuStreamGetId(PER_THREAD) == mine

    def ids():
        cuda.cuCtxSetCurrent(context)
        return [cuda.cuStreamGetId(PER_THREAD) for _ in range(2)]

    theirs = in_thread(ids)
    assert theirs[0] == theirs[1] != mine
    for _ in range(300):  # more than a context has streams: an ended thread's stream is released
        in_thread(ids)


def test_a_null_stream_is_the_threads_own_in_variants_for_it(cuda, raw):
    """``_ptsz`` functions take NULL as the per-thread stream, ``_ptds`` ones work in it."""
    spin = cuda.cuModuleGetFunction(
        cuda.cuModuleLoadData(ptx_kernels.SPIN.encode() + b"\0"), b"spin"
    )
    out = int(cuda.cuMemAlloc(8))
    cuda.cuMemsetD8(out, 0, 8)
    identity = ctypes.c_uint64()
    assert raw.cuStreamGetId_ptsz(None, ctypes.byref(identity)) == 0
    assert identity.value == cuda.cuStreamGetId(PER_THREAD)
    values = (ctypes.c_uint64(out), ctypes.c_uint32(7))
    pointers = (ctypes.c_void_p * 2)(*map(ctypes.addressof, values))
    function = ctypes.c_void_p(int(spin))
    assert raw.cuLaunchKernel_ptsz(function, 1, 1, 1, 1, 1, 1, 0, None, pointers, None) == 0
    got = ctypes.c_uint32()
    read = raw.cuMemcpyDtoH_v2_ptds
    assert read(ctypes.byref(got), ctypes.c_uint64(out), ctypes.c_size_t(4)) == 0
    assert got.value == 7


def test_the_own_default_stream_is_ordered_with_the_legacy_stream(cuda):
    data = np.zeros(4, np.uint32)
    out = int(cuda.cuMemAlloc(16))
    for i in range(50):
        cuda.cuMemsetD32Async(out, i, 4, PER_THREAD)
        cuda.cuMemcpyDtoHAsync(data, out, 16, 0)
        cuda.cuStreamSynchronize(0)
        assert data.tolist() == [i] * 4


HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
NOT_PERMITTED = 800
INVALID_VALUE = 1


def pinned_u64(cuda, count: int = 1):
    """Return the address of pinned memory and the memory as an array of 64-bit numbers."""
    address = int(cuda.cuMemHostAlloc(8 * count, 0))
    numbers = (ctypes.c_uint64 * count).from_address(address)
    for i in range(count):
        numbers[i] = 0
    return address, numbers


def test_host_functions_run_in_the_order_of_their_stream(cuda, raw):
    address, numbers = pinned_u64(cuda)
    device = int(cuda.cuMemAlloc(8))
    streams = [int(cuda.cuStreamCreate(1)) for _ in range(2)]
    seen: list[tuple[int, int]] = []

    @HOST_FUNCTION
    def note(data):
        seen.append((data or 0, numbers[0]))

    for i in range(1, 41):
        stream = ctypes.c_void_p(streams[0])
        cuda.cuMemsetD32Async(device, i, 2, streams[0])
        cuda.cuMemcpyDtoHAsync(address, device, 8, streams[0])
        assert raw.cuLaunchHostFunc(stream, note, ctypes.c_void_p(i)) == 0
    cuda.cuStreamSynchronize(streams[0])
    assert seen == [(i, i << 32 | i) for i in range(1, 41)]


def test_later_work_waits_for_a_host_function_and_other_streams_do_not(cuda, raw):
    released, order = threading.Event(), []
    streams = [int(cuda.cuStreamCreate(1)) for _ in range(2)]
    device = int(cuda.cuMemAlloc(8))

    @HOST_FUNCTION
    def block(_data):
        order.append(("code", raw.cuCtxSynchronize()))
        released.wait(30)

    @CALLBACK
    def note(stream, status, _data):
        order.append((stream, status))

    assert raw.cuLaunchHostFunc(ctypes.c_void_p(streams[0]), block, None) == 0
    assert raw.cuStreamAddCallback(ctypes.c_void_p(streams[0]), note, None, 0) == 0
    cuda.cuMemsetD32Async(device, 1, 2, streams[1])
    cuda.cuStreamSynchronize(streams[1])
    assert cuda.code("cuStreamQuery", streams[0]) == 600
    released.set()
    cuda.cuStreamSynchronize(streams[0])
    assert order == [("code", NOT_PERMITTED), (streams[0], 0)]
    assert raw.cuStreamAddCallback(None, note, None, 1) == INVALID_VALUE


def test_streams_wait_for_values_in_memory(cuda, raw):
    """Written by the host, by another stream's kernel-side work, and by cuStreamWriteValue."""
    address, numbers = pinned_u64(cuda, 4)
    device = int(cuda.cuMemAlloc(16))
    cuda.cuMemsetD32(device, 0, 4)
    a, b = (int(cuda.cuStreamCreate(1)) for _ in range(2))
    cuda.cuStreamWaitValue64(a, address, 5, 0)
    cuda.cuStreamWriteValue64(a, address + 8, 1 << 40, 0)
    assert cuda.code("cuStreamQuery", a) == 600
    numbers[0] = 4
    assert cuda.code("cuStreamQuery", a) == 600
    numbers[0] = 6
    cuda.cuStreamSynchronize(a)
    assert numbers[1] == 1 << 40
    conditions = ((1, 7, 7), (2, 8, 12), (3, 0xFFFFFFFF, None))
    for flag, awaited, written in conditions:
        cuda.cuMemsetD32(device, 0, 1)
        if written is None:
            cuda.cuMemsetD32(device, 0xFFFFFFFF, 1)
            awaited, written = 0, 1
        cuda.cuCtxSynchronize()  # a non-blocking stream does not wait for the fills
        cuda.cuStreamWaitValue32(a, device, awaited, flag)
        cuda.cuStreamWriteValue32(a, device + 4, flag, 0)
        assert cuda.code("cuStreamQuery", a) == 600, flag
        cuda.cuStreamWriteValue32(b, device, written, 0)
        cuda.cuStreamSynchronize(a)
        got = np.zeros(1, np.uint32)
        cuda.cuMemcpyDtoH(got, device + 4, 4)
        assert got[0] == flag
    assert cuda.code("cuStreamWaitValue32", a, device + 2, 0, 0) == INVALID_VALUE
    assert cuda.code("cuStreamWaitValue32", a, 4096, 0, 0) == INVALID_VALUE
    assert cuda.code("cuStreamWaitValue32", a, device, 0, 1 << 30) == 801


def test_a_context_may_end_while_a_stream_waits_for_its_function(cuda, raw):
    done = []

    @HOST_FUNCTION
    def note(_data):
        done.append(1)

    for _ in range(4):
        context = cuda.cuCtxCreate(None, 0, 0)
        assert raw.cuLaunchHostFunc(None, note, None) == 0
        cuda.cuCtxDestroy(context)
    assert len(done) == 4


def test_old_launch_functions(cuda, raw):
    """Block shape and parameters are state of the function."""
    spin = cuda.cuModuleGetFunction(
        cuda.cuModuleLoadData(ptx_kernels.SPIN.encode() + b"\0"), b"spin"
    )
    function = ctypes.c_void_p(int(spin))
    out = int(cuda.cuMemAlloc(8))
    cuda.cuMemsetD8(out, 0, 8)
    address = ctypes.c_uint64(out)
    assert raw.cuFuncSetBlockShape(function, 1, 1, 1) == 0
    assert raw.cuParamSetv(function, 0, ctypes.byref(address), 8) == 0
    assert raw.cuParamSeti(function, 8, 5) == 0
    assert raw.cuParamSetSize(function, 12) == 0
    assert raw.cuLaunch(function) == 0
    assert raw.cuLaunchGrid(function, 1, 1) == 0
    got = np.zeros(1, np.uint32)
    cuda.cuMemcpyDtoH(got, out, 4)
    assert got[0] == 10
    assert raw.cuParamSetv(function, 32764, ctypes.byref(address), 8) == INVALID_VALUE
    assert raw.cuFuncSetBlockShape(function, 0, 1, 1) == INVALID_VALUE


def test_settings_that_advise_are_kept(cuda):
    prefer = cuda.CUfunc_cache.CU_FUNC_CACHE_PREFER_L1
    cuda.cuCtxSetCacheConfig(prefer)
    assert cuda.cuCtxGetCacheConfig() == prefer
    cuda.cuProfilerStart()
    cuda.cuProfilerStop()
    streams = [cuda.cuStreamCreate(0) for _ in range(2)]
    policy = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY
    value = cuda.CUstreamAttrValue()
    value.syncPolicy = cuda.CUsynchronizationPolicy.CU_SYNC_POLICY_YIELD
    cuda.cuStreamSetAttribute(streams[0], policy, value)
    cuda.cuStreamCopyAttributes(streams[1], streams[0])
    assert int(cuda.cuStreamGetAttribute(streams[1], policy).syncPolicy) == 3


def test_a_copy_in_the_legacy_stream_is_refused_while_a_blocking_stream_captures(cuda):
    stream, out = cuda.cuStreamCreate(0), int(cuda.cuMemAlloc(64))
    data = np.full(16, 7, np.uint32)
    cuda.cuMemsetD8(out, 0, 64)
    for name, end in (("cuMemcpyHtoDAsync", (0,)), ("cuMemcpyHtoD", ())):
        cuda.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode(2))
        assert cuda.code(name, out, data, 64, *end) == CAPTURE_IMPLICIT
        assert cuda.code("cuStreamEndCapture", stream) == CAPTURE_INVALIDATED
    cuda.cuMemcpyDtoH(data, out, 64)
    assert not data.any()


def test_the_capture_of_a_threads_stream_ends_with_the_thread(cuda):
    context, out = cuda.cuCtxGetCurrent(), int(cuda.cuMemAlloc(4))

    def begin():
        cuda.cuCtxSetCurrent(context)
        cuda.cuStreamBeginCapture(PER_THREAD, cuda.CUstreamCaptureMode(2))

    in_thread(begin)
    data = np.zeros(1, np.uint32)
    for flags in (1, 0):  # the index of the ended stream is used again
        stream = cuda.cuStreamCreate(flags)
        cuda.cuMemsetD32Async(out, 5 + flags, 1, stream)
        cuda.cuStreamSynchronize(stream)
        cuda.cuMemcpyDtoH(data, out, 4)
        assert data[0] == 5 + flags


def test_priorities_are_clamped_and_reported(cuda):
    assert [int(one) for one in cuda.cuCtxGetStreamPriorityRange()] == [0, -2]
    streams = [cuda.cuStreamCreateWithPriority(1, wanted) for wanted in (3, 0, -2, -9)]
    assert [int(cuda.cuStreamGetPriority(one)) for one in streams] == [0, 0, -2, -2]
    priority = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PRIORITY
    cuda.cuStreamCopyAttributes(streams[0], streams[2])
    assert int(cuda.cuStreamGetAttribute(streams[0], priority).priority) == -2
    value = cuda.CUstreamAttrValue()
    value.priority = -7
    cuda.cuStreamSetAttribute(streams[0], priority, value)
    assert int(cuda.cuStreamGetPriority(streams[0])) == -2
    for one in streams:
        cuda.cuStreamDestroy(one)
    assert int(cuda.cuStreamGetPriority(cuda.cuStreamCreate(1))) == 0
