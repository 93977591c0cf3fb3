"""Groups of streams: whole contexts, green contexts with some multiprocessors, and priorities."""

import ctypes

import numpy as np
import pytest

from support.kernels import ptx_kernels

INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY = 1, 201, 400, 600
UNSUPPORTED, INVALIDATED, WRONG_TYPE, WRONG_CONFIGURATION, DETACHED = 900, 901, 914, 915, 917
AT_LEAST = 0
NON_BLOCKING, UNTIMED = 1, 2
# place(to): to[0] = %nsmid, and to[1] is the greatest %smid.
KERNEL = (
    ptx_kernels.HEADER
    + """
.visible .entry place(.param .u64 p0)
{
  .reg .b64 %rd; .reg .b32 %r<3>;
  ld.param.u64 %rd, [p0];
  mov.u32 %r0, %nsmid;
  st.global.u32 [%rd], %r0;
  mov.u32 %r1, %smid;
  atom.global.max.u32 %r2, [%rd+4], %r1;
  ret;
}
"""
)


@pytest.fixture
def gate(cuda):
    """A word that the host sees at once; streams wait until it is 1."""
    address = int(cuda.cuMemAllocHost(4))
    word = ctypes.c_uint32.from_address(address)
    word.value = 0
    yield address, word
    word.value = 1
    cuda.cuCtxSynchronize()
    cuda.cuMemFreeHost(address)


@pytest.fixture
def words(cuda):
    memory = int(cuda.cuMemAlloc(16))
    cuda.cuMemsetD32(memory, 0, 4)

    def read() -> list[int]:
        data = np.zeros(4, np.uint32)
        cuda.cuMemcpyDtoH(data, memory, data.nbytes)
        return data.tolist()

    return memory, read


def test_an_event_of_a_context_follows_all_its_streams(cuda, gate):
    address, word = gate
    streams = [cuda.cuStreamCreate(NON_BLOCKING) for _ in range(7)]
    event = cuda.cuEventCreate(UNTIMED)
    context = cuda.cuCtxGetCurrent()
    relaxed = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    cuda.cuStreamBeginCapture(streams[0], relaxed)
    cuda.cuEventRecord(event, streams[0])
    cuda.cuGraphDestroy(cuda.cuStreamEndCapture(streams[0]))
    cuda.cuStreamWaitValue32(streams[4], address, 1, AT_LEAST)
    cuda.cuCtxRecordEvent(context, event)  # replaces the captured record
    assert cuda.code("cuEventQuery", event) == NOT_READY
    word.value = 1
    cuda.cuEventSynchronize(event)


def test_a_context_that_waits_for_an_event_delays_all_later_work(cuda, gate, words):
    """Also work of a stream that is created afterwards."""
    address, word = gate
    memory, read = words
    first, before = (cuda.cuStreamCreate(NON_BLOCKING) for _ in range(2))
    event = cuda.cuEventCreate(0)
    cuda.cuStreamWaitValue32(first, address, 1, AT_LEAST)
    cuda.cuEventRecord(event, first)
    cuda.cuCtxWaitEvent(cuda.cuCtxGetCurrent(), event)
    after = cuda.cuStreamCreate(NON_BLOCKING)
    for i, stream in enumerate((before, after)):
        cuda.cuMemsetD32Async(memory + 4 * i, 1, 1, stream)
        assert cuda.code("cuStreamQuery", stream) == NOT_READY
    word.value = 1
    cuda.cuCtxSynchronize()
    assert read()[:2] == [1, 1]


def test_contexts_that_capture_refuse_events(cuda):
    stream, event = cuda.cuStreamCreate(NON_BLOCKING), cuda.cuEventCreate(0)
    relaxed = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    for name in ("cuCtxRecordEvent", "cuCtxWaitEvent"):
        cuda.cuStreamBeginCapture(stream, relaxed)
        assert cuda.code(name, cuda.cuCtxGetCurrent(), event) == UNSUPPORTED
        assert cuda.code("cuStreamEndCapture", stream) == INVALIDATED
    assert cuda.code("cuCtxRecordEvent", cuda.CUcontext(77), event) == INVALID_CONTEXT


@pytest.mark.parametrize("case", ["created", "copied", "passed by many"])
def test_the_stream_of_higher_priority_starts_first(cuda, gate, words, case):
    """Unless many later requests have passed the other one."""
    address, word = gate
    memory, read = words
    low = cuda.cuStreamCreateWithPriority(NON_BLOCKING, 0)
    high = cuda.cuStreamCreateWithPriority(NON_BLOCKING, -77)
    assert cuda.cuStreamGetPriority(high) == -2
    if case == "copied":
        before = cuda.cuStreamCreate(NON_BLOCKING)
        cuda.cuStreamCopyAttributes(before, high)
        high = before
    # Both wait for one event: the worker may look at a value between its looks at two streams.
    opened, event = cuda.cuStreamCreate(NON_BLOCKING), cuda.cuEventCreate(0)
    cuda.cuStreamWaitValue32(opened, address, 1, AT_LEAST)
    cuda.cuEventRecord(event, opened)
    for value, stream in ((1, low), (2, high)):
        cuda.cuStreamWaitEvent(stream, event, 0)
        for _ in range(3):
            cuda.cuMemsetD32Async(memory, value, 1, stream)
        if case == "passed by many" and stream is low:
            other = cuda.cuStreamCreate(NON_BLOCKING)
            for _ in range(600):
                cuda.cuMemsetD32Async(memory + 4, 1, 1, other)
    word.value = 1
    cuda.cuCtxSynchronize()
    # The stream that comes second is the last to write.
    assert read()[0] == (2 if case == "passed by many" else 1)


@pytest.fixture
def green(cuda):
    """A green context with 8 multiprocessors of the primary context, which is current."""
    kind = cuda.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    whole = cuda.cuDeviceGetDevResource(0, kind)
    groups, count, _rest = cuda.cuDevSmResourceSplitByCount(1, whole, 0, 8)
    assert (count, groups[0].sm.smCount) == (1, 8)
    made = cuda.cuGreenCtxCreate(cuda.cuDevResourceGenerateDesc(groups, 1), 0, 1)
    cuda.cuCtxPushCurrent(cuda.cuDevicePrimaryCtxRetain(0))
    yield made
    cuda.cuCtxPopCurrent()
    cuda.code("cuGreenCtxDestroy", made)
    cuda.cuDevicePrimaryCtxRelease(0)


def test_kernels_of_a_green_context_use_its_multiprocessors(cuda, green, words):
    module = cuda.cuModuleLoadData(KERNEL.encode() + b"\0")
    kernel = cuda.cuModuleGetFunction(module, b"place")
    memory = int(cuda.cuMemAlloc(8))

    def places(run) -> list[int]:
        found = np.zeros(2, np.uint32)
        cuda.cuMemsetD32(memory, 0, 2)
        run()
        cuda.cuCtxSynchronize()
        cuda.cuMemcpyDtoH(found, memory, 8)
        return found.tolist()

    def launch(stream) -> None:
        given = ((memory,), (ctypes.c_uint64,))
        cuda.cuLaunchKernel(kernel, 500, 1, 1, 32, 1, 1, 0, stream, given, 0)

    everything = cuda.cuDeviceGetAttribute(
        cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0
    )
    stream = cuda.cuGreenCtxStreamCreate(green, NON_BLOCKING, 0)
    assert places(lambda: launch(0)) == [everything, everything - 1]
    assert places(lambda: launch(stream)) == [8, 7]
    cuda.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    launch(stream)
    captured = cuda.cuStreamEndCapture(stream)
    graph = cuda.cuGraphInstantiate(captured, 0)
    (node,) = cuda.cuGraphGetRootNodes(captured, 1)[0]
    node_values = cuda.cuGraphKernelNodeGetParams(node)
    cuda.cuGraphExecKernelNodeSetParams(graph, node, node_values)
    assert places(lambda: cuda.cuGraphLaunch(graph, 0)) == [8, 7]
    cuda.cuGraphKernelNodeSetParams(node, node_values)
    graph = cuda.cuGraphInstantiate(captured, 0)
    assert places(lambda: cuda.cuGraphLaunch(graph, 0)) == [8, 7]
    library = cuda.cuLibraryLoadData(KERNEL.encode() + b"\0", [], [], 0, [], [], 0)
    named = cuda.CUDA_KERNEL_NODE_PARAMS()
    named.kern = cuda.cuLibraryGetKernel(library, b"place")
    named.gridDimX, named.blockDimX = 500, 32
    named.gridDimY = named.gridDimZ = named.blockDimY = named.blockDimZ = 1
    named.kernelParams = ((memory,), (ctypes.c_uint64,))
    named.ctx = cuda.cuCtxFromGreenCtx(green)
    by_name = cuda.cuGraphCreate(0)
    cuda.cuGraphAddKernelNode(by_name, [], 0, named)
    graph = cuda.cuGraphInstantiate(by_name, 0)
    assert places(lambda: cuda.cuGraphLaunch(graph, 0)) == [8, 7]
    cuda.cuCtxPushCurrent(cuda.cuCtxFromGreenCtx(green))
    assert places(lambda: launch(0)) == [8, 7]  # its default stream
    assert cuda.cuStreamGetCtx(0) == cuda.cuCtxGetCurrent()
    assert cuda.code("cuStreamGetFlags", cuda.CUstream(2)) == INVALID_HANDLE  # per thread
    cuda.cuCtxPopCurrent()
    cuda.cuGreenCtxDestroy(green)
    assert cuda.code("cuStreamSynchronize", stream) == DETACHED
    assert cuda.code("cuStreamGetFlags", stream) == DETACHED
    cuda.cuStreamDestroy(stream)
    assert cuda.code("cuGreenCtxGetId", green) == INVALID_CONTEXT


def test_events_and_resources_of_a_green_context(cuda, green, gate):
    _address, _word = gate
    kind = cuda.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    inside, outside = cuda.cuGreenCtxStreamCreate(green, NON_BLOCKING, -2), cuda.cuStreamCreate(1)
    assert cuda.cuStreamGetPriority(inside) == -2
    assert int(cuda.cuStreamGetGreenCtx(inside)) == int(green)
    assert not int(cuda.cuStreamGetGreenCtx(outside))
    assert cuda.cuGreenCtxGetDevResource(green, kind).sm.smCount == 8
    assert cuda.cuCtxGetDevResource(cuda.cuCtxFromGreenCtx(green), kind).sm.smCount == 8
    word = int(cuda.cuMemAllocHost(4))
    ctypes.c_uint32.from_address(word).value = 0
    event = cuda.cuEventCreate(UNTIMED)
    cuda.cuStreamWaitValue32(outside, word, 1, AT_LEAST)
    cuda.cuGreenCtxRecordEvent(green, event)
    cuda.cuEventSynchronize(event)  # it does not follow the other streams
    cuda.cuEventRecord(event, outside)
    cuda.cuGreenCtxWaitEvent(green, event)
    assert cuda.code("cuStreamQuery", inside) == NOT_READY
    ctypes.c_uint32.from_address(word).value = 1
    cuda.cuStreamSynchronize(inside)
    cuda.cuStreamDestroy(inside)


def test_misuse_of_resources(cuda):
    sm = cuda.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    queue = cuda.CUdevResourceType.CU_DEV_RESOURCE_TYPE_WORKQUEUE
    whole = cuda.cuDeviceGetDevResource(0, sm)
    assert cuda.code("cuDeviceGetDevResource", 0, queue) == WRONG_TYPE
    assert cuda.code("cuGreenCtxCreate", cuda.CUdevResourceDesc(99), 0, 1) == INVALID_VALUE
    groups, _, rest = cuda.cuDevSmResourceSplitByCount(1, whole, 0, 8)
    assert groups[0].sm.smCount + rest.sm.smCount == whole.sm.smCount
    split = cuda.code("cuDevSmResourceSplitByCount", 1, groups[0], 0, 8)
    assert split == WRONG_CONFIGURATION  # a part, before it is a green context's
    for together in (0, 3, 34, 2**32 - 1):
        forged = cuda.cuDeviceGetDevResource(0, sm)
        forged.sm.smCoscheduledAlignment = together
        assert cuda.code("cuDevSmResourceSplitByCount", 1, forged, 0, 2) == INVALID_VALUE
    forged = cuda.CUdevResource()
    forged.type, forged.sm.smCount = sm, 4
    assert cuda.code("cuDevResourceGenerateDesc", [forged], 1) == INVALID_VALUE


def test_handles_are_aligned_as_pointers_are(cuda):
    """PyTorch takes a stream for one of its own if the lowest bit of its number is set."""
    streams = [cuda.cuStreamCreate(0) for _ in range(5)]
    handles = [int(stream) for stream in streams]
    for stream in streams:
        cuda.cuStreamDestroy(stream)
    assert len(set(handles)) == 5
    assert all(handle % 16 == 0 for handle in handles)
