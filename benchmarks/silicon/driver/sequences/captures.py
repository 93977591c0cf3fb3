"""What may be called while a stream is captured, and how a capture ends."""

import ctypes
from collections.abc import Callable
from typing import Any

from benchmarks.silicon.driver.answers import Out, longs, words
from benchmarks.silicon.driver.context import Rig, module
from benchmarks.silicon.driver.sequences.registry import Table

TABLE = Table("captures")

CALLS: dict[str, Callable[[Rig, int], Any]] = {
    "malloc": lambda r, s: r.api("cuMemAlloc_v2", Out(), 4096),
    "malloc managed": lambda r, s: r.api("cuMemAllocManaged", Out(), 4096, 1),
    "free null": lambda r, s: r.api("cuMemFree_v2", 0),
    "free": lambda r, s: r.api("cuMemFree_v2", r.place),  # type: ignore[attr-defined]
    "host alloc": lambda r, s: r.api("cuMemHostAlloc", Out(), 4096, 0),
    "alloc async": lambda r, s: r.api("cuMemAllocAsync", Out(), 4096, s),
    "alloc async elsewhere": lambda r, s: r.api("cuMemAllocAsync", Out(), 4096, 0),
    "memset": lambda r, s: r.api("cuMemsetD8_v2", r.place, 0, 16),  # type: ignore[attr-defined]
    "memset async": lambda r, s: r.api("cuMemsetD8Async", r.place, 0, 16, s),  # type: ignore[attr-defined]
    "memset legacy": lambda r, s: r.api("cuMemsetD8Async", r.place, 0, 16, 1),  # type: ignore[attr-defined]
    "copy": lambda r, s: r.api("cuMemcpy", r.place, r.place + 64, 16),  # type: ignore[attr-defined]
    "copy async": lambda r, s: r.api("cuMemcpyDtoDAsync_v2", r.place, r.place + 64, 16, s),  # type: ignore[attr-defined]
    "copy nothing": lambda r, s: r.api("cuMemcpyDtoDAsync_v2", r.place, r.place + 64, 0, s),  # type: ignore[attr-defined]
    "copy pageable": lambda r, s: r.api("cuMemcpyHtoDAsync_v2", r.place, b"x" * 64, 16, s),  # type: ignore[attr-defined]
    "to host": lambda r, s: r.api("cuMemcpyDtoH_v2", bytes(64), r.place, 16),  # type: ignore[attr-defined]
    "stream create": lambda r, s: r.api("cuStreamCreate", Out(), 0),
    "stream query": lambda r, s: r.api("cuStreamQuery", s),
    "stream query legacy": lambda r, s: r.api("cuStreamQuery", 0),
    "stream query other": lambda r, s: r.api("cuStreamQuery", r.other),  # type: ignore[attr-defined]
    "stream synchronize": lambda r, s: r.api("cuStreamSynchronize", s),
    "stream synchronize legacy": lambda r, s: r.api("cuStreamSynchronize", 0),
    "context synchronize": lambda r, s: r.api("cuCtxSynchronize"),
    "stream destroy": lambda r, s: r.api("cuStreamDestroy_v2", r.other),  # type: ignore[attr-defined]
    "callback": lambda r, s: r.api("cuStreamAddCallback", s, 0x1000, 0, 0),
    "wait event": lambda r, s: r.api("cuStreamWaitEvent", s, r.event, 0),  # type: ignore[attr-defined]
    "wait event external": lambda r, s: r.api("cuStreamWaitEvent", s, r.event, 1),  # type: ignore[attr-defined]
    "record": lambda r, s: r.api("cuEventRecord", r.event, s),  # type: ignore[attr-defined]
    "record external": lambda r, s: r.api("cuEventRecordWithFlags", r.event, s, 1),  # type: ignore[attr-defined]
    "record legacy": lambda r, s: r.api("cuEventRecord", r.event, 0),  # type: ignore[attr-defined]
    "event query": lambda r, s: (
        r.api("cuEventRecord", r.event, s),
        r.api("cuEventQuery", r.event),
    ),  # type: ignore[attr-defined]
    "event synchronize": lambda r, s: (
        r.api("cuEventRecord", r.event, s),
        r.api("cuEventSynchronize", r.event),
    ),  # type: ignore[attr-defined]
    "event elapsed": lambda r, s: (
        r.api("cuEventRecord", r.event, s),
        r.api("cuEventElapsedTime", Out("-"), r.event, r.event),
    ),  # type: ignore[attr-defined]
    "event query unrelated": lambda r, s: r.api("cuEventQuery", r.event),  # type: ignore[attr-defined]
    "event create": lambda r, s: r.api("cuEventCreate", Out(), 0),
    "launch": lambda r, s: r.api(
        "cuLaunchKernel", r.function("nothing"), 1, 1, 1, 1, 1, 1, 0, s, 0, 0
    ),
    "launch legacy": lambda r, s: r.api(
        "cuLaunchKernel", r.function("nothing"), 1, 1, 1, 1, 1, 1, 0, 0, 0, 0
    ),
    "launch wrong": lambda r, s: r.api(
        "cuLaunchKernel", r.function("nothing"), 0, 1, 1, 1, 1, 1, 0, s, 0, 0
    ),
    "launch too large": lambda r, s: r.api(
        "cuLaunchKernel", r.function("nothing"), 1, 1, 1, 2000, 1, 1, 0, s, 0, 0
    ),
    "module load": lambda r, s: r.api(
        "cuModuleLoadData", Out(), b".version 7.0\n.target sm_80\n.address_size 64\n"
    ),
    "module global": lambda r, s: r.api("cuModuleGetGlobal_v2", Out(), 0, module(), b"counter"),
    "prefetch": lambda r, s: r.api("cuMemPrefetchAsync_v2", r.managed, 4096, 1, 0, s),  # type: ignore[attr-defined]
    "attach": lambda r, s: r.api("cuStreamAttachMemAsync", s, r.managed, 0, 4),  # type: ignore[attr-defined]
    "begin again": lambda r, s: r.api("cuStreamBeginCapture_v2", s, 0),
    "end other": lambda r, s: r.api("cuStreamEndCapture", r.other, Out()),  # type: ignore[attr-defined]
    "attribute": lambda r, s: r.api("cuStreamSetAttribute", s, 4, words(1, *[0] * 15)),
    "get attribute": lambda r, s: r.api("cuStreamGetAttribute", s, 4, words(*[0] * 16)),
    "get priority": lambda r, s: r.api("cuStreamGetPriority", s, Out("i32")),
    "primary reset": lambda r, s: r.api("cuCtxSetLimit", 0, 2048),
    "mem info": lambda r, s: r.api("cuMemGetInfo_v2", Out("-"), Out("-")),
    "write value": lambda r, s: r.api("cuStreamWriteValue32_v2", s, r.place, 1, 0),  # type: ignore[attr-defined]
    "wait value": lambda r, s: r.api("cuStreamWaitValue32_v2", s, r.place, 0, 0),  # type: ignore[attr-defined]
    "context create": lambda r, s: r.api("cuCtxCreate_v2", Out(), 0, 0),
    "host register": lambda r, s: r.api("cuMemHostUnregister", 0x1000),
    "pool trim": lambda r, s: r.api(
        "cuMemPoolTrimTo", r.api.make("cuDeviceGetDefaultMemPool", 0), 0
    ),
    "graph launch": lambda r, s: r.api("cuGraphLaunch", r.exec, s),  # type: ignore[attr-defined]
    "graph instantiate": lambda r, s: r.api("cuGraphInstantiateWithFlags", Out(), r.graph, 0),  # type: ignore[attr-defined]
}


class Room:
    """The rig, with objects that were made before the capture."""

    def __init__(self, rig: Rig) -> None:
        self.api, self.function = rig.api, rig.function
        self.place = rig.api.make("cuMemAlloc_v2", 4096)
        self.managed = rig.api.make("cuMemAllocManaged", 4096, 1)
        self.other = rig.api.make("cuStreamCreate", 1)
        self.event = rig.api.make("cuEventCreate", 0)
        rig.api.call("cuEventRecord", self.event, self.other)
        rig.api.call("cuStreamSynchronize", self.other)
        self.graph = rig.api.make("cuGraphCreate", 0)
        self.exec = rig.api.make("cuGraphInstantiateWithFlags", self.graph, 0)
        rig.function("nothing")


@TABLE.each([(call, mode, flags) for call in CALLS for mode in (0, 1, 2) for flags in (0, 1)])
def during(rig: Rig, call: str, mode: int, flags: int) -> None:
    room, api = Room(rig), rig.api
    stream = api.make("cuStreamCreate", flags)
    api("cuStreamBeginCapture_v2", stream, mode)
    CALLS[call](room, stream)  # type: ignore[arg-type]
    api("cuStreamIsCapturing", stream, Out("u32"))
    graph, nodes = Out(), Out("u64")
    api("cuStreamEndCapture", stream, graph)
    if graph.show() == "made":
        api("cuGraphGetNodes", graph.value, 0, nodes)
        api("cuGraphInstantiateWithFlags", Out(), graph.value, 0)
    api("cuStreamIsCapturing", stream, Out("u32"))
    api("cuStreamQuery", stream)
    api.call("cuThreadExchangeStreamCaptureMode", words(0))


@TABLE.each((-1, 0, 1, 2, 3, 4))
def begin(rig: Rig, mode: int) -> None:
    api, stream = rig.api, rig.api.make("cuStreamCreate", 0)
    api("cuStreamBeginCapture_v2", stream, mode)
    api("cuStreamBeginCapture", stream)
    api("cuStreamIsCapturing", stream, Out("u32"))
    api("cuStreamGetCaptureInfo_v2", stream, Out("u32"), Out(), Out(), Out("-"), Out("u64"))
    api(
        "cuStreamGetCaptureInfo_v3",
        stream,
        Out("u32"),
        Out(),
        Out(),
        Out("-"),
        Out("-"),
        Out("u64"),
    )
    api("cuStreamEndCapture", stream, Out())
    api("cuStreamEndCapture", stream, Out())


@TABLE.once
def exchange(rig: Rig) -> None:
    for mode in (0, 1, 2, 3, -1, 0):
        room = words(mode)
        rig.api("cuThreadExchangeStreamCaptureMode", room)
        rig.api.note("old", room[0])
    rig.api("cuThreadExchangeStreamCaptureMode", 0)


@TABLE.each(
    ("joined", "unjoined", "joined late", "ended by other", "waits for outside", "destroyed")
)
def fork_capture(rig: Rig, how: str) -> None:
    api = rig.api
    origin_stream, forked_stream = (api.make("cuStreamCreate", 1) for _ in range(2))
    fork, join = (api.make("cuEventCreate", 2) for _ in range(2))
    outside = api.make("cuEventCreate", 2)
    api.call("cuEventRecord", outside, forked_stream)
    api("cuStreamBeginCapture_v2", origin_stream, 0)
    api("cuEventRecord", fork, origin_stream)
    api("cuStreamWaitEvent", forked_stream, fork, 0)
    api("cuStreamIsCapturing", forked_stream, Out("u32"))
    api("cuLaunchKernel", rig.function("nothing"), 1, 1, 1, 1, 1, 1, 0, forked_stream, 0, 0)
    if how == "waits for outside":
        api("cuStreamWaitEvent", forked_stream, outside, 0)
    if how in ("joined", "joined late"):
        api("cuEventRecord", join, forked_stream)
        if how == "joined late":
            api("cuLaunchKernel", rig.function("nothing"), 1, 1, 1, 1, 1, 1, 0, forked_stream, 0, 0)
        api("cuStreamWaitEvent", origin_stream, join, 0)
    if how == "destroyed":
        api("cuStreamDestroy_v2", forked_stream)
    if how == "ended by other":
        api("cuStreamEndCapture", forked_stream, Out())
    graph = Out()
    api("cuStreamEndCapture", origin_stream, graph)
    if graph.show() == "made":
        api("cuGraphGetNodes", graph.value, 0, Out("u64"))
    api("cuStreamQuery", origin_stream)
    if how != "destroyed":
        api("cuStreamIsCapturing", forked_stream, Out("u32"))


@TABLE.each((0, 1, 2, 3))
def update_dependencies(rig: Rig, flags: int) -> None:
    api, stream = rig.api, rig.api.make("cuStreamCreate", 1)
    api("cuStreamUpdateCaptureDependencies", stream, 0, 0, flags)
    api("cuStreamBeginCapture_v2", stream, 0)
    api("cuLaunchKernel", rig.function("nothing"), 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)
    graph, pointer, count = Out("-"), Out("-"), Out("u64")
    api("cuStreamGetCaptureInfo_v2", stream, Out("u32"), Out(), graph, pointer, count)
    node = ctypes.c_uint64.from_address(pointer.value).value if count.value == 1 else 0
    api("cuStreamUpdateCaptureDependencies", stream, longs(node), 1, flags)
    api("cuStreamUpdateCaptureDependencies", stream, longs(0x1234), 0, flags)
    api("cuGraphDestroy", graph.value)
    api("cuStreamEndCapture", stream, Out())


@TABLE.each((0, 1, 2))
def to_graph(rig: Rig, mode: int) -> None:
    api, stream = rig.api, rig.api.make("cuStreamCreate", 1)
    graph = api.make("cuGraphCreate", 0)
    api("cuStreamBeginCaptureToGraph", stream, graph, 0, 0, 0, mode)
    api("cuStreamBeginCaptureToGraph", stream, graph, 0, 0, 0, mode)
    api("cuGraphInstantiateWithFlags", Out(), graph, 0)
    api("cuLaunchKernel", rig.function("nothing"), 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)
    out = Out()
    api("cuStreamEndCapture", stream, out)
    api.note("same", out.value == graph)
    api("cuStreamBeginCaptureToGraph", stream, 0, 0, 0, 0, mode)
    api("cuStreamBeginCaptureToGraph", 0, graph, 0, 0, 0, mode)
