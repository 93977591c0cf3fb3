"""Random graphs, each compared with what the same operations compute when a stream runs them.

Arguments of the program: ``seed=1 n=10000``. It needs a slice: ``make fuzz graph=1``.
"""

import ctypes
import random
import sys
from typing import Any, Final

import numpy as np

from support.execution.raising import Raising
from support.kernels import ptx_kernels

WORDS: Final = 16
# step(to, from, factor): to[0] = to[0] * 31 + from[0] * factor + 1, so that the order matters.
STEP = (
    ptx_kernels.HEADER
    + """
.visible .entry step(.param .u64 p0, .param .u64 p1, .param .u32 p2)
{
  .reg .b64 %rd<2>; .reg .b32 %r<4>;
  ld.param.u64 %rd0, [p0];
  ld.param.u64 %rd1, [p1];
  ld.param.u32 %r0, [p2];
  ld.global.u32 %r1, [%rd0];
  ld.global.u32 %r2, [%rd1];
  mul.lo.u32 %r1, %r1, 31;
  mad.lo.u32 %r1, %r2, %r0, %r1;
  add.u32 %r1, %r1, 1;
  st.global.u32 [%rd0], %r1;
  ret;
}
"""
)


Operation = tuple[
    str, int, int, int
]  # kind, the word that it writes, the word that it reads, value


class MismatchError(Exception):
    """A graph computes something else than its operations."""


class Operations:
    """Operations on words of one allocation, as functions of a stream and as nodes."""

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda
        module = cuda.cuModuleLoadData(STEP.encode() + b"\0")
        self.step = cuda.cuModuleGetFunction(module, b"step")
        self.memory = int(cuda.cuMemAlloc(4 * WORDS))
        self.context = cuda.cuCtxGetCurrent()

    def at(self, word: int) -> int:
        return self.memory + 4 * word

    def reset(self) -> None:
        self.cuda.cuMemcpyHtoD(self.memory, np.arange(1, WORDS + 1, dtype=np.uint32), 4 * WORDS)

    def read(self) -> list[int]:
        data = np.zeros(WORDS, np.uint32)
        self.cuda.cuMemcpyDtoH(data, self.memory, data.nbytes)
        return [int(word) for word in data]

    def parameters(self, to: int, source: int, factor: int) -> Any:
        kinds = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32)
        return ((self.at(to), self.at(source), factor), kinds)

    def enqueue(self, operation: Operation, stream: Any) -> None:
        kind, to, source, value = operation
        if kind == "kernel":
            given = self.parameters(to, source, value)
            self.cuda.cuLaunchKernel(self.step, 1, 1, 1, 1, 1, 1, 0, stream, given, 0)
        elif kind == "copy":
            self.cuda.cuMemcpyDtoDAsync(self.at(to), self.at(source), 4, stream)
        else:
            self.cuda.cuMemsetD32Async(self.at(to), value, 1, stream)

    def add(self, graph: Any, dependencies: list[Any], operation: Operation) -> Any:
        cuda = self.cuda
        kind, to, source, value = operation
        count = len(dependencies)
        if kind == "kernel":
            node = cuda.CUDA_KERNEL_NODE_PARAMS()
            node.func = self.step
            node.gridDimX = node.gridDimY = node.gridDimZ = 1
            node.blockDimX = node.blockDimY = node.blockDimZ = 1
            node.kernelParams = self.parameters(to, source, value)
            return cuda.cuGraphAddKernelNode(graph, dependencies, count, node)
        if kind == "copy":
            copy = cuda.CUDA_MEMCPY3D()
            copy.srcMemoryType = copy.dstMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE
            copy.srcDevice, copy.dstDevice = self.at(source), self.at(to)
            copy.WidthInBytes, copy.Height, copy.Depth = 4, 1, 1
            return cuda.cuGraphAddMemcpyNode(graph, dependencies, count, copy, self.context)
        fill = cuda.CUDA_MEMSET_NODE_PARAMS()
        fill.dst, fill.value, fill.elementSize = self.at(to), value, 4
        fill.width = fill.height = 1
        return cuda.cuGraphAddMemsetNode(graph, dependencies, count, fill, self.context)


def random_operations(source: random.Random, count: int) -> list[Operation]:
    kinds = ("kernel", "kernel", "kernel", "copy", "fill")
    return [
        (
            source.choice(kinds),
            source.randrange(WORDS),
            source.randrange(WORDS),
            source.randrange(1, 1000),
        )
        for _ in range(count)
    ]


def edges_of(operations: list[Operation]) -> list[list[int]]:
    """Return, for each operation, the earlier ones that it must come after."""
    last_write: dict[int, int] = {}
    reads: dict[int, list[int]] = {}
    after = []
    for i, (kind, to, source, _) in enumerate(operations):
        needed = {last_write[to]} if to in last_write else set()
        needed |= set(reads.get(to, ()))
        if kind != "fill":
            if source in last_write:
                needed.add(last_write[source])
            reads.setdefault(source, []).append(i)
        last_write[to] = i
        reads[to] = [i] if kind == "kernel" and source == to else []
        after.append(sorted(needed - {i}))
    return after


def compare(operations: Operations, seed: int) -> int:
    """Compare a random graph of up to 200 nodes, launched twice, with its operations run one after
    the other. The second half of some graphs is in a child graph or in the body of a condition.
    Return the number of nodes.

    Raises:
        MismatchError: a word differs.
    """
    cuda, source = operations.cuda, random.Random(seed)
    listed = random_operations(source, source.choice((1, 5, 40, source.randrange(2, 200), 200)))
    stream = cuda.cuStreamCreate(seed % 2)
    operations.reset()
    for operation in listed * 2:
        operations.enqueue(operation, stream)
    cuda.cuStreamSynchronize(stream)
    expected = operations.read()
    graph = cuda.cuGraphCreate(0)
    _build(operations, graph, listed, source.choice(("flat", "flat", "child", "body")))
    executable = cuda.cuGraphInstantiate(graph, 0)
    operations.reset()
    for _ in range(2):
        cuda.cuGraphLaunch(executable, stream)
    cuda.cuStreamSynchronize(stream)
    if operations.read() != expected:
        raise MismatchError(f"seed {seed}: {operations.read()} instead of {expected}")
    cuda.cuGraphExecDestroy(executable)
    cuda.cuGraphDestroy(graph)
    cuda.cuStreamDestroy(stream)
    return len(listed)


def _build(operations: Operations, graph: Any, listed: list[Operation], shape: str) -> None:
    half = len(listed) if shape == "flat" else len(listed) // 2
    nodes = _add_all(operations, graph, listed[:half])
    cuda = operations.cuda
    if shape == "child":
        child = cuda.cuGraphCreate(0)
        _add_all(operations, child, listed[half:])
        cuda.cuGraphAddChildGraphNode(graph, nodes, len(nodes), child)
        cuda.cuGraphDestroy(child)
    elif shape == "body":
        wanted = cuda.CUgraphNodeParams()
        wanted.type = cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        wanted.conditional.handle = cuda.cuGraphConditionalHandleCreate(
            graph, operations.context, 1, 1
        )
        wanted.conditional.type = cuda.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF
        wanted.conditional.size, wanted.conditional.ctx = 1, operations.context
        cuda.cuGraphAddNode(graph, nodes, None, len(nodes), wanted)
        _add_all(operations, wanted.conditional.phGraph_out[0], listed[half:])


def _add_all(operations: Operations, graph: Any, listed: list[Operation]) -> list[Any]:
    nodes: list[Any] = []
    for operation, after in zip(listed, edges_of(listed), strict=True):
        nodes.append(operations.add(graph, [nodes[i] for i in after], operation))
    return nodes


def main() -> None:
    """Run the fuzzer with the arguments of the command line."""
    from cuda.bindings import driver

    given = dict(word.split("=", 1) for word in sys.argv[1:])
    first, count = int(given.get("seed") or 1), int(given.get("n") or 10_000)
    if int(driver.cuInit(0)[0]):
        raise SystemExit("there is no device: run this under `tessera run`")
    cuda = Raising(driver)
    cuda.cuCtxCreate(None, 0, 0)
    operations = Operations(cuda)
    nodes = 0
    for seed in range(first, first + count):
        nodes += compare(operations, seed)
        if (seed - first) % 1000 == 999:
            print(f"{seed - first + 1} graphs, {nodes} nodes", flush=True)
    print(f"seeds {first} to {first + count - 1}: {nodes} nodes, no wrong word")


if __name__ == "__main__":
    main()
