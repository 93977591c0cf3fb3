"""Streams, their attributes, values in memory, and host functions."""

import ctypes

from benchmarks.silicon.driver.answers import Out, longs, words
from benchmarks.silicon.driver.context import Rig
from benchmarks.silicon.driver.sequences.registry import Table

TABLE = Table("streams")
SPECIAL = {"null": 0, "legacy": 1, "thread": 2}


@TABLE.each((0, 1, 2, 3, 4, 8, 16, 1 << 31))
def create(rig: Rig, flags: int) -> None:
    api, out = rig.api, Out()
    if api("cuStreamCreate", out, flags):
        return
    for name, form in (
        ("cuStreamGetFlags", "u32"),
        ("cuStreamGetPriority", "i32"),
        ("cuStreamGetDevice", "i32"),
        ("cuStreamGetCtx", "handle"),
        ("cuStreamGetId", "handle"),
    ):
        api(name, out.value, Out(form))
    api("cuStreamQuery", out.value)
    api("cuStreamDestroy_v2", out.value)


@TABLE.each(
    [(flags, priority) for flags in (0, 1, 2, 3) for priority in (-100, -6, -5, -4, -1, 0, 1, 5)]
)
def create_with_priority(rig: Rig, flags: int, priority: int) -> None:
    api, out = rig.api, Out()
    if api("cuStreamCreateWithPriority", out, flags, priority):
        return
    api("cuStreamGetPriority", out.value, Out("i32"))
    api("cuStreamGetFlags", out.value, Out("u32"))
    api("cuStreamDestroy_v2", out.value)


@TABLE.each(SPECIAL)
def special(rig: Rig, name: str) -> None:
    api, stream = rig.api, SPECIAL[name]
    for call, form in (
        ("cuStreamGetFlags", "u32"),
        ("cuStreamGetPriority", "i32"),
        ("cuStreamGetDevice", "i32"),
        ("cuStreamGetCtx", "handle"),
        ("cuStreamGetId", "handle"),
        ("cuStreamIsCapturing", "u32"),
    ):
        api(call, stream, Out(form))
        api(call, stream, 0)
    for call in ("cuStreamQuery", "cuStreamSynchronize", "cuStreamDestroy_v2"):
        api(call, stream)
    api("cuStreamBeginCapture_v2", stream, 0)
    api("cuStreamEndCapture", stream, Out())
    api("cuStreamWaitEvent", stream, 0, 0)
    api("cuStreamAttachMemAsync", stream, 0, 0, 4)


@TABLE.each(
    [(number, stream) for number in range(9) for stream in ("new", "null", "legacy", "thread")]
)
def attribute(rig: Rig, number: int, stream: str) -> None:
    api = rig.api
    handle = api.make("cuStreamCreate", 0) if stream == "new" else SPECIAL[stream]
    for value in (None, 0, 1, 2, 3, 4, 100, 0xFFFF_FFFF):
        if value is not None:
            room = words(value, *[0] * 15)
            api("cuStreamSetAttribute", handle, number, room)
            if stream != "new":
                api.call("cuStreamSetAttribute", handle, number, words(*[0] * 16))
        room = words(*[0x77777777] * 16)
        status, _ = api.call("cuStreamGetAttribute", handle, number, room)
        api.note("cuStreamGetAttribute", status, hex(room[0]))


@TABLE.once
def policy_window(rig: Rig) -> None:
    api = rig.api
    stream, place = api.make("cuStreamCreate", 0), api.make("cuMemAlloc_v2", 1 << 20)
    for size, ratio, hit, miss in (
        (4096, 1.0, 2, 1),
        (4096, 2.0, 2, 1),
        (4096, -1.0, 2, 1),
        (1 << 40, 1.0, 2, 1),
        (4096, 1.0, 3, 1),
        (4096, 1.0, 2, 2),
        (0, 0.5, 0, 0),
    ):
        bits = int.from_bytes(bytes(ctypes.c_float(ratio)), "little")
        api(
            "cuStreamSetAttribute",
            stream,
            1,
            longs(place, size, bits | hit << 32, miss, 0, 0, 0, 0),
        )
    second_stream = api.make("cuStreamCreate", 0)
    api("cuStreamCopyAttributes", second_stream, stream)
    api("cuStreamCopyAttributes", stream, stream)
    api("cuStreamCopyAttributes", 0, stream)


@TABLE.each(
    [
        (flags, kind)
        for flags in (0, 1, 2, 3, 4, 5, 8)
        for kind in ("managed", "device", "null", "host")
    ]
)
def attach(rig: Rig, flags: int, kind: str) -> None:
    api = rig.api
    place = {
        "managed": lambda: api.make("cuMemAllocManaged", 4096, 1),
        "device": lambda: api.make("cuMemAlloc_v2", 4096),
        "null": lambda: 0,
        "host": lambda: api.make("cuMemHostAlloc", 4096, 0),
    }[kind]()
    stream = api.make("cuStreamCreate", 0)
    for length in (0, 4096, 100, 8192):
        api("cuStreamAttachMemAsync", stream, place, length, flags)
    api("cuStreamAttachMemAsync", 0, place, 0, flags)


@TABLE.each(
    [
        (bits, call, shift, flags)
        for bits in (32, 64)
        for call in ("Write", "Wait")
        for shift in (0, 1, 4)
        for flags in (0, 1, 2, 3, 4, 1 << 30, 1 << 20)
    ]
)
def values(rig: Rig, bits: int, call: str, shift: int, flags: int) -> None:
    api = rig.api
    place = api.make("cuMemAlloc_v2", 4096)
    api.call("cuMemsetD8_v2", place, 0xFF if flags in (1, 2, 3) else 0, 4096)
    memory_value = {0: 0, 1: (1 << bits) - 1, 2: 1, 3: 0}.get(flags & 3, 0)
    if flags & 3 == 3:
        api.call("cuMemsetD8_v2", place, 0, 4096)  # ~(0 | 0) is not 0
    stream = api.make("cuStreamCreate", 0)
    api(f"cuStream{call}Value{bits}_v2", stream, place + shift, memory_value, flags)
    api(f"cuStream{call}Value{bits}", stream, place + shift, memory_value, flags)
    api("cuStreamSynchronize", stream)
    api(f"cuStream{call}Value{bits}_v2", stream, 0, memory_value, flags)
    api(f"cuStream{call}Value{bits}_v2", stream, 0x1001, memory_value, flags)
    api("cuMemFree_v2", place)


@TABLE.each(
    [
        (count, flags, kind)
        for count in (0, 1, 257)
        for flags in (0, 1)
        for kind in (1, 2, 3, 4, 5, 6, 7)
    ]
)
def operations(rig: Rig, count: int, flags: int, kind: int) -> None:
    api = rig.api
    place, stream = api.make("cuMemAlloc_v2", 4096), api.make("cuStreamCreate", 0)
    api.call("cuMemsetD8_v2", place, 0, 4096)
    operation_words = (kind, 0, place & 0xFFFF_FFFF, place >> 32, 0, 0, 0, 0, 0, 0, 0, 0)
    room = words(*(operation_words * max(count, 1)))
    if kind == 3:  # flush of remote writes, and memory barrier (6)
        room = words(*((3, 0, *[0] * 10) * max(count, 1)))
    api("cuStreamBatchMemOp_v2", stream, count, room, flags)
    api("cuStreamSynchronize", stream)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _inside(_data: int | None) -> None:
    """Call functions that host functions must not call."""
    from benchmarks.silicon.driver.answers import driver

    api = driver()
    for name, arguments in (
        ("cuMemAlloc_v2", (Out("-"), 16)),
        ("cuStreamQuery", (0,)),
        ("cuCtxSynchronize", ()),
        ("cuEventCreate", (Out("-"), 0)),
        ("cuMemcpyDtoD_v2", (0, 0, 0)),
        ("cuDriverGetVersion", (Out("-"),)),
        ("cuCtxGetCurrent", (Out(),)),
        ("cuDeviceGetCount", (Out("-"),)),
        ("cuStreamCreate", (Out("-"), 0)),
    ):
        _FROM_INSIDE.append([name, api.call(name, *arguments)[0]])


_FROM_INSIDE: list[list[object]] = []


@TABLE.once
def host_function(rig: Rig) -> None:
    api, stream = rig.api, rig.api.make("cuStreamCreate", 0)
    api("cuLaunchHostFunc", stream, 0, 0)
    _FROM_INSIDE.clear()
    api("cuLaunchHostFunc", stream, ctypes.cast(_inside, ctypes.c_void_p).value, 0)
    api("cuStreamSynchronize", stream)
    for row in _FROM_INSIDE:
        api.note(*row)
    api("cuStreamAddCallback", stream, 0, 0, 0)
    api("cuStreamAddCallback", stream, ctypes.cast(_inside, ctypes.c_void_p).value, 0, 1)
    api("cuStreamSynchronize", stream)


@TABLE.once
def destroy_unfinished(rig: Rig) -> None:
    api, stream = rig.api, rig.api.make("cuStreamCreate", 1)
    event, untimed_event = api.make("cuEventCreate", 0), api.make("cuEventCreate", 2)
    time = ctypes.c_uint64(200_000_000)
    parameters = longs(ctypes.addressof(time))
    api("cuLaunchKernel", rig.function("slow"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, 0)
    api("cuEventRecord", event, stream)
    api("cuEventRecord", untimed_event, stream)
    api("cuStreamQuery", stream)
    api("cuEventQuery", event)
    api("cuEventQuery", untimed_event)
    api("cuEventElapsedTime", Out("-"), event, event)
    api("cuEventElapsedTime_v2", Out("-"), event, event)
    api("cuStreamQuery", 0)
    api("cuStreamQuery", 2)
    api("cuStreamDestroy_v2", stream)
    api("cuEventQuery", event)
    api("cuEventSynchronize", event)
    api("cuEventElapsedTime", Out("-"), event, untimed_event)
    api("cuEventElapsedTime", Out("f32"), event, event)


@TABLE.once
def wait_flags(rig: Rig) -> None:
    api, stream, event = (
        rig.api,
        rig.api.make("cuStreamCreate", 0),
        rig.api.make("cuEventCreate", 0),
    )
    for flags in (0, 1, 2, 3, 1 << 31):
        api("cuStreamWaitEvent", stream, event, flags)
        api("cuEventRecordWithFlags", event, stream, flags)
        api("cuStreamWaitEvent", stream, event, flags)
    api("cuStreamWaitEvent", stream, 0, 0)
    api("cuEventRecord", 0, stream)
    api("cuStreamSynchronize", stream)


@TABLE.once
def use_destroyed(rig: Rig) -> None:
    api, stream = rig.api, rig.api.make("cuStreamCreate", 0)
    api("cuStreamDestroy_v2", stream)
    for name in ("cuStreamQuery", "cuStreamSynchronize"):
        api(name, stream)


@TABLE.once
def destroyed_twice(rig: Rig) -> None:
    stream = rig.api.make("cuStreamCreate", 0)
    rig.api("cuStreamDestroy_v2", stream)
    rig.api("cuStreamDestroy_v2", stream)


@TABLE.each((3, 4, 16, 0x1000, 0x7FFF_FFFF_0000))
def garbage(rig: Rig, handle: int) -> None:
    rig.api("cuStreamQuery", handle)
