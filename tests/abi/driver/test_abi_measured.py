"""Answers that were recorded on an H100 80GB HBM3 with driver 580.159 (docs/silicon.md)."""

import ctypes

import pytest

INVALID_VALUE, OUT_OF_MEMORY, UNSUPPORTED_LIMIT, NOT_FOUND = 1, 2, 215, 500
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, CAPTURED_EVENT = 900, 901, 907
GLOBAL, RELAXED, ACTIVE, INVALIDATED = 0, 2, 1, 2
PATTERN = 0x7777


@pytest.fixture
def library(cuda):
    return ctypes.CDLL("libcuda.so.1")


def test_limits_have_the_defaults_of_the_gpu(library):
    value, found = ctypes.c_size_t(), {}
    for limit in (-1, 0, 1, 2, 3, 4, 9, 10):
        status = library.cuCtxGetLimit(ctypes.byref(value), limit)
        found[limit] = status or value.value
    assert found == {
        -1: INVALID_VALUE, 0: 1024, 1: 8650752, 2: 8 << 20, 3: UNSUPPORTED_LIMIT, 4: 2048,
        9: UNSUPPORTED_LIMIT, 10: INVALID_VALUE,
    }  # fmt: skip
    assert library.cuCtxSetLimit(10, ctypes.c_size_t(64)) == INVALID_VALUE


def test_failed_allocations_write_null(library):
    huge, out, pitch = ctypes.c_size_t(1 << 45), ctypes.c_uint64(), ctypes.c_size_t()
    calls = {
        "cuMemAlloc_v2": (huge,),
        "cuMemAllocManaged": (ctypes.c_size_t(64), 0),
        "cuMemHostAlloc": (ctypes.c_size_t(64), 99),
        "cuMemAllocAsync": (huge, None),
        "cuMemAllocPitch_v2": (ctypes.byref(pitch), huge, ctypes.c_size_t(1), 3),
    }
    for name, arguments in calls.items():
        out.value = pitch.value = PATTERN
        status = getattr(library, name)(ctypes.byref(out), *arguments)
        assert status in (INVALID_VALUE, OUT_OF_MEMORY), name
        assert out.value == 0, name
    assert pitch.value == 0


def test_flags_of_pointers_are_four_bytes(cuda, library):
    is_managed, is_mapped = 8, 13
    place = int(cuda.cuMemAlloc(64))
    for attribute, expected in ((is_managed, 0), (is_mapped, 1)):
        found = ctypes.c_uint64(0x7777_7777_7777_7777)
        call = library.cuPointerGetAttribute
        assert call(ctypes.byref(found), attribute, ctypes.c_uint64(place)) == 0
        assert found.value == 0x7777_7777 << 32 | expected
    cuda.cuMemFree(place)
    base = ctypes.c_uint64(PATTERN)
    call = library.cuMemGetAddressRange_v2
    assert call(ctypes.byref(base), None, ctypes.c_uint64(0x1000)) == NOT_FOUND
    assert base.value == 0


@pytest.mark.parametrize("extents", [(0, 4), (64, 0)])
def test_copies_of_nothing_check_neither_side(library, extents):
    rows = (ctypes.c_uint64 * 16)()  # both memory types are 0, which is no type
    rows[14], rows[15] = extents
    assert library.cuMemcpy2D_v2(rows) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda cuda, one: cuda.code("cuStreamQuery", one["other"]),
        lambda cuda, one: cuda.code("cuCtxSetLimit", cuda.CUlimit(0), 2048),
        lambda cuda, one: cuda.code("cuMemPoolTrimTo", cuda.cuDeviceGetDefaultMemPool(0), 0),
        lambda cuda, one: cuda.code("cuGraphInstantiate", one["graph"], 0),
        lambda cuda, one: cuda.code("cuMemHostUnregister", 0x1000),
    ],
    ids=["query", "limit", "trim", "instantiate", "unregister"],
)
def test_unsafe_calls_invalidate_captures(cuda, call):
    made = {"other": cuda.cuStreamCreate(1), "graph": cuda.cuGraphCreate(0)}
    stream = cuda.cuStreamCreate(1)
    cuda.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode(GLOBAL))
    assert call(cuda, made) == CAPTURE_UNSUPPORTED
    assert cuda.code("cuStreamEndCapture", stream) == CAPTURE_INVALIDATED
    cuda.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode(RELAXED))
    assert call(cuda, made) != CAPTURE_UNSUPPORTED
    cuda.cuStreamEndCapture(stream)


def test_events_of_captures_have_no_times(cuda):
    stream, event = cuda.cuStreamCreate(1), cuda.cuEventCreate(0)
    before = cuda.cuEventCreate(0)
    cuda.cuEventRecord(before, stream)
    cuda.cuStreamSynchronize(stream)
    cuda.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode(RELAXED))
    cuda.cuEventRecord(event, stream)
    assert cuda.code("cuEventElapsedTime", before, event) == CAPTURED_EVENT
    assert int(cuda.cuStreamIsCapturing(stream)) == ACTIVE
    assert cuda.code("cuEventQuery", event) == CAPTURED_EVENT
    assert int(cuda.cuStreamIsCapturing(stream)) == INVALIDATED
    assert cuda.code("cuStreamEndCapture", stream) == CAPTURE_INVALIDATED


def test_the_width_of_linear_textures_is_limited_by_bytes(library):
    found, is_float = ctypes.c_size_t(), 0x20
    widths = {}
    for channels in (1, 2, 4):
        call = library.cuDeviceGetTexture1DLinearMaxWidth
        assert call(ctypes.byref(found), is_float, channels, 0) == 0
        widths[channels] = found.value
    assert widths == {1: 1 << 30, 2: 1 << 29, 4: 1 << 28}
