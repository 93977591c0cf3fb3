"""Graphs and stream capture: what they run is what the same calls run eagerly."""

import ctypes
import random
import threading
import time

import numpy as np
import pytest

from support.fuzzers import graph_replay
from support.fuzzers.graph_replay import WORDS, Operations, random_operations

INVALID_VALUE = 1
ILLEGAL_STATE = 401
UNSUPPORTED, INVALIDATED, UNMATCHED, UNJOINED, ISOLATION, IMPLICIT, CAPTURED_EVENT = (
    900,
    901,
    903,
    904,
    905,
    906,
    907,
)
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@pytest.fixture
def raw(cuda, libraries):
    return ctypes.CDLL(str(libraries / "libcuda.so.1"))


@pytest.fixture
def operations(cuda):
    return Operations(cuda)


@pytest.mark.parametrize("seeds", [range(4), range(4, 8), range(8, 12)])
def test_a_random_graph_computes_what_its_operations_do_in_order(operations, seeds):
    """A short run of the fuzzer of graphs; ``make fuzz graph=1`` runs a long one."""
    for seed in seeds:
        graph_replay.compare(operations, seed)


@pytest.mark.parametrize("seed", range(6))
def test_captured_streams_replay_what_they_would_have_run(cuda, operations, seed):
    """Work of three streams, ordered by events; the first stream is the origin."""
    source = random.Random(seed)
    streams = [cuda.cuStreamCreate(1) for _ in range(3)]
    events = [cuda.cuEventCreate(2) for _ in range(60)]
    script = []
    for operation in random_operations(source, 40):
        script.append((operation, source.randrange(3)))

    def play() -> None:
        unused = iter(events)
        cuda.cuEventRecord(fork := next(unused), streams[0])
        for stream in streams[1:]:
            cuda.cuStreamWaitEvent(stream, fork, 0)
        previous = 0
        for operation, which in script:  # every operation comes after the previous one
            if which != previous:
                cuda.cuEventRecord(event := next(unused), streams[previous])
                cuda.cuStreamWaitEvent(streams[which], event, 0)
            operations.enqueue(operation, streams[which])
            previous = which
        for stream in streams[1:]:
            cuda.cuEventRecord(event := next(unused), stream)
            cuda.cuStreamWaitEvent(streams[0], event, 0)

    operations.reset()
    play()
    cuda.cuStreamSynchronize(streams[0])
    expected = operations.read()
    operations.reset()
    before = operations.read()
    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
    cuda.cuStreamBeginCapture(streams[0], mode)
    play()
    graph = cuda.cuStreamEndCapture(streams[0])
    assert operations.read() == before  # nothing ran
    executable = cuda.cuGraphInstantiate(graph, 0)
    cuda.cuGraphLaunch(executable, streams[2])
    cuda.cuStreamSynchronize(streams[2])
    assert operations.read() == expected


def test_errors_of_capture(cuda, operations):
    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    a, b = (cuda.cuStreamCreate(1) for _ in range(2))
    blocking = cuda.cuStreamCreate(0)
    event = cuda.cuEventCreate(2)
    fill = ("fill", 0, 0, 1)
    assert cuda.code("cuStreamEndCapture", a) == ILLEGAL_STATE
    assert cuda.code("cuStreamBeginCapture", 0, mode) == UNSUPPORTED
    cuda.cuStreamBeginCapture(a, mode)
    assert cuda.code("cuStreamBeginCapture", a, mode) == ILLEGAL_STATE
    assert cuda.code("cuStreamSynchronize", a) == UNSUPPORTED
    assert cuda.code("cuStreamEndCapture", a) == INVALIDATED
    # A stream that joined must be joined again.
    cuda.cuStreamBeginCapture(a, mode)
    cuda.cuEventRecord(event, a)
    cuda.cuStreamWaitEvent(b, event, 0)
    operations.enqueue(fill, b)
    assert cuda.code("cuStreamEndCapture", b) == UNMATCHED
    assert cuda.code("cuStreamEndCapture", a) == INVALIDATED
    cuda.cuStreamBeginCapture(a, mode)
    cuda.cuEventRecord(event, a)
    assert cuda.code("cuEventQuery", event) == CAPTURED_EVENT
    assert cuda.code("cuStreamEndCapture", a) == INVALIDATED
    cuda.cuStreamBeginCapture(a, mode)
    cuda.cuEventRecord(event, a)
    cuda.cuStreamWaitEvent(b, event, 0)
    operations.enqueue(fill, b)
    assert cuda.code("cuStreamEndCapture", a) == UNJOINED
    # A stream that was joined may be destroyed; another one may not.
    for joined in (True, False):
        fork = cuda.cuStreamCreate(1)
        cuda.cuStreamBeginCapture(a, mode)
        cuda.cuEventRecord(event, a)
        cuda.cuStreamWaitEvent(fork, event, 0)
        operations.enqueue(fill, fork)
        if joined:
            cuda.cuEventRecord(event, fork)
            cuda.cuStreamWaitEvent(a, event, 0)
        cuda.cuStreamDestroy(fork)
        assert cuda.code("cuStreamEndCapture", a) == (0 if joined else UNJOINED)
    # Work outside of the capture cannot be waited for, nor the legacy stream be used.
    cuda.cuEventRecord(event, b)
    cuda.cuStreamBeginCapture(a, mode)
    assert cuda.code("cuStreamWaitEvent", a, event, 0) == ISOLATION
    assert cuda.code("cuStreamEndCapture", a) == INVALIDATED
    cuda.cuStreamBeginCapture(blocking, mode)
    assert cuda.code("cuMemsetD32Async", operations.at(0), 1, 1, 0) == IMPLICIT
    assert cuda.code("cuStreamEndCapture", blocking) == INVALIDATED
    operations.enqueue(fill, blocking)  # it runs again
    cuda.cuStreamBeginCapture(b, mode)
    assert cuda.code("cuStreamQuery", b) == UNSUPPORTED
    assert cuda.code("cuStreamEndCapture", b) == INVALIDATED
    cuda.cuStreamBeginCapture(b, mode)
    cuda.cuStreamDestroy(b)
    cuda.cuCtxSynchronize()


def test_pageable_memory_and_host_functions_in_graphs(cuda, raw, operations):
    """Both run when the graph has reached them, and see the memory as it is then."""
    stream = cuda.cuStreamCreate(1)
    source, target = np.arange(WORDS, dtype=np.uint32), np.zeros(WORDS, np.uint32)
    seen = []

    @HOST_FUNCTION
    def note(_data):
        seen.append(target.tolist())

    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    cuda.cuStreamBeginCapture(stream, mode)
    cuda.cuMemcpyHtoDAsync(operations.memory, source, source.nbytes, stream)
    operations.enqueue(("kernel", 3, 2, 5), stream)
    cuda.cuMemcpyDtoHAsync(target, operations.memory, target.nbytes, stream)
    assert raw.cuLaunchHostFunc(ctypes.c_void_p(int(stream)), note, None) == 0
    graph = cuda.cuStreamEndCapture(stream)
    assert cuda.cuGraphGetNodes(graph, 0)[1] == 4
    executable = cuda.cuGraphInstantiate(graph, 0)
    expected = []
    for i in range(5):
        source[:] = np.arange(WORDS) + 100 * i
        cuda.cuGraphLaunch(executable, stream)
        cuda.cuStreamSynchronize(stream)
        data = (np.arange(WORDS) + 100 * i).tolist()
        data[3] = data[3] * 31 + data[2] * 5 + 1
        expected.append(data)
    assert seen == expected


def test_an_executable_graph_can_be_changed(cuda, operations):
    stream = cuda.cuStreamCreate(1)
    graph = cuda.cuGraphCreate(0)
    first = operations.add(graph, [], ("fill", 0, 0, 7))
    second = operations.add(graph, [first], ("kernel", 1, 0, 2))
    executable = cuda.cuGraphInstantiate(graph, 0)

    def run() -> list[int]:
        operations.reset()
        cuda.cuGraphLaunch(executable, stream)
        cuda.cuStreamSynchronize(stream)
        return operations.read()[:2]

    assert run() == [7, 2 * 31 + 7 * 2 + 1]
    node = cuda.cuGraphKernelNodeGetParams(second)
    node.kernelParams = operations.parameters(1, 0, 3)
    cuda.cuGraphExecKernelNodeSetParams(executable, second, node)
    assert run() == [7, 2 * 31 + 7 * 3 + 1]
    cuda.cuGraphNodeSetEnabled(executable, second, 0)
    assert cuda.cuGraphNodeGetEnabled(executable, second) == 0
    assert run() == [7, 2]
    cuda.cuGraphNodeSetEnabled(executable, second, 1)
    other = cuda.cuGraphCreate(0)
    operations.add(other, [operations.add(other, [], ("fill", 0, 0, 9))], ("kernel", 1, 0, 4))
    info = cuda.cuGraphExecUpdate(executable, other)
    assert int(info.result) == 0
    assert run() == [9, 2 * 31 + 9 * 4 + 1]
    cuda.cuGraphAddEmptyNode(other, [], 0)
    assert cuda.code("cuGraphExecUpdate", executable, other) == 910


def test_child_graphs_clones_and_edges(cuda, operations, tmp_path):
    stream = cuda.cuStreamCreate(1)
    child = cuda.cuGraphCreate(0)
    inner = operations.add(child, [], ("kernel", 0, 0, 1))
    graph = cuda.cuGraphCreate(0)
    fill = operations.add(graph, [], ("fill", 0, 0, 3))
    nested = cuda.cuGraphAddChildGraphNode(graph, [fill], 1, child)
    last = operations.add(graph, [nested], ("copy", 1, 0, 0))
    cuda.cuGraphDestroyNode(inner)  # the child was copied
    clone = cuda.cuGraphClone(graph)
    found = cuda.cuGraphNodeFindInClone(last, clone)
    assert int(cuda.cuGraphNodeGetType(found)) == 1
    assert cuda.cuGraphGetRootNodes(clone, 0)[1] == 1
    path = tmp_path / "graph.dot"
    cuda.cuGraphDebugDotPrint(clone, str(path).encode(), 0)
    assert path.read_text().count(" -> ") == 2
    executable = cuda.cuGraphInstantiate(clone, 0)
    cuda.cuGraphLaunch(executable, stream)
    cuda.cuStreamSynchronize(stream)
    assert operations.read()[:2] == [3 * 31 + 3 + 1] * 2
    none = [cuda.CUgraphEdgeData()]
    assert cuda.code("cuGraphAddDependencies", graph, [last], [fill], none, 1) == INVALID_VALUE
    assert cuda.code("cuGraphAddDependencies", graph, [fill], [fill], none, 1) == INVALID_VALUE
    assert cuda.code("cuGraphAddDependencies", graph, [fill], [found], none, 1) == INVALID_VALUE
    cuda.cuGraphAddDependencies(graph, [fill], [last], none, 1)
    cuda.cuGraphRemoveDependencies(graph, [fill], [last], none, 1)
    cuda.cuGraphDestroy(graph)
    assert cuda.code("cuGraphNodeGetType", last) == INVALID_VALUE


def test_user_objects_live_as_long_as_the_graphs_that_hold_them(cuda, raw):
    freed = []

    @HOST_FUNCTION
    def free(data):
        freed.append(data)

    made = ctypes.c_uint64()
    assert raw.cuUserObjectCreate(ctypes.byref(made), ctypes.c_void_p(77), free, 2, 1) == 0
    graph = cuda.cuGraphCreate(0)
    held = ctypes.c_void_p(made.value)
    assert raw.cuGraphRetainUserObject(ctypes.c_void_p(int(graph)), held, 1, 1) == 0
    executable = cuda.cuGraphInstantiate(graph, 0)
    cuda.cuGraphDestroy(graph)
    assert raw.cuUserObjectRelease(held, 1) == 0
    assert not freed
    cuda.cuGraphExecDestroy(executable)
    assert freed == [77]
    assert raw.cuUserObjectRelease(held, 1) == INVALID_VALUE


def test_memory_of_a_graph_has_its_address_from_the_beginning(cuda, operations):
    """It is freed with the last graph that has the node."""
    stream = cuda.cuStreamCreate(1)
    graph = cuda.cuGraphCreate(0)
    wanted = cuda.CUDA_MEM_ALLOC_NODE_PARAMS()
    wanted.poolProps.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.poolProps.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.bytesize = 8 << 20
    node = cuda.cuGraphAddMemAllocNode(graph, [], 0, wanted)
    address = int(cuda.cuGraphMemAllocNodeGetParams(node).dptr)
    fill = cuda.CUDA_MEMSET_NODE_PARAMS()
    fill.dst, fill.value, fill.elementSize, fill.width, fill.height = address, 5, 4, 4, 1
    filled = cuda.cuGraphAddMemsetNode(graph, [node], 1, fill, operations.context)
    copy = cuda.CUDA_MEMCPY3D()
    copy.srcMemoryType = copy.dstMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcDevice, copy.dstDevice = address, operations.at(0)
    copy.WidthInBytes, copy.Height, copy.Depth = 16, 1, 1
    copied = cuda.cuGraphAddMemcpyNode(graph, [filled], 1, copy, operations.context)
    cuda.cuGraphAddMemFreeNode(graph, [copied], 1, address)
    executable = cuda.cuGraphInstantiate(graph, 0)
    assert cuda.code("cuGraphClone", graph) == 801
    cuda.cuGraphDestroy(graph)
    for _ in range(2):
        cuda.cuGraphLaunch(executable, stream)
    cuda.cuStreamSynchronize(stream)
    assert operations.read()[:4] == [5] * 4
    free = cuda.cuMemGetInfo()[0]
    cuda.cuGraphExecDestroy(executable)
    assert cuda.cuMemGetInfo()[0] >= free + (8 << 20)


def allocation_node(cuda, graph, size: int):
    """Add a node that allocates; return it and its address."""
    wanted = cuda.CUDA_MEM_ALLOC_NODE_PARAMS()
    wanted.poolProps.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.poolProps.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.bytesize = size
    node = cuda.cuGraphAddMemAllocNode(graph, [], 0, wanted)
    return node, int(cuda.cuGraphMemAllocNodeGetParams(node).dptr)


def fill_node(cuda, operations, graph, after, address: int, value: int):
    fill = cuda.CUDA_MEMSET_NODE_PARAMS()
    fill.dst, fill.value, fill.elementSize, fill.width, fill.height = address, value, 4, 4, 1
    return cuda.cuGraphAddMemsetNode(graph, after, len(after), fill, operations.context)


@pytest.mark.parametrize("size", [900 << 10, 3 << 20])
def test_memory_of_a_graph_that_the_program_frees_stays_the_graphs(cuda, operations, size):
    """A later launch allocates it again, and destruction frees nothing of others."""
    stream = cuda.cuStreamCreate(1)
    graph = cuda.cuGraphCreate(0)
    node, address = allocation_node(cuda, graph, size)
    fill_node(cuda, operations, graph, [node], address, 5)
    executable = cuda.cuGraphInstantiate(graph, 0)
    cuda.cuGraphLaunch(executable, stream)
    cuda.cuMemFreeAsync(address, stream)
    cuda.cuStreamSynchronize(stream)
    mine = int(cuda.cuMemAlloc(size))
    assert mine != address
    cuda.cuMemsetD32(mine, 9, 4)
    cuda.cuGraphLaunch(executable, stream)
    cuda.cuMemFree(address)
    data = np.zeros(4, np.uint32)
    cuda.cuMemcpyDtoH(data, mine, 16)
    assert data.tolist() == [9] * 4
    cuda.cuGraphExecDestroy(executable)
    cuda.cuGraphDestroy(graph)
    assert int(cuda.cuMemAlloc(size)) != mine


def test_the_graph_of_a_capture_into_it_need_not_be_returned(cuda, raw, operations):
    stream, graph = cuda.cuStreamCreate(1), cuda.cuGraphCreate(0)
    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    cuda.cuStreamBeginCaptureToGraph(stream, graph, [], [], 0, mode)
    operations.enqueue(("fill", 0, 0, 1), stream)
    assert raw.cuStreamEndCapture(ctypes.c_void_p(int(stream)), None) == 0
    cuda.cuStreamBeginCapture(stream, mode)
    assert raw.cuStreamEndCapture(ctypes.c_void_p(int(stream)), None) == INVALID_VALUE
    cuda.cuGraphDestroy(cuda.cuStreamEndCapture(stream))
    cuda.cuGraphDestroy(graph)


def test_a_graph_with_a_child_that_captures_cannot_be_destroyed(cuda, operations):
    stream = cuda.cuStreamCreate(1)
    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    graph, inner = cuda.cuGraphCreate(0), cuda.cuGraphCreate(0)
    node = cuda.cuGraphAddChildGraphNode(graph, [], 0, inner)
    child = cuda.cuGraphChildGraphNodeGetGraph(node)
    cuda.cuStreamBeginCaptureToGraph(stream, child, [], [], 0, mode)
    assert cuda.code("cuGraphDestroy", graph) == INVALID_VALUE
    assert cuda.code("cuGraphDestroyNode", node) == INVALID_VALUE
    assert cuda.code("cuGraphInstantiate", graph, 0) == INVALID_VALUE
    operations.enqueue(("fill", 0, 0, 1), stream)
    cuda.cuStreamEndCapture(stream)
    cuda.cuGraphDestroy(graph)


def test_a_launch_that_a_capture_refuses_keeps_nothing(cuda, raw):
    """The copy of the graph that would have become a child graph ends with the refusal."""
    freed = []

    @HOST_FUNCTION
    def free(data):
        freed.append(data)

    stream, graph = cuda.cuStreamCreate(1), cuda.cuGraphCreate(0)
    user_object = ctypes.c_uint64()
    assert raw.cuUserObjectCreate(ctypes.byref(user_object), ctypes.c_void_p(77), free, 1, 1) == 0
    retained = ctypes.c_void_p(int(graph)), ctypes.c_void_p(user_object.value)
    assert raw.cuGraphRetainUserObject(*retained, 1, 1) == 0
    executable = cuda.cuGraphInstantiate(graph, 0)
    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    cuda.cuStreamBeginCapture(stream, mode)
    assert cuda.code("cuStreamSynchronize", stream) == UNSUPPORTED
    assert cuda.code("cuGraphLaunch", executable, stream) == INVALIDATED
    assert cuda.code("cuStreamEndCapture", stream) == INVALIDATED
    cuda.cuGraphExecDestroy(executable)
    assert not freed
    cuda.cuGraphDestroy(graph)
    assert freed == [77]


class Gate:
    """A word in pinned memory for which streams and nodes wait."""

    def __init__(self, cuda, raw) -> None:
        self.cuda, self.raw = cuda, raw
        self.word = int(cuda.cuMemHostAlloc(4, 0))
        ctypes.memset(self.word, 0, 4)

    def hold(self, stream) -> None:
        self.cuda.cuStreamWaitValue32(stream, self.word, 1, 0)

    def open(self) -> None:
        ctypes.memset(self.word, 1, 1)

    def node(self, graph, operation: int) -> None:
        """Add a node that waits for the word (1) or writes it (2)."""
        one = (ctypes.c_uint64 * 8)(operation, self.word, 1, 0)  # the union's fields
        values = (ctypes.c_uint64 * 4)(int(self.cuda.cuCtxGetCurrent()), 1, ctypes.addressof(one))
        made = ctypes.c_void_p()
        assert (
            self.raw.cuGraphAddBatchMemOpNode(
                ctypes.byref(made), ctypes.c_void_p(int(graph)), None, ctypes.c_size_t(0), values
            )
            == 0
        )


@pytest.fixture
def gate(cuda, raw):
    made = Gate(cuda, raw)
    yield made
    made.open()
    cuda.cuCtxSynchronize()


def ends(cuda, stream) -> bool:
    """Whether the stream's work ends soon."""
    for _ in range(200):
        if cuda.code("cuStreamQuery", stream) == 0:
            return True
        time.sleep(0.01)
    return False


def test_graphs_in_different_streams_do_not_wait_for_each_other(cuda, gate):
    """One waits for what the other writes, in branches that could share a ring."""
    first, second = cuda.cuStreamCreate(1), cuda.cuStreamCreate(1)
    executables = []
    for operation in (1, 2):
        graph = cuda.cuGraphCreate(0)
        cuda.cuGraphAddEmptyNode(graph, [], 0)
        gate.node(graph, operation)
        executables.append(cuda.cuGraphInstantiate(graph, 0))
    cuda.cuGraphLaunch(executables[0], first)
    cuda.cuGraphLaunch(executables[1], second)
    assert ends(cuda, second)
    assert ends(cuda, first)


def test_what_a_launch_needs_lives_until_the_launch_is_done(cuda, raw, operations, gate):
    """Destruction neither waits for the launch nor takes away its objects and memory."""
    stream = cuda.cuStreamCreate(1)
    freed = threading.Event()
    seen = []

    @HOST_FUNCTION
    def free(_data):
        freed.set()

    @HOST_FUNCTION
    def note(_data):
        seen.append(freed.is_set())

    made = ctypes.c_uint64()
    assert raw.cuUserObjectCreate(ctypes.byref(made), None, free, 1, 1) == 0
    graph = cuda.cuGraphCreate(0)
    handle = ctypes.c_void_p(int(graph))
    assert raw.cuGraphRetainUserObject(handle, ctypes.c_void_p(made.value), 1, 1) == 0
    node, address = allocation_node(cuda, graph, 8 << 20)
    last = fill_node(cuda, operations, graph, [node], address, 5)
    host = (ctypes.c_void_p * 2)(ctypes.cast(note, ctypes.c_void_p), None)
    after = (ctypes.c_void_p * 1)(int(last))
    added = ctypes.c_void_p()
    assert raw.cuGraphAddHostNode(ctypes.byref(added), handle, after, ctypes.c_size_t(1), host) == 0
    executable = cuda.cuGraphInstantiate(graph, 0)
    gate.hold(stream)
    cuda.cuGraphLaunch(executable, stream)
    cuda.cuGraphDestroy(graph)
    cuda.cuGraphExecDestroy(executable)
    assert not freed.is_set()
    gate.open()
    cuda.cuStreamSynchronize(stream)
    assert freed.wait(10)
    assert seen == [False]


def test_captured_host_functions_and_waits_are_replaced_like_described_ones(cuda, raw, operations):
    calls = []

    @HOST_FUNCTION
    def note(data):
        calls.append(data or 0)

    stream, event, other_event = (
        cuda.cuStreamCreate(1),
        cuda.cuEventCreate(2),
        cuda.cuEventCreate(2),
    )
    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    cuda.cuStreamBeginCapture(stream, mode)
    cuda.cuStreamWaitEvent(stream, event, 1)  # CU_EVENT_WAIT_EXTERNAL
    assert raw.cuLaunchHostFunc(ctypes.c_void_p(int(stream)), note, ctypes.c_void_p(1)) == 0
    graph = cuda.cuStreamEndCapture(stream)
    nodes, _ = cuda.cuGraphGetNodes(graph, 2)
    kinds = cuda.CUgraphNodeType
    by_kind = {cuda.cuGraphNodeGetType(node): node for node in nodes}
    wait = by_kind[kinds.CU_GRAPH_NODE_TYPE_WAIT_EVENT]
    host = ctypes.c_void_p(int(by_kind[kinds.CU_GRAPH_NODE_TYPE_HOST]))
    executable = cuda.cuGraphInstantiate(graph, 0)
    handle = ctypes.c_void_p(int(executable))
    function = ctypes.cast(note, ctypes.c_void_p)
    assert raw.cuGraphExecHostNodeSetParams(handle, host, (ctypes.c_void_p * 2)(function, 2)) == 0
    cuda.cuGraphExecEventWaitNodeSetEvent(executable, wait, other_event)
    cuda.cuGraphLaunch(executable, stream)
    described = cuda.cuGraphCreate(0)
    first = cuda.cuGraphAddEventWaitNode(described, [], 0, event)
    after, added = (ctypes.c_void_p * 1)(int(first)), ctypes.c_void_p()
    replacement = (ctypes.c_void_p * 2)(function, 3)
    target = ctypes.c_void_p(int(described))
    one = ctypes.c_size_t(1)
    assert raw.cuGraphAddHostNode(ctypes.byref(added), target, after, one, replacement) == 0
    cuda.cuGraphExecUpdate(executable, described)
    cuda.cuGraphLaunch(executable, stream)
    cuda.cuStreamSynchronize(stream)
    assert calls == [2, 3]


def test_a_graph_refuses_copies_of_another_contexts_memory(cuda, operations):
    """Nothing would keep that memory until the launch gets there."""
    here = operations.context
    other = cuda.cuCtxCreate(None, 0, 0)
    there = int(cuda.cuMemAlloc(16))
    cuda.cuCtxPopCurrent()
    copy = cuda.CUDA_MEMCPY3D()
    copy.srcMemoryType = copy.dstMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_UNIFIED
    copy.srcDevice, copy.dstDevice = there, operations.at(0)
    copy.WidthInBytes, copy.Height, copy.Depth = 16, 1, 1
    graph = cuda.cuGraphCreate(0)
    cuda.cuGraphAddMemcpyNode(graph, [], 0, copy, here)
    executable = cuda.cuGraphInstantiate(graph, 0)
    assert cuda.code("cuGraphLaunch", executable, cuda.cuStreamCreate(1)) == 801
    cuda.cuCtxDestroy(other)


def test_unsafe_calls_are_forbidden_as_the_modes_of_capture_and_thread_say(cuda, raw):
    """cuMemAlloc and cuEventQuery, of the thread that captures and of another one."""
    modes = cuda.CUstreamCaptureMode
    everywhere = modes.CU_STREAM_CAPTURE_MODE_GLOBAL
    here = modes.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    relaxed = modes.CU_STREAM_CAPTURE_MODE_RELAXED
    stream, event = cuda.cuStreamCreate(1), cuda.cuEventCreate(2)
    context = cuda.cuCtxGetCurrent()
    found: list[int] = []

    def query() -> None:
        cuda.cuCtxSetCurrent(context)
        found.append(cuda.code("cuEventQuery", event))

    for mode, own, others, result in (
        (everywhere, UNSUPPORTED, UNSUPPORTED, INVALIDATED),
        (here, UNSUPPORTED, 0, INVALIDATED),
        (relaxed, 0, 0, 0),
    ):
        cuda.cuStreamBeginCapture(stream, mode)
        thread = threading.Thread(target=query)
        thread.start()
        thread.join()
        assert found.pop() == others
        assert cuda.code("cuMemAlloc", 4) == own
        assert cuda.code("cuStreamEndCapture", stream) == result
    pool = cuda.cuDeviceGetDefaultMemPool(0)
    attribute = cuda.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    module = cuda.cuModuleLoadData(b".version 7.0\n.target sm_70\n.address_size 64\n")
    for call in (
        ("cuMemPoolGetAttribute", pool, attribute),
        ("cuMemPoolSetAttribute", pool, attribute, cuda.cuuint64_t(0)),
        ("cuModuleUnload", module),
    ):
        cuda.cuStreamBeginCapture(stream, everywhere)
        assert cuda.code(*call) == UNSUPPORTED
        assert cuda.code("cuStreamEndCapture", stream) == INVALIDATED
        assert cuda.code(*call) == 0
    cuda.cuStreamBeginCapture(stream, everywhere)
    before = cuda.cuThreadExchangeStreamCaptureMode(relaxed)
    cuda.cuMemFree(cuda.cuMemAlloc(4))
    assert int(cuda.cuThreadExchangeStreamCaptureMode(before)) == int(relaxed)
    cuda.cuStreamEndCapture(stream)
