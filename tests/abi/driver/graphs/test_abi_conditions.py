"""Conditional nodes of graphs: if, else, while and switch, and what may be done with them."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from support.kernels import ptx_kernels

INVALID_VALUE, NOT_SUPPORTED = 1, 801
IF, WHILE, SWITCH = range(3)
WORDS = 8
# count(words, handle): words[0] counts calls, words[1] counts down, and the value is words[1].
# set(handle, value, word): store the value, add 1 to the word. The block of 160 bytes does not fit
# into one slot.
KERNELS = (
    ptx_kernels.HEADER
    + """
.extern .func cudaGraphSetConditional (.param .b64 p0, .param .b32 p1);
.visible .entry count(.param .u64 p0, .param .u64 p1)
{
  .reg .b64 %rd<2>; .reg .b32 %r<3>;
  ld.param.u64 %rd0, [p0];
  ld.param.u64 %rd1, [p1];
  ld.global.u32 %r0, [%rd0];
  add.u32 %r0, %r0, 1;
  st.global.u32 [%rd0], %r0;
  ld.global.u32 %r1, [%rd0+4];
  sub.u32 %r1, %r1, 1;
  st.global.u32 [%rd0+4], %r1;
  { .param .b64 a; .param .b32 b;
    st.param.b64 [a], %rd1; st.param.b32 [b], %r1;
    call.uni cudaGraphSetConditional, (a, b); }
  ret;
}
.visible .entry set(.param .u64 p0, .param .u64 p1, .param .u32 p2, .param .align 8 .b8 p3[160])
{
  .reg .b64 %rd<2>; .reg .b32 %r<3>;
  ld.param.u64 %rd0, [p0];
  ld.param.u64 %rd1, [p1];
  ld.param.u32 %r0, [p2];
  ld.param.u32 %r1, [p3+156];
  ld.global.u32 %r2, [%rd0];
  add.u32 %r2, %r2, %r1;
  st.global.u32 [%rd0], %r2;
  { .param .b64 a; .param .b32 b;
    st.param.b64 [a], %rd1; st.param.b32 [b], %r0;
    call.uni cudaGraphSetConditional, (a, b); }
  ret;
}
"""
)


class Block(ctypes.Structure):
    _fields_ = (("unused", ctypes.c_uint32 * 39), ("step", ctypes.c_uint32))


@pytest.fixture
def device(cuda):
    module = cuda.cuModuleLoadData(KERNELS.encode() + b"\0")
    memory = int(cuda.cuMemAlloc(4 * WORDS))
    cuda.cuMemsetD32(memory, 0, WORDS)
    context = cuda.cuCtxGetCurrent()

    def read() -> list[int]:
        data = np.zeros(WORDS, np.uint32)
        cuda.cuCtxSynchronize()
        cuda.cuMemcpyDtoH(data, memory, data.nbytes)
        return data.tolist()

    def kernel(graph, after, name: str, *given) -> object:
        node = cuda.CUDA_KERNEL_NODE_PARAMS()
        node.func = cuda.cuModuleGetFunction(module, name.encode())
        node.gridDimX = node.gridDimY = node.gridDimZ = 1
        node.blockDimX = node.blockDimY = node.blockDimZ = 1
        kinds = (ctypes.c_uint64, ctypes.c_uint64)
        if name == "set":
            kinds += (ctypes.c_uint32, None)
            given += (Block(step=1),)
        node.kernelParams = (given, kinds)
        return cuda.cuGraphAddKernelNode(graph, after, len(after), node)

    def fill(graph, after, word: int, value: int) -> object:
        node = cuda.CUDA_MEMSET_NODE_PARAMS()
        node.dst, node.value, node.elementSize = memory + 4 * word, value, 4
        node.width = node.height = 1
        return cuda.cuGraphAddMemsetNode(graph, after, len(after), node, context)

    def condition(graph, initial: int | None = None) -> int:
        flags = 0 if initial is None else 1
        return int(cuda.cuGraphConditionalHandleCreate(graph, context, initial or 0, flags))

    def parameters(handle: int, kind: int, size: int):
        node = cuda.CUgraphNodeParams()
        node.type = cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        node.conditional.handle = handle
        node.conditional.type = cuda.CUgraphConditionalNodeType(kind)
        node.conditional.size, node.conditional.ctx = size, context
        return node

    def choose(graph, after, handle: int, kind: int, size: int = 1):
        node = parameters(handle, kind, size)
        made = cuda.cuGraphAddNode(graph, after, None, len(after), node)
        return made, list(node.conditional.phGraph_out)

    def run(executable, times: int = 1) -> list[int]:
        cuda.cuMemsetD32(memory, 0, WORDS)
        for _ in range(times):
            cuda.cuGraphLaunch(executable, 0)
        return read()

    return SimpleNamespace(
        memory=memory,
        kernel=kernel,
        fill=fill,
        condition=condition,
        parameters=parameters,
        choose=choose,
        run=run,
    )


def test_a_loop_runs_its_body_until_the_value_is_zero(cuda, device):
    """Also a loop in a loop, and after an update to fewer turns."""

    def build(turns: int):
        graph = cuda.cuGraphCreate(0)
        outer, inner = device.condition(graph, 1), device.condition(graph, 1)
        first = device.fill(graph, [], 3, turns)
        _, (body,) = device.choose(graph, [first], outer, WHILE)
        begin = device.fill(body, [], 1, 4)
        _, (inside,) = device.choose(body, [begin], inner, WHILE)
        device.kernel(inside, [], "count", device.memory, inner)
        (leaf,) = (n for n in cuda.cuGraphGetNodes(body, 2)[0] if int(n) != int(begin))
        set_again = device.kernel(body, [leaf], "set", device.memory + 24, inner, 1)
        device.kernel(body, [set_again], "count", device.memory + 8, outer)
        return graph

    graph, shorter = build(3), build(2)
    executable = cuda.cuGraphInstantiate(graph, 0)
    assert device.run(executable)[:4] == [12, 0, 3, 0]
    assert device.run(executable, 3)[:4] == [36, 0, 9, 0]
    cuda.cuGraphExecUpdate(executable, shorter)
    assert device.run(executable)[:4] == [8, 0, 2, 0]
    cuda.cuGraphExecDestroy(executable)
    cuda.cuGraphDestroy(graph)
    cuda.cuGraphDestroy(shorter)


@pytest.mark.parametrize(
    ("kind", "size", "value", "expected"),
    [
        (IF, 1, 0, []),
        (IF, 1, 7, [0]),
        (IF, 2, 0, [1]),
        (IF, 2, 1, [0]),
        (SWITCH, 4, 2, [2]),
        (SWITCH, 4, 4, []),
    ],
)
def test_one_body_is_chosen_before_it_runs(cuda, device, kind, size, value, expected):
    """A body that changes the value does not have a second one run."""
    graph = cuda.cuGraphCreate(0)
    handle = device.condition(graph)
    first = device.kernel(graph, [], "set", device.memory + 28, handle, value)
    node, bodies = device.choose(graph, [first], handle, kind, size)
    for i, body in enumerate(bodies):
        other = 0 if value else 1
        device.kernel(body, [], "set", device.memory + 4 * i, handle, other)
    device.fill(graph, [node], 6, 5)  # work after the node waits for it
    executable = cuda.cuGraphInstantiate(graph, 0)
    found = device.run(executable)
    assert [i for i in range(size) if found[i]] == expected
    assert found[6:] == [5, 1]
    shown = cuda.cuGraphNodeGetParams(node).conditional
    assert (int(shown.handle), int(shown.type), shown.size) == (handle, kind, size)
    cuda.cuGraphExecDestroy(executable)
    cuda.cuGraphDestroy(graph)


def test_a_child_graph_may_choose(cuda, device):
    graph = cuda.cuGraphCreate(0)
    node = cuda.cuGraphAddChildGraphNode(graph, [], 0, cuda.cuGraphCreate(0))
    child = cuda.cuGraphChildGraphNodeGetGraph(node)
    _, (body,) = device.choose(child, [], device.condition(child, 1), IF)
    device.fill(body, [], 0, 5)
    device.fill(graph, [node], 1, 6)
    executable = cuda.cuGraphInstantiate(graph, 0)
    assert device.run(executable, 2)[:2] == [5, 6]
    cuda.cuGraphExecDestroy(executable)
    cuda.cuGraphDestroy(graph)


def test_a_body_can_be_captured_and_its_nodes_changed(cuda, device, tmp_path):
    graph = cuda.cuGraphCreate(0)
    _, (body,) = device.choose(graph, [], device.condition(graph, 1), IF)
    stream = cuda.cuStreamCreate(1)
    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    cuda.cuStreamBeginCaptureToGraph(stream, body, None, None, 0, mode)
    assert cuda.code("cuGraphDestroy", graph) == INVALID_VALUE
    cuda.cuMemsetD32Async(device.memory, 3, 1, stream)
    cuda.cuMemcpyDtoDAsync(device.memory + 4, device.memory, 4, stream)
    cuda.cuStreamEndCapture(stream)
    path = tmp_path / "graph.dot"
    cuda.cuGraphDebugDotPrint(graph, str(path).encode(), 0)
    text = path.read_text()
    assert "CONDITIONAL\\nIF" in text
    assert "MEMSET" in text
    executable = cuda.cuGraphInstantiate(graph, 0)
    assert device.run(executable)[:2] == [3, 3]
    fill = cuda.cuGraphGetRootNodes(body, 1)[0][0]
    changed = cuda.cuGraphMemsetNodeGetParams(fill)
    changed.value = 8
    cuda.cuGraphExecMemsetNodeSetParams(executable, fill, changed, cuda.cuCtxGetCurrent())
    assert device.run(executable)[:2] == [8, 8]
    cuda.cuGraphNodeSetEnabled(executable, fill, 0)
    assert device.run(executable)[:2] == [0, 0]
    cuda.cuGraphExecDestroy(executable)
    cuda.cuGraphDestroy(graph)


def test_misuse_of_conditions(cuda, device):
    graph, other = cuda.cuGraphCreate(0), cuda.cuGraphCreate(0)
    handle = device.condition(graph, 1)

    def add(to, kind: int, size: int) -> int:
        node = device.parameters(handle, kind, size)
        return cuda.code("cuGraphAddNode", to, [], None, 0, node)

    assert cuda.code("cuGraphInstantiate", graph, 0) == INVALID_VALUE  # the handle is unused
    assert add(other, IF, 1) == INVALID_VALUE
    for kind, size in ((IF, 0), (IF, 3), (WHILE, 2), (SWITCH, 0)):
        assert add(graph, kind, size) == INVALID_VALUE
    node, (body,) = device.choose(graph, [], handle, WHILE)
    assert add(graph, IF, 1) == INVALID_VALUE  # a handle is for one node
    assert cuda.code("cuGraphDestroy", body) == INVALID_VALUE
    assert cuda.code("cuGraphClone", graph) == NOT_SUPPORTED
    assert cuda.code("cuGraphAddChildGraphNode", other, [], 0, graph) == NOT_SUPPORTED
    event = cuda.cuEventCreate(0)
    cuda.cuGraphAddEventRecordNode(body, [], 0, event)
    wanted = cuda.CUDA_GRAPH_INSTANTIATE_PARAMS()
    assert cuda.code("cuGraphInstantiateWithParams", graph, wanted) == NOT_SUPPORTED
    cuda.cuGraphDestroyNode(node)
    assert cuda.code("cuGraphInstantiate", graph, 0) == INVALID_VALUE
    cuda.cuGraphDestroy(graph)
    cuda.cuGraphDestroy(other)
