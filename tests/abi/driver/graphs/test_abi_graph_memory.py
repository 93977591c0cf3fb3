"""Rules of graphs with nodes that allocate or free memory.

They are those of the CUDA driver API (cuGraphAddMemAllocNode, cuGraphAddMemFreeNode, cuGraphInstantiate,
cuGraphLaunch) and of the CUDA Programming Guide ("Memory Nodes in Child Graphs").
"""

import pytest

INVALID_VALUE, NOT_SUPPORTED, INVALIDATED = 1, 801, 901
SIZE = 4096


@pytest.fixture
def stream(cuda):
    return cuda.cuStreamCreate(1)


def allocate_in(cuda, graph, size: int = SIZE):
    """Add a node that allocates; return it and the address."""
    parameters = cuda.CUDA_MEM_ALLOC_NODE_PARAMS()
    parameters.poolProps.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    parameters.poolProps.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    parameters.bytesize = size
    node = cuda.cuGraphAddMemAllocNode(graph, [], 0, parameters)
    return node, int(cuda.cuGraphMemAllocNodeGetParams(node).dptr)


def allocating(cuda):
    """Return a graph with one node, which allocates, and the address."""
    graph = cuda.cuGraphCreate(0)
    return graph, allocate_in(cuda, graph)[1]


def freeing(cuda, address: int):
    graph = cuda.cuGraphCreate(0)
    cuda.cuGraphAddMemFreeNode(graph, [], 0, address)
    return graph


def add_child(cuda, parent, child, ownership: str, after=()) -> int:
    parameters = cuda.CUgraphNodeParams()
    parameters.type = cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_GRAPH
    parameters.graph.graph = child
    owners = cuda.CUgraphChildGraphNodeOwnership
    parameters.graph.ownership = getattr(owners, f"CU_GRAPH_CHILD_GRAPH_OWNERSHIP_{ownership}")
    return cuda.code("cuGraphAddNode", parent, [*after], None, len(after), parameters)


@pytest.mark.parametrize("kind", ["allocates", "frees"])
def test_a_graph_with_memory_keeps_its_shape_and_has_one_executable(cuda, kind):
    owner, address = allocating(cuda)
    graph = owner if kind == "allocates" else freeing(cuda, address)
    memory = cuda.cuGraphGetNodes(graph, 1)[0][0]
    empty = cuda.cuGraphAddEmptyNode(graph, [memory], 1)
    last = cuda.cuGraphAddEmptyNode(graph, [], 0)
    parent = cuda.cuGraphCreate(0)
    none = [cuda.CUgraphEdgeData()]
    executable = cuda.cuGraphInstantiate(graph, 0)
    assert cuda.code("cuGraphInstantiate", graph, 0) == NOT_SUPPORTED
    assert cuda.code("cuGraphInstantiate", graph, 1) == NOT_SUPPORTED
    assert cuda.code("cuGraphClone", graph) == NOT_SUPPORTED
    assert cuda.code("cuGraphAddChildGraphNode", parent, [], 0, graph) == NOT_SUPPORTED
    for node in (memory, empty, last):
        assert cuda.code("cuGraphDestroyNode", node) == NOT_SUPPORTED
    edge = ([memory], [empty], none, 1)
    assert cuda.code("cuGraphRemoveDependencies", graph, *edge) == NOT_SUPPORTED
    assert cuda.code("cuGraphAddDependencies", graph, *edge) == INVALID_VALUE, "it still exists"
    cuda.cuGraphAddDependencies(graph, [empty], [last], none, 1)
    cuda.cuGraphExecDestroy(executable)
    cuda.cuGraphExecDestroy(cuda.cuGraphInstantiate(graph, 0))
    cuda.cuGraphDestroy(graph)


def test_a_graph_without_memory_may_have_several_executables(cuda, stream):
    graph = cuda.cuGraphCreate(0)
    cuda.cuGraphAddEmptyNode(graph, [], 0)
    executables = [cuda.cuGraphInstantiate(graph, 0) for _ in range(2)]
    allocate_in(cuda, graph)
    assert cuda.code("cuGraphInstantiate", graph, 0) == NOT_SUPPORTED
    for executable in executables:
        cuda.cuGraphLaunch(executable, stream)
        cuda.cuGraphExecDestroy(executable)
    cuda.cuGraphExecDestroy(cuda.cuGraphInstantiate(graph, 0))


def test_a_launch_needs_the_memory_of_the_last_one_to_be_free(cuda, stream):
    graph, address = allocating(cuda)
    free = cuda.cuGraphInstantiate(freeing(cuda, address), 0)
    executable = cuda.cuGraphInstantiate(graph, 0)
    for release in (
        lambda: cuda.cuMemFreeAsync(address, stream),
        lambda: cuda.cuMemFree(address),
        lambda: cuda.cuGraphLaunch(free, stream),
    ):
        cuda.cuGraphLaunch(executable, stream)
        for _ in range(2):
            assert cuda.code("cuGraphLaunch", executable, stream) == INVALID_VALUE
        release()
    cuda.cuGraphLaunch(executable, stream)
    cuda.cuGraphExecDestroy(executable)
    executable = cuda.cuGraphInstantiate(graph, 0)
    assert cuda.code("cuGraphLaunch", executable, stream) == INVALID_VALUE, "one address"
    cuda.cuMemFreeAsync(address, stream)
    assert cuda.code("cuMemFreeAsync", address, stream) == INVALID_VALUE
    cuda.cuGraphLaunch(executable, stream)
    cuda.cuMemFreeAsync(address, stream)
    cuda.cuStreamSynchronize(stream)


def test_a_graph_that_frees_its_memory_or_does_so_automatically_is_launched_again(cuda, stream):
    graph, address = allocating(cuda)
    automatic = cuda.cuGraphInstantiate(graph, 1)  # AUTO_FREE_ON_LAUNCH
    for _ in range(3):
        cuda.cuGraphLaunch(automatic, stream)
    cuda.cuMemFreeAsync(address, stream)
    assert cuda.code("cuMemFreeAsync", address, stream) == INVALID_VALUE
    cuda.cuGraphExecDestroy(automatic)
    cuda.cuGraphAddMemFreeNode(graph, cuda.cuGraphGetNodes(graph, 1)[0], 1, address)
    executable = cuda.cuGraphInstantiate(graph, 0)
    for _ in range(3):
        cuda.cuGraphLaunch(executable, stream)
        assert cuda.code("cuMemFreeAsync", address, stream) == INVALID_VALUE
    cuda.cuStreamSynchronize(stream)


def test_an_allocation_is_freed_once_in_a_graph_and_by_its_owner_or_by_others(cuda):
    def free_in(graph, address: int, *dependencies) -> int:
        count = len(dependencies)
        return cuda.code("cuGraphAddMemFreeNode", graph, [*dependencies], count, address)

    owner, address = allocating(cuda)
    strangers = [cuda.cuGraphCreate(0) for _ in range(2)]
    foreign = cuda.cuGraphAddEmptyNode(strangers[0], [], 0)
    assert free_in(owner, address, foreign) == INVALID_VALUE
    assert free_in(owner, address) == 0, "the node that was refused does not count"
    for graph in (owner, *strangers):
        assert free_in(graph, address) == INVALID_VALUE
    owner, address = allocating(cuda)
    for graph in strangers:
        assert free_in(graph, address) == 0
        assert free_in(graph, address) == INVALID_VALUE
    assert free_in(owner, address) == INVALID_VALUE
    fresh, device = cuda.cuGraphCreate(0), int(cuda.cuMemAlloc(SIZE))
    for wrong in (0, 16, device, address + 256):
        assert free_in(fresh, wrong) == INVALID_VALUE


def test_the_rules_hold_for_captures(cuda, stream):
    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    graph, address = allocating(cuda)
    executable = cuda.cuGraphInstantiate(graph, 0)
    cuda.cuStreamBeginCapture(stream, mode)
    assert cuda.code("cuGraphLaunch", executable, stream) == NOT_SUPPORTED, "as a child graph"
    cuda.cuMemFreeAsync(address, stream)
    captured = int(cuda.cuMemAllocAsync(SIZE, stream))
    cuda.cuMemFreeAsync(captured, stream)
    made = cuda.cuStreamEndCapture(stream)
    assert cuda.code("cuGraphAddMemFreeNode", graph, [], 0, address) == INVALID_VALUE
    assert cuda.code("cuGraphAddMemFreeNode", graph, [], 0, captured) == INVALID_VALUE
    cuda.cuGraphLaunch(executable, stream)
    consumer = cuda.cuGraphInstantiate(made, 0)
    cuda.cuGraphLaunch(consumer, stream)
    cuda.cuGraphLaunch(executable, stream)
    cuda.cuStreamBeginCapture(stream, mode)
    cuda.cuMemFreeAsync(address, stream)
    assert cuda.code("cuMemFreeAsync", address, stream) == INVALID_VALUE
    assert cuda.code("cuStreamEndCapture", stream) == INVALIDATED


def test_a_child_graph_with_memory_belongs_to_its_parent(cuda, stream):
    child, address = allocating(cuda)
    first = cuda.cuGraphInstantiate(child, 0)
    parent, second_parent = cuda.cuGraphCreate(0), cuda.cuGraphCreate(0)
    assert add_child(cuda, parent, child, "CLONE") == NOT_SUPPORTED
    assert add_child(cuda, parent, child, "MOVE") == 0
    assert cuda.code("cuGraphInstantiate", parent, 0) == NOT_SUPPORTED, "the child has one"
    cuda.cuGraphExecDestroy(first)
    executable = cuda.cuGraphInstantiate(parent, 0)
    assert cuda.code("cuGraphInstantiate", parent, 0) == NOT_SUPPORTED
    assert cuda.code("cuGraphInstantiate", child, 0) == INVALID_VALUE
    assert cuda.code("cuGraphDestroy", child) == INVALID_VALUE
    for ownership in ("CLONE", "MOVE"):
        assert add_child(cuda, second_parent, child, ownership) == INVALID_VALUE
    assert cuda.code("cuGraphExecUpdate", executable, child) == INVALID_VALUE
    assert cuda.code("cuGraphAddMemFreeNode", child, [], 0, address) == NOT_SUPPORTED
    with pytest.raises(Exception, match="NOT_SUPPORTED"):
        allocate_in(cuda, child)
    cuda.cuGraphLaunch(executable, stream)
    assert cuda.code("cuGraphLaunch", executable, stream) == INVALID_VALUE
    cuda.cuMemFreeAsync(address, stream)
    cuda.cuGraphLaunch(executable, stream)
    cuda.cuMemFreeAsync(address, stream)
    cuda.cuStreamSynchronize(stream)
    cuda.cuGraphExecDestroy(executable)
    cuda.cuGraphDestroy(parent)


def test_a_child_graph_whose_move_fails_stays_the_programs(cuda, stream):
    child, address = allocating(cuda)
    parent = cuda.cuGraphCreate(0)
    node = cuda.cuGraphAddEmptyNode(parent, [], 0)
    assert add_child(cuda, parent, child, "MOVE", (node, node)) == INVALID_VALUE
    assert cuda.cuGraphGetNodes(parent, 0)[1] == 1
    executable = cuda.cuGraphInstantiate(child, 0)
    cuda.cuGraphLaunch(executable, stream)
    cuda.cuMemFree(address)
    cuda.cuGraphExecDestroy(executable)
    assert add_child(cuda, parent, child, "MOVE", (node,)) == 0
    cuda.cuGraphDestroy(parent)
    assert cuda.code("cuGraphDestroy", child) == INVALID_VALUE


def test_a_copied_child_graph_gets_no_memory(cuda):
    parent, child = cuda.cuGraphCreate(0), cuda.cuGraphCreate(0)
    node = cuda.cuGraphAddChildGraphNode(parent, [], 0, child)
    inner = cuda.cuGraphChildGraphNodeGetGraph(node)
    free = cuda.cuMemGetInfo()[0]
    for _ in range(3):
        with pytest.raises(Exception, match="NOT_SUPPORTED"):
            allocate_in(cuda, inner, 8 << 20)
    assert cuda.cuMemGetInfo()[0] == free
    allocate_in(cuda, child)
