"""Streams: per-thread default streams, host functions, values in memory."""

import ctypes
import threading

import numpy as np
import pytest

from support.kernels import ptx_kernels

PER_THREAD = 2


@pytest.fixture
def raw(cuda, libraries):
    """The library itself, for symbols that cuda.bindings does not call."""
    return ctypes.CDLL(str(libraries / "libcuda.so.1"))


def in_thread(work):
    """Run ``work`` in a new thread and return its result."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
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
