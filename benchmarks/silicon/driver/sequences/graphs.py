"""Graphs: nodes, edges, instantiation, updates and launches."""

import ctypes

from benchmarks.silicon.driver.answers import Out, longs, words
from benchmarks.silicon.driver.context import Rig
from benchmarks.silicon.driver.sequences.registry import Table

TABLE = Table("graphs")


def kernel(
    rig: Rig, name: str = "nothing", grid: int = 1, block: int = 1, shared: int = 0
) -> ctypes.Array[ctypes.c_uint32]:
    """Return CUDA_KERNEL_NODE_PARAMS_v2 of a kernel without parameters."""
    function = rig.function(name) if name else 0
    room = words(*[0] * 32)
    ctypes.memmove(room, longs(function), 8)
    for i, value in enumerate((grid, 1, 1, block, 1, 1, shared)):
        room[2 + i] = value
    return room


def fill(
    place: int, size: int = 1, width: int = 16, height: int = 1, pitch: int = 0, value: int = 0
) -> ctypes.Array[ctypes.c_uint64]:
    """Return CUDA_MEMSET_NODE_PARAMS."""
    return longs(place, pitch, value | size << 32, width, height, 0)


def copy(target: int, source: int, size: int) -> ctypes.Array[ctypes.c_uint64]:
    """Return CUDA_MEMCPY3D of a linear copy in the device's memory."""
    return longs(
        0, 0, 0, 0, 2, 0, source, 0, 0, size, 1, 0, 0, 0, 0, 2, 0, target, 0, 0, size, 1, size, 1, 1
    )


@TABLE.each((0, 1, 2, 1 << 31))
def create(rig: Rig, flags: int) -> None:
    out = Out()
    rig.api("cuGraphCreate", out, flags)
    rig.api("cuGraphCreate", 0, flags)
    if out.show() == "made":
        rig.api("cuGraphGetNodes", out.value, 0, Out("u64"))
        rig.api("cuGraphGetRootNodes", out.value, 0, Out("u64"))
        rig.api("cuGraphGetEdges", out.value, 0, 0, Out("u64"))
        rig.api("cuGraphGetEdges_v2", out.value, 0, 0, 0, Out("u64"))
        rig.api("cuGraphDestroy", out.value)


@TABLE.each(
    [
        (flags, kind)
        for flags in (*range(17), 32, 1 << 31)
        for kind in ("empty", "kernel", "alloc", "host")
    ]
)
def instantiate(rig: Rig, flags: int, kind: str) -> None:
    api, graph = rig.api, rig.api.make("cuGraphCreate", 0)
    if kind == "kernel":
        api("cuGraphAddKernelNode_v2", Out(), graph, 0, 0, kernel(rig))
    if kind == "alloc":
        room = longs(1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4096, 0, 0, 0, 0)
        api("cuGraphAddMemAllocNode", Out(), graph, 0, 0, room)
    if kind == "host":
        api("cuGraphAddHostNode", Out(), graph, 0, 0, longs(0x1000, 0))
    graph_exec, back = Out(), Out("u64")
    api("cuGraphInstantiateWithFlags", graph_exec, graph, flags)
    if graph_exec.show() == "made":
        api("cuGraphExecGetFlags", graph_exec.value, back)
        if kind != "host":
            api("cuGraphUpload", graph_exec.value, 0)
            api("cuGraphLaunch", graph_exec.value, 0)
            api("cuGraphLaunch", graph_exec.value, 0)
            api("cuStreamSynchronize", 0)
        api("cuGraphInstantiateWithFlags", Out(), graph, flags)
        api("cuGraphExecDestroy", graph_exec.value)


@TABLE.each((0, 1, 2, 4, 8))
def instantiate_with_parameters(rig: Rig, flags: int) -> None:
    api, graph = rig.api, rig.api.make("cuGraphCreate", 0)
    api("cuGraphAddKernelNode_v2", Out(), graph, 0, 0, kernel(rig))
    room = longs(flags, 0, 0, 0xFFFF_FFFF)
    api("cuGraphInstantiateWithParams", Out(), graph, room)
    api.note("result", room[3] & 0xFFFF_FFFF, bool(room[2]))
    api("cuGraphInstantiateWithParams", Out(), graph, 0)


@TABLE.each(("self", "twice", "cycle", "foreign", "remove absent", "null", "none"))
def edges(rig: Rig, how: str) -> None:
    api, graph, other_graph = (
        rig.api,
        rig.api.make("cuGraphCreate", 0),
        rig.api.make("cuGraphCreate", 0),
    )
    a, b = (api.make("cuGraphAddEmptyNode", graph, 0, 0) for _ in range(2))
    c = api.make("cuGraphAddEmptyNode", other_graph, 0, 0)
    pairs = {
        "self": [(a, a)],
        "twice": [(a, b), (a, b)],
        "cycle": [(a, b), (b, a)],
        "foreign": [(a, c)],
        "remove absent": [],
        "null": [(0, a), (a, 0)],
        "none": [],
    }[how]
    for first, second in pairs:
        api("cuGraphAddDependencies", graph, longs(first), longs(second), 1)
    if how == "twice":
        api("cuGraphAddDependencies", graph, longs(a, a), longs(b, b), 2)
        api("cuGraphAddEmptyNode", Out(), graph, longs(a, a), 2)
    if how == "remove absent":
        api("cuGraphRemoveDependencies", graph, longs(a), longs(b), 1)
    if how == "none":
        api("cuGraphAddDependencies", graph, 0, 0, 0)
        api("cuGraphAddDependencies", graph, 0, 0, 1)
        api("cuGraphRemoveDependencies", graph, 0, 0, 0)
    api("cuGraphGetEdges", graph, 0, 0, Out("u64"))
    api("cuGraphNodeGetDependencies", b, 0, Out("u64"))
    api("cuGraphNodeGetDependentNodes", a, 0, Out("u64"))
    api("cuGraphInstantiateWithFlags", Out(), graph, 0)


@TABLE.each([(room, query) for room in (0, 1, 2, 5) for query in ("nodes", "roots", "edges")])
def lists(rig: Rig, room: int, query: str) -> None:
    api, graph = rig.api, rig.api.make("cuGraphCreate", 0)
    a = api.make("cuGraphAddEmptyNode", graph, 0, 0)
    api.make("cuGraphAddEmptyNode", graph, longs(a), 1)
    api.make("cuGraphAddEmptyNode", graph, longs(a), 1)
    count, nodes, edge_ends = Out("u64"), longs(*[7] * 6), longs(*[7] * 6)
    count.cell.value = room
    if query == "edges":
        api("cuGraphGetEdges", graph, nodes, edge_ends, count)
    else:
        api("cuGraphGetNodes" if query == "nodes" else "cuGraphGetRootNodes", graph, nodes, count)
    api.note("found", ["left" if handle == 7 else "set" if handle else "null" for handle in nodes])


@TABLE.each(("same", "grid", "function", "more", "fewer", "edge", "type", "memset", "child"))
def update(rig: Rig, how: str) -> None:
    api, first_graph, second_graph = (
        rig.api,
        rig.api.make("cuGraphCreate", 0),
        rig.api.make("cuGraphCreate", 0),
    )
    place = api.make("cuMemAlloc_v2", 8192)
    node = api.make("cuGraphAddKernelNode_v2", first_graph, 0, 0, kernel(rig))
    api.make("cuGraphAddMemsetNode", first_graph, longs(node), 1, fill(place), rig.context)
    name, grid = ("limited" if how == "function" else "nothing"), (3 if how == "grid" else 1)
    if how == "type":
        first = api.make("cuGraphAddEmptyNode", second_graph, 0, 0)
    else:
        first = api.make("cuGraphAddKernelNode_v2", second_graph, 0, 0, kernel(rig, name, grid))
    if how != "fewer":
        width = 8 if how == "memset" else 16
        edge = () if how == "edge" else (first,)
        if how == "child":
            api.make(
                "cuGraphAddChildGraphNode",
                second_graph,
                longs(first),
                1,
                api.make("cuGraphCreate", 0),
            )
        else:
            api.make(
                "cuGraphAddMemsetNode",
                second_graph,
                longs(*edge),
                len(edge),
                fill(place, 1, width),
                rig.context,
            )
    if how == "more":
        api.make("cuGraphAddEmptyNode", second_graph, 0, 0)
    graph_exec = api.make("cuGraphInstantiateWithFlags", first_graph, 0)
    info = longs(0x7777, 0x7777, 0x7777, 0)
    api("cuGraphExecUpdate_v2", graph_exec, second_graph, info)
    api.note("result", info[0] & 0xFFFF_FFFF, bool(info[1]), bool(info[2]))
    api("cuGraphExecUpdate", graph_exec, second_graph, Out(), Out("i32"))
    api("cuGraphLaunch", graph_exec, 0)
    api("cuStreamSynchronize", 0)


@TABLE.once
def child(rig: Rig) -> None:
    api, graph, inner = rig.api, rig.api.make("cuGraphCreate", 0), rig.api.make("cuGraphCreate", 0)
    api("cuGraphAddChildGraphNode", Out(), graph, 0, 0, graph)
    api("cuGraphAddChildGraphNode", Out(), graph, 0, 0, 0)
    node = api.make("cuGraphAddChildGraphNode", graph, 0, 0, inner)
    own = Out()
    api("cuGraphChildGraphNodeGetGraph", node, own)
    api.note("copied", own.value != inner)
    api("cuGraphDestroy", own.value)
    api("cuGraphDestroyNode", node)
    api("cuGraphDestroyNode", 0)
    api("cuGraphClone", Out(), graph)
    api("cuGraphClone", Out(), 0)
    api("cuGraphClone", 0, graph)


@TABLE.once
def clone(rig: Rig) -> None:
    api, graph = rig.api, rig.api.make("cuGraphCreate", 0)
    node = api.make("cuGraphAddEmptyNode", graph, 0, 0)
    copied = api.make("cuGraphClone", graph)
    later = api.make("cuGraphAddEmptyNode", graph, 0, 0)
    found_node = Out()
    api("cuGraphNodeFindInClone", found_node, node, copied)
    api("cuGraphNodeFindInClone", Out(), later, copied)
    api("cuGraphNodeFindInClone", Out(), node, graph)
    api("cuGraphNodeFindInClone", Out(), found_node.value, graph)
    api("cuGraphDestroyNode", node)
    api("cuGraphNodeFindInClone", Out(), node, copied)


@TABLE.once
def launch_wrong(rig: Rig) -> None:
    api, graph = rig.api, rig.api.make("cuGraphCreate", 0)
    graph_exec = api.make("cuGraphInstantiateWithFlags", graph, 0)
    api("cuGraphLaunch", 0, 0)
    api("cuGraphLaunch", graph_exec, 0)
    api("cuGraphUpload", 0, 0)
    api("cuGraphExecDestroy", 0)
    api("cuGraphDestroy", 0)
    api("cuGraphDestroy", graph)
    api("cuGraphLaunch", graph_exec, 0)
    api("cuStreamSynchronize", 0)
    api("cuGraphExecDestroy", graph_exec)


@TABLE.once
def user_objects(rig: Rig) -> None:
    api, graph = rig.api, rig.api.make("cuGraphCreate", 0)
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
    api.kept.append(callback)
    entry = ctypes.cast(callback, ctypes.c_void_p).value
    for count, flags in ((1, 1), (1, 0), (0, 1), (1, 2), (5, 1)):
        api("cuUserObjectCreate", Out(), 0, entry, count, flags)
    api("cuUserObjectCreate", Out(), 0, 0, 1, 1)
    user_object = api.make("cuUserObjectCreate", 0, entry, 3, 1)
    for name, arguments in (
        ("cuUserObjectRetain", (user_object, 1)),
        ("cuUserObjectRetain", (user_object, 0)),
        ("cuUserObjectRelease", (user_object, 1)),
        ("cuUserObjectRelease", (user_object, 0)),
        ("cuGraphRetainUserObject", (graph, user_object, 1, 0)),
        ("cuGraphRetainUserObject", (graph, user_object, 1, 1)),
        ("cuGraphRetainUserObject", (graph, user_object, 1, 2)),
        ("cuGraphRetainUserObject", (graph, user_object, 0, 0)),
        ("cuGraphReleaseUserObject", (graph, user_object, 1)),
        ("cuGraphReleaseUserObject", (graph, user_object, 0)),
        ("cuUserObjectRetain", (0, 1)),
    ):
        api(name, *arguments)
