"""Kernels that launch graphs: ``device_graphs.py SCENARIO``, which prints what it finds as JSON."""

import ctypes
import json
import os
import sys
import tempfile

from cuda.bindings import driver
from device_launch import NOTE, call, cuda, kernel, launcher, load, read, words

NON_BLOCKING = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
DEVICE_LAUNCH = driver.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH
UPLOAD = driver.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD
AUTO_FREE = driver.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH
TAIL, FIRE, SIBLING = 1 << 56, 2 << 56, 3 << 56
DECLARED = """
.extern .func (.param .b32 status) cudaGraphLaunch(.param .b64 graph, .param .b64 stream);
"""
LAUNCH = call("cudaGraphLaunch", "%r1", "b64 %d1", "b64 %d2")
# launch(graph, stream, status): store the error of the launch.
FIRES = kernel("fires", LAUNCH + "st.b32 [%d3], %r1;", 3)
# late(graph, stream, status): the same after 50 ms.
LATE = kernel("late", """
mov.u32 %r2, 0;
SLEEP: nanosleep.u32 1000000; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 50; @%p1 bra SLEEP;
""" + LAUNCH + "st.b32 [%d3], %r1;", 3)  # fmt: skip
CURRENT = "mov.u64 %d4, %current_graph_exec;\n"
# again(count, limit): count, and launch the kernel's own graph until the limit.
AGAIN = kernel("again", f"""
{CURRENT} atom.add.u32 %r2, [%d1], 1; add.u32 %r2, %r2, 1; cvt.u32.u64 %r3, %d2;
setp.ge.u32 %p1, %r2, %r3; @%p1 ret; mov.b64 %d2, {TAIL};
{call("cudaGraphLaunch", "%r1", "b64 %d4", "b64 %d2")}
""")  # fmt: skip
# which(place): store the graph that the kernel is in.
WHICH = kernel("which", f"{CURRENT} st.b64 [%d1], %d4;", 1)


class Graphs:
    """Graphs of the module's kernels, each after the one before."""

    def __init__(self) -> None:
        self.module = load(DECLARED + NOTE + FIRES + LATE + AGAIN + WHICH)
        self.run = launcher(self.module)
        self.kept: list[object] = []

    def parameters(self, name: str, *values: int) -> driver.CUDA_KERNEL_NODE_PARAMS:
        stored = [ctypes.c_uint64(int(value)) for value in values]
        pointers = (ctypes.c_void_p * len(stored))(*map(ctypes.addressof, stored))
        self.kept += [stored, pointers]
        found = driver.CUDA_KERNEL_NODE_PARAMS()
        found.func = cuda.cuModuleGetFunction(self.module, name.encode())
        found.gridDimX = found.gridDimY = found.gridDimZ = 1
        found.blockDimX = found.blockDimY = found.blockDimZ = 1
        found.kernelParams = ctypes.addressof(pointers)
        return found

    def graph(self, *kernels: tuple[str, *tuple[int, ...]]) -> driver.CUgraph:
        graph, before = cuda.cuGraphCreate(0), []
        for name, *values in kernels:
            given = self.parameters(name, *values)
            before = [cuda.cuGraphAddKernelNode(graph, before, len(before), given)]
        return graph

    def executable(self, *kernels: tuple[str, *tuple[int, ...]]) -> int:
        """Return a graph that kernels can launch, uploaded."""
        made = cuda.cuGraphInstantiate(self.graph(*kernels), DEVICE_LAUNCH)
        cuda.cuGraphUpload(made, 0)
        return int(made)


def order() -> list[int]:
    """Graphs of the tail stream run after all that the others launch."""
    graphs, log, errors = Graphs(), words(16), words(8)
    last = graphs.executable(("note", log, 40))
    first = graphs.executable(("note", log, 10), ("fires", last, TAIL, errors), ("note", log, 11))
    tail = graphs.executable(("note", log, 20))
    sibling = graphs.executable(("note", log, 30))
    whole = graphs.executable(
        ("note", log, 1),
        ("fires", tail, TAIL, errors + 4),
        ("fires", first, FIRE, errors + 8),
        ("fires", sibling, SIBLING, errors + 12),
        ("note", log, 2),
    )
    cuda.cuGraphLaunch(whole, 0)
    graphs.run("note", log, 100)  # the next request of the stream
    return read(log, 10) + read(errors, 4)


def repeat() -> list[int]:
    """A graph launches itself by the tail stream."""
    graphs, count = Graphs(), words(1)
    cuda.cuGraphLaunch(graphs.executable(("again", count, 300)), 0)
    return read(count, 1)


def current() -> list[bool]:
    """The register has the handle in graphs that kernels can launch, and 0 elsewhere."""
    graphs, place = Graphs(), words(6)
    known = graphs.executable(("which", place))
    other = cuda.cuGraphInstantiate(graphs.graph(("which", place + 8)), 0)
    cuda.cuMemsetD32(place, 7, 6)
    cuda.cuGraphLaunch(known, 0)
    cuda.cuGraphLaunch(other, 0)
    graphs.run("which", place + 16)
    seen = [low | high << 32 for low, high in zip(*[iter(read(place, 6))] * 2, strict=True)]
    return [seen[0] == known, seen[1] == 0, seen[2] == 0]


def errors() -> list[int]:
    """Errors of cudaGraphLaunch: of what is launched, where, and from where."""
    graphs, log, found = Graphs(), words(4), words(8)
    known = graphs.executable(("note", log, 1))
    waiting = int(cuda.cuGraphInstantiate(graphs.graph(("note", log, 2)), DEVICE_LAUNCH))
    host = int(cuda.cuGraphInstantiate(graphs.graph(("note", log, 3)), 0))
    gone = graphs.executable(("note", log, 4))
    cuda.cuGraphExecDestroy(gone)
    cases = [(0, FIRE), (waiting, FIRE), (host, FIRE), (gone, FIRE), (known, 0), (known, 3)]
    for place, (graph, stream) in enumerate(cases):
        cuda.cuGraphLaunch(graphs.executable(("fires", graph, stream, found + 4 * place)), 0)
    graphs.run("fires", known, FIRE, found + 24)  # not in a graph
    return read(found, 7) + read(log, 1)


def host() -> list[int]:
    """A graph that only the host launches has kernels that launch graphs; it is not theirs."""
    graphs, log, found = Graphs(), words(5), words(4)
    cuda.cuMemsetD32(found, 7, 4)
    known = graphs.executable(("note", log, 1))
    kernels = ("fires", known, TAIL, found), ("note", log, 2), ("which", found + 8)
    own = int(cuda.cuGraphInstantiate(graphs.graph(*kernels), 0))
    cuda.cuGraphLaunch(own, 0)
    cuda.cuGraphLaunch(own, 0)
    return read(log, 5) + read(found, 4)


def nodes() -> list[int]:
    """A graph with a copy, a fill and a child, after a change of a kernel's parameters."""
    graphs, log, data = Graphs(), words(4), words(4)
    graph = graphs.graph(("note", log, 1))
    (node,), _ = cuda.cuGraphGetNodes(graph, 1)
    fill = driver.CUDA_MEMSET_NODE_PARAMS()
    fill.dst, fill.value, fill.elementSize, fill.width, fill.height = data, 5, 4, 2, 1
    context = cuda.cuCtxGetCurrent()
    filled = cuda.cuGraphAddMemsetNode(graph, [node], 1, fill, context)
    copy = driver.CUDA_MEMCPY3D()
    copy.srcMemoryType = copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcDevice, copy.dstDevice = data, data + 8
    copy.WidthInBytes, copy.Height, copy.Depth = 4, 1, 1
    copied = cuda.cuGraphAddMemcpyNode(graph, [filled], 1, copy, context)
    cuda.cuGraphAddChildGraphNode(graph, [copied], 1, graphs.graph(("note", log, 2)))
    given = driver.CUDA_GRAPH_INSTANTIATE_PARAMS()
    given.flags = int(DEVICE_LAUNCH) | int(UPLOAD)
    inner = int(cuda.cuGraphInstantiateWithParams(graph, given))
    cuda.cuGraphExecKernelNodeSetParams(inner, node, graphs.parameters("note", log, 9))
    cuda.cuGraphUpload(inner, 0)
    cuda.cuGraphLaunch(graphs.executable(("fires", inner, FIRE, data + 12)), 0)
    return read(log, 3) + read(data, 4)


def in_flight() -> list[int]:
    """Graphs that are destroyed or changed while they run keep what they launch."""
    graphs, log, found = Graphs(), words(4), words(2)
    known = graphs.executable(("note", log, 1))
    destroyed = graphs.executable(("late", known, FIRE, found))
    cuda.cuGraphLaunch(destroyed, 0)
    cuda.cuGraphExecDestroy(destroyed)
    changed = graphs.executable(("late", known, FIRE, found + 4))
    cuda.cuGraphLaunch(changed, 0)
    cuda.cuGraphExecUpdate(changed, graphs.graph(("late", known, FIRE, found + 4)))
    cuda.cuGraphUpload(changed, 0)
    return read(log, 3) + read(found, 2)


def lanes() -> list[object]:
    """A graph for the host has a node that a graph for kernels cannot have: what its kernel gets
    from a launch, and what the library prints.
    """
    graphs, log, found = Graphs(), words(4), words(1)
    known = graphs.executable(("note", log, 1))
    graph = graphs.graph(("fires", known, FIRE, found))
    cuda.cuGraphAddEventRecordNode(graph, [], 0, cuda.cuEventCreate(0))
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 2)
        cuda.cuGraphLaunch(cuda.cuGraphInstantiate(graph, 0), 0)
        cuda.cuGraphInstantiate(graph, 0)
        printed.seek(0)
        return [*read(found, 1), printed.read().decode().count("can launch no graphs, because")]


def empty() -> list[int]:
    """Graphs without nodes come and go while a kernel runs that launches one of them."""
    graphs, found = Graphs(), words(1)
    kept = graphs.executable()
    late = graphs.executable(("late", kept, FIRE, words(1)))
    cuda.cuGraphLaunch(late, cuda.cuStreamCreate(NON_BLOCKING))
    for _ in range(300):  # more than can exist at a time
        cuda.cuGraphExecDestroy(graphs.executable())
    cuda.cuMemsetD32(found, 7, 1)
    cuda.cuGraphLaunch(graphs.executable(("fires", kept, FIRE, found)), 0)
    return read(found, 1)


def copies() -> list[int]:
    """Errors of instantiation of copies to a device's, a pinned, a pageable address and an array."""
    load(NOTE)  # which makes a context
    described = driver.CUDA_ARRAY_DESCRIPTOR()
    described.Width, described.NumChannels = 4, 1
    described.Format = driver.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT32
    pageable = ctypes.create_string_buffer(16)
    places = [words(4), cuda.cuMemAllocHost(16), ctypes.addressof(pageable)]
    found = []
    for place in (*places, cuda.cuArrayCreate(described)):
        copy = driver.CUDA_MEMCPY3D()
        copy.srcMemoryType = copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_UNIFIED
        copy.srcDevice, copy.WidthInBytes, copy.Height, copy.Depth = words(4), 16, 1, 1
        if isinstance(place, driver.CUarray):
            copy.dstMemoryType, copy.dstArray = driver.CUmemorytype.CU_MEMORYTYPE_ARRAY, place
        else:
            copy.dstDevice = int(place)
        graph = cuda.cuGraphCreate(0)
        cuda.cuGraphAddMemcpyNode(graph, [], 0, copy, cuda.cuCtxGetCurrent())
        found.append(cuda.code("cuGraphInstantiate", graph, DEVICE_LAUNCH))
    return found


def refusals() -> list[int]:
    """Errors of instantiation (of a node, and of flags that exclude each other), of an upload in a
    stream that captures, and of the end of that capture.
    """
    graphs = Graphs()
    graph, stream = cuda.cuGraphCreate(0), cuda.cuStreamCreate(1)
    cuda.cuGraphAddEventRecordNode(graph, [], 0, cuda.cuEventCreate(0))
    made = cuda.cuGraphInstantiate(graphs.graph(), DEVICE_LAUNCH)
    cuda.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    calls = (
        ("cuGraphInstantiate", graph, DEVICE_LAUNCH),
        ("cuGraphInstantiate", graphs.graph(), int(DEVICE_LAUNCH) | AUTO_FREE),
        ("cuGraphUpload", made, stream),
        ("cuStreamEndCapture", stream),
    )
    return [cuda.code(*one) for one in calls]


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
