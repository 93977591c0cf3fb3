"""What every function returns after a kernel's fault; each sequence costs the context."""

import ctypes

from benchmarks.silicon.driver.answers import Out, longs, words
from benchmarks.silicon.driver.context import Rig
from benchmarks.silicon.driver.sequences.registry import Table

TABLE = Table("faults")
FAULTS = ("null", "far", "misaligned", "outside", "trapped", "broken", "freed", "readonly")


def fault(rig: Rig, kind: str) -> None:
    """Launch a kernel that faults."""
    api = rig.api
    place = api.make("cuMemAlloc_v2", 4 << 20)
    target = {"null": 0, "far": 0x7FFF_0000_0000, "freed": place}.get(kind, place)
    if kind == "freed":
        api.call("cuMemFree_v2", place)
    if kind == "readonly":
        target = api.make("cuMemAddressReserve", 2 << 20, 0, 0, 0)
        handle = api.make("cuMemCreate", 2 << 20, words(1, 0, 1, 0, 0, 0, 0, 0), 0)
        api.call("cuMemMap", target, 2 << 20, 0, handle, 0)
        api.call("cuMemSetAccess", target, 2 << 20, words(1, 0, 1), 1)
    name = kind if kind in ("misaligned", "outside", "trapped", "broken") else "poke"
    value, word = longs(target), words(1)
    parameters = longs(ctypes.addressof(value), ctypes.addressof(word))
    function = rig.function(name)
    api("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, 0, parameters, 0)


@TABLE.each(FAULTS)
def after(rig: Rig, kind: str) -> None:
    api = rig.api
    event, stream = api.make("cuEventCreate", 0), api.make("cuStreamCreate", 1)
    place, host = api.make("cuMemAlloc_v2", 64), api.make("cuMemHostAlloc", 64, 0)
    function = rig.function("nothing")
    graph = api.make("cuGraphCreate", 0)
    graph_exec = api.make("cuGraphInstantiateWithFlags", graph, 0)
    fault(rig, kind)
    for name, arguments in (
        ("cuStreamSynchronize", (0,)), ("cuStreamQuery", (0,)), ("cuStreamQuery", (stream,)),
        ("cuCtxSynchronize", ()), ("cuEventQuery", (event,)), ("cuEventRecord", (event, stream)),
        ("cuEventSynchronize", (event,)), ("cuEventCreate", (Out(), 0)), ("cuEventDestroy_v2", (event,)),
        ("cuEventElapsedTime", (Out("-"), event, event)),
        ("cuMemAlloc_v2", (Out(), 64)), ("cuMemFree_v2", (place,)), ("cuMemGetInfo_v2", (Out("-"), Out("-"))),
        ("cuMemHostAlloc", (Out(), 64, 0)), ("cuMemFreeHost", (host,)), ("cuMemsetD8_v2", (place, 0, 16)),
        ("cuMemcpyDtoH_v2", (bytes(64), place, 16)), ("cuMemcpyHtoDAsync_v2", (place, bytes(64), 16, 0)),
        ("cuMemAllocAsync", (Out(), 64, 0)), ("cuMemAllocManaged", (Out(), 64, 1)),
        ("cuLaunchKernel", (function, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)),
        ("cuFuncGetAttribute", (Out("i32"), 0, function)), ("cuFuncSetAttribute", (function, 8, 0)),
        ("cuModuleLoadData", (Out(), b".version 7.0\n.target sm_80\n.address_size 64\n")),
        ("cuStreamCreate", (Out(), 0)), ("cuStreamDestroy_v2", (stream,)), ("cuStreamGetFlags", (0, Out("u32"))),
        ("cuStreamBeginCapture_v2", (2, 0)), ("cuStreamIsCapturing", (0, Out("u32"))),
        ("cuGraphCreate", (Out(), 0)), ("cuGraphLaunch", (graph_exec, 0)), ("cuGraphInstantiateWithFlags", (Out(), graph, 0)),
        ("cuGraphDestroy", (graph,)), ("cuGraphExecDestroy", (graph_exec,)),
        ("cuCtxGetLimit", (Out("u64"), 0)), ("cuCtxSetLimit", (0, 2048)), ("cuCtxGetFlags", (Out("u32"),)),
        ("cuCtxGetDevice", (Out("i32"),)), ("cuCtxGetCurrent", (Out(),)), ("cuCtxGetApiVersion", (rig.context, Out("u32"))),
        ("cuCtxGetStreamPriorityRange", (Out("i32"), Out("i32"))), ("cuCtxGetCacheConfig", (Out("i32"),)),
        ("cuPointerGetAttribute", (Out(), 2, place)), ("cuMemGetAddressRange_v2", (Out(), Out("u64"), place)),
        ("cuDeviceGetAttribute", (Out("i32"), 1, 0)), ("cuDeviceGetName", (bytes(64), 64, 0)),
        ("cuDeviceTotalMem_v2", (Out("u64"), 0)), ("cuDeviceGetDefaultMemPool", (Out(), 0)),
        ("cuOccupancyMaxActiveBlocksPerMultiprocessor", (Out("i32"), function, 32, 0)),
        ("cuMemCreate", (Out(), 2 << 20, words(1, 0, 1, 0, 0, 0, 0, 0), 0)), ("cuMemAddressReserve", (Out(), 2 << 20, 0, 0, 0)),
        ("cuLibraryLoadData", (Out(), b".version 7.0\n.target sm_80\n.address_size 64\n", 0, 0, 0, 0, 0, 0)),
        ("cuIpcGetMemHandle", (words(*[0] * 16), place)), ("cuDriverGetVersion", (Out("i32"),)),
        ("cuCtxPushCurrent_v2", (rig.context,)), ("cuCtxPopCurrent_v2", (Out(),)), ("cuCtxSetCurrent", (rig.context,)),
        ("cuCtxCreate_v2", (Out(), 0, 0)), ("cuCtxSynchronize", ()), ("cuMemAlloc_v2", (Out(), 64)),
        ("cuDevicePrimaryCtxReset_v2", (0,)), ("cuCtxSynchronize", ()),
    ):  # fmt: skip
        api(name, *arguments)


@TABLE.each(FAULTS)
def first_seen(rig: Rig, kind: str) -> None:
    """Wait by a query, then reset the primary context and use it again."""
    import time

    api = rig.api
    fault(rig, kind)
    time.sleep(0.2)
    api("cuStreamQuery", 2)
    api("cuMemAlloc_v2", Out(), 64)
    api("cuCtxDestroy_v2", rig.context)
    api("cuDevicePrimaryCtxReset_v2", 0)
    out = Out()
    api("cuDevicePrimaryCtxRetain", out, 0)
    api("cuCtxSetCurrent", out.value if out.show() == "made" else 0)
    api("cuMemAlloc_v2", Out(), 64)
    api("cuCtxSynchronize")


@TABLE.each(FAULTS)
def in_own_context(rig: Rig, kind: str) -> None:
    api = rig.api
    from benchmarks.silicon.driver import kernels

    own_context = api.make("cuCtxCreate_v2", 0, 0)
    module = api.make("cuModuleLoadData", kernels.MODULE.encode())
    name = kind if kind in ("misaligned", "outside", "trapped", "broken") else "poke"
    function = api.make("cuModuleGetFunction", module, name.encode())
    value, word = longs(0), words(1)
    parameters = longs(ctypes.addressof(value), ctypes.addressof(word))
    api("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, 0, parameters, 0)
    api("cuCtxSynchronize")
    api("cuMemAlloc_v2", Out(), 64)
    api("cuCtxSetCurrent", rig.context)
    api("cuCtxSynchronize")
    api("cuMemAlloc_v2", Out(), 64)
    api("cuCtxCreate_v2", Out(), 0, 0)
    api("cuCtxDestroy_v2", own_context)
    api("cuCtxSynchronize")
    api("cuMemAlloc_v2", Out(), 64)


@TABLE.once
def overrun_by_copy(rig: Rig) -> None:
    api, place = rig.api, rig.api.make("cuMemAlloc_v2", 4 << 20)
    api("cuMemcpyDtoD_v2", place, 0x1000, 64)
    api("cuCtxSynchronize")
    api("cuMemsetD8_v2", 0x1000, 0, 64)
    api("cuCtxSynchronize")
