"""Contexts: the stack, the primary context, limits, and peers."""

from benchmarks.silicon.driver.answers import Out, longs, words
from benchmarks.silicon.driver.context import Rig
from benchmarks.silicon.driver.sequences.registry import Table

TABLE = Table("contexts")


@TABLE.each((*range(9), 16, 32, 64, 128, 256, 512, 1 << 20))
def create(rig: Rig, flags: int) -> None:
    api, out, back = rig.api, Out(), Out("u32")
    if api("cuCtxCreate_v2", out, flags, 0):
        return
    api("cuCtxGetFlags", back)
    api("cuCtxGetApiVersion", out.value, Out("u32"))
    api("cuCtxDestroy_v2", out.value)
    api("cuCtxGetCurrent", Out())


@TABLE.each((-1, 1, 8, 1000))
def on_device(rig: Rig, device: int) -> None:
    api = rig.api
    for name, arguments in (
        ("cuCtxCreate_v2", (Out(), 0, device)),
        ("cuDevicePrimaryCtxRetain", (Out(), device)),
        ("cuDevicePrimaryCtxRelease_v2", (device,)),
        ("cuDevicePrimaryCtxReset_v2", (device,)),
        ("cuDevicePrimaryCtxGetState", (device, Out("u32"), Out("i32"))),
        ("cuDevicePrimaryCtxSetFlags_v2", (device, 0)),
    ):
        api(name, *arguments)


@TABLE.once
def stack(rig: Rig) -> None:
    api, out = rig.api, Out()
    first_context = api.make("cuCtxCreate_v2", 0, 0)
    second_context = api.make("cuCtxCreate_v2", 0, 0)
    api("cuCtxPushCurrent_v2", first_context)
    api("cuCtxPushCurrent_v2", first_context)
    api("cuCtxPushCurrent_v2", 0)
    for _ in range(5):
        api("cuCtxPopCurrent_v2", out)
        api.note(
            "popped",
            {first_context: "one", second_context: "two", rig.context: "primary"}.get(
                out.value, "none"
            ),
        )
    api("cuCtxSetCurrent", first_context)
    api("cuCtxDestroy_v2", second_context)
    api("cuCtxDestroy_v2", first_context)
    api("cuCtxGetCurrent", Out())
    api("cuCtxSynchronize")
    api("cuCtxSetCurrent", first_context)


@TABLE.once
def use_destroyed(rig: Rig) -> None:
    api, context = rig.api, rig.api.make("cuCtxCreate_v2", 0, 0)
    api("cuCtxPopCurrent_v2", Out())
    api("cuCtxDestroy_v2", context)
    for name in ("cuCtxSetCurrent", "cuCtxPushCurrent_v2", "cuCtxDestroy_v2"):
        api(name, context)
    api("cuCtxGetApiVersion", context, Out("u32"))
    api("cuCtxGetId", context, Out())
    api("cuCtxEnablePeerAccess", context, 0)


@TABLE.once
def destroyed_under(rig: Rig) -> None:
    api = rig.api
    first_context = api.make("cuCtxCreate_v2", 0, 0)
    place = api.make("cuMemAlloc_v2", 64)
    stream = api.make("cuStreamCreate", 0)
    second_context = api.make("cuCtxCreate_v2", 0, 0)
    api("cuCtxDestroy_v2", first_context)
    api("cuMemFree_v2", place)
    api("cuCtxPopCurrent_v2", Out())
    api("cuCtxGetCurrent", Out())
    api("cuCtxSynchronize")
    api("cuCtxDestroy_v2", second_context)
    del stream


@TABLE.once
def null(rig: Rig) -> None:
    api = rig.api
    for name, arguments in (
        ("cuCtxCreate_v2", (0, 0, 0)), ("cuCtxDestroy_v2", (0,)), ("cuCtxPushCurrent_v2", (0,)),
        ("cuCtxGetCurrent", (0,)), ("cuCtxGetDevice", (0,)), ("cuCtxGetFlags", (0,)),
        ("cuCtxGetLimit", (0, 0)), ("cuCtxGetApiVersion", (0, 0)), ("cuCtxGetId", (0, Out())),
        ("cuCtxGetId", (rig.context, 0)), ("cuCtxGetStreamPriorityRange", (0, 0)),
        ("cuCtxGetCacheConfig", (0,)), ("cuCtxGetSharedMemConfig", (0,)),
        ("cuCtxAttach", (0, 0)), ("cuCtxDetach", (0,)), ("cuCtxGetExecAffinity", (0, 0)),
        ("cuCtxEnablePeerAccess", (0, 0)), ("cuCtxDisablePeerAccess", (0,)),
        ("cuCtxRecordEvent", (0, 0)), ("cuCtxWaitEvent", (0, 0)), ("cuCtxSynchronize_v2", (0,)),
        ("cuCtxGetDevice_v2", (Out("i32"), 0)), ("cuCtxGetDevice_v2", (Out("i32"), rig.context)),
    ):  # fmt: skip
        api(name, *arguments)


@TABLE.each((0, 1, 2))
def attach(rig: Rig, flags: int) -> None:
    api, out = rig.api, Out()
    api("cuCtxAttach", out, flags)
    api("cuCtxDetach", rig.context)
    context = api.make("cuCtxCreate_v2", 0, 0)
    api("cuCtxAttach", out, flags)
    api.note("same", out.value == context)
    api("cuCtxDetach", context)
    api("cuCtxDetach", context)
    api("cuCtxGetCurrent", out)
    api.note("now", out.value == context, out.value == rig.context)


@TABLE.each(
    [
        (number, value)
        for number in range(-1, 14)
        for value in (0, 1, 24, 1000, 1024, 4096, 65536, 1 << 20, 1 << 24, 1 << 40)
    ]
)
def limit(rig: Rig, number: int, value: int) -> None:
    api, context = rig.api, rig.api.make("cuCtxCreate_v2", 0, 0)
    api("cuCtxSetLimit", number, value)
    api("cuCtxGetLimit", Out("u64"), number)
    api("cuCtxDestroy_v2", context)


@TABLE.each((-1, 0, 1, 2, 3, 4))
def caches(rig: Rig, value: int) -> None:
    api, context = rig.api, rig.api.make("cuCtxCreate_v2", 0, 0)
    for name in ("Cache", "SharedMem"):
        api(f"cuCtxSet{name}Config", value)
        api(f"cuCtxGet{name}Config", Out("i32"))
    api("cuCtxDestroy_v2", context)


@TABLE.each((*range(9), 16, 32, 64, 128, 256))
def flags(rig: Rig, value: int) -> None:
    api, context = rig.api, rig.api.make("cuCtxCreate_v2", 0, 0)
    api("cuCtxSetFlags", value)
    api("cuCtxGetFlags", Out("u32"))
    api("cuCtxDestroy_v2", context)
    api("cuDevicePrimaryCtxSetFlags_v2", 0, value)
    api("cuDevicePrimaryCtxGetState", 0, Out("u32"), Out("i32"))
    api.call("cuDevicePrimaryCtxSetFlags_v2", 0, 0)


@TABLE.once
def primary(rig: Rig) -> None:
    api, active, flag = rig.api, Out("i32"), Out("u32")
    api("cuDevicePrimaryCtxGetState", 0, flag, active)
    api("cuDevicePrimaryCtxGetState", 0, 0, active)
    api("cuDevicePrimaryCtxGetState", 0, flag, 0)
    out = Out()
    api("cuDevicePrimaryCtxRetain", out, 0)
    api.note("same", out.value == rig.context)
    api("cuDevicePrimaryCtxRetain", 0, 0)
    api("cuDevicePrimaryCtxRelease_v2", 0)
    api("cuCtxDestroy_v2", rig.context)


@TABLE.once
def peers(rig: Rig) -> None:
    api = rig.api
    for first, second in ((0, 0), (0, 1), (1, 0), (-1, 0)):
        api("cuDeviceCanAccessPeer", Out("i32"), first, second)
        for number in range(6):
            api("cuDeviceGetP2PAttribute", Out("i32"), number, first, second)
    api("cuCtxEnablePeerAccess", rig.context, 0)
    api("cuCtxDisablePeerAccess", rig.context)
    other_context = api.make("cuCtxCreate_v2", 0, 0)
    api("cuCtxEnablePeerAccess", rig.context, 0)
    api("cuCtxEnablePeerAccess", rig.context, 1)
    api("cuCtxEnablePeerAccess", other_context, 0)
    api("cuCtxDisablePeerAccess", rig.context)
    place = api.make("cuMemAlloc_v2", 64)
    api("cuMemcpyPeer", place, other_context, place, rig.context, 16)
    api("cuMemcpyPeer", place, 0, place, other_context, 16)
    api("cuMemcpyPeer", place, other_context, place + 32, other_context, 16)
    api("cuMemcpyPeerAsync", place, other_context, place + 32, other_context, 16, 0)
    api("cuMemcpyPeer", place, other_context, place + 32, other_context, 0)
    api("cuCtxSynchronize")
    api("cuCtxDestroy_v2", other_context)


@TABLE.once
def other_contexts_objects(rig: Rig) -> None:
    api = rig.api
    place, stream = api.make("cuMemAlloc_v2", 64), api.make("cuStreamCreate", 0)
    function = rig.function("nothing")
    other_context = api.make("cuCtxCreate_v2", 0, 0)
    api("cuMemsetD8_v2", place, 0, 16)
    api("cuMemsetD8Async", place, 0, 16, stream)
    api("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
    api("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)
    api("cuFuncGetAttribute", Out("i32"), 0, function)
    api("cuStreamSynchronize", stream)
    api("cuMemFree_v2", place)
    api("cuStreamDestroy_v2", stream)
    api("cuCtxDestroy_v2", other_context)


@TABLE.each([(kind, count) for kind in (0, 1, 2) for count in (0, 1, 2)])
def affinity(rig: Rig, kind: int, count: int) -> None:
    api, out = rig.api, Out()
    if not api("cuCtxCreate_v3", out, longs(kind | 8 << 32, 0), count, 0, 0):
        api("cuCtxDestroy_v2", out.value)
    creation_parameters = longs(0, count, 0)
    if not api("cuCtxCreate_v4", Out(), creation_parameters, 0, 0):
        api("cuCtxDestroy_v2", 0)
    api("cuCtxGetExecAffinity", words(0, 0, 0, 0), kind)


@TABLE.once
def persisting(rig: Rig) -> None:
    rig.api("cuCtxResetPersistingL2Cache")
    rig.api("cuProfilerStart")
    rig.api("cuProfilerStop")
    rig.api("cuFlushGPUDirectRDMAWrites", 0, 0)
    for target in (0, 1):
        for scope in (0, 100, 200):
            rig.api("cuFlushGPUDirectRDMAWrites", target, scope)
