"""Allocation, copies, fills, host memory and managed memory."""

import ctypes
import mmap

from benchmarks.silicon.driver.answers import Out
from benchmarks.silicon.driver.context import Rig
from benchmarks.silicon.driver.sequences.registry import Table

TABLE = Table("memory")
HUGE = (1 << 40, 1 << 48, (1 << 63) - 1, (1 << 64) - 1)
PAGE = 4096
HOST, DEVICE, ARRAY, UNIFIED = 1, 2, 3, 4


def pages(count: int = 2) -> int:
    """Return the address of new anonymous pages, which stay."""
    room = mmap.mmap(-1, count * PAGE)
    _KEPT.append(room)
    return ctypes.addressof(ctypes.c_char.from_buffer(room))


_KEPT: list[mmap.mmap] = []


@TABLE.each((0, 1, 4096, *HUGE))
def alloc(rig: Rig, size: int) -> None:
    out = Out()
    rig.api("cuMemAlloc_v2", out, size)
    rig.api("cuMemFree_v2", out.value if out.show() == "made" else 0)


@TABLE.each(
    [
        (w, h, e)
        for w in (0, 1, 64, 511, 513, 1 << 40)
        for h in (0, 1, 7)
        for e in (0, 1, 2, 3, 4, 8, 12, 16, 32)
    ]
)
def alloc_pitch(rig: Rig, width: int, height: int, element: int) -> None:
    out, pitch = Out(), Out("u64")
    if not rig.api("cuMemAllocPitch_v2", out, pitch, width, height, element):
        rig.api.call("cuMemFree_v2", out.value)


@TABLE.once
def free_wrong(rig: Rig) -> None:
    api = rig.api
    place = api.make("cuMemAlloc_v2", 4096)
    api("cuMemFree_v2", 0)
    api("cuMemFree_v2", place + 16)
    api("cuMemFree_v2", 0x1234)
    api("cuMemFree_v2", pages())
    api("cuMemFree_v2", place)
    api("cuMemFree_v2", place)
    api("cuMemFreeHost", place)
    host = api.make("cuMemHostAlloc", 4096, 0)
    api("cuMemFree_v2", host)
    api("cuMemFreeHost", host + 8)
    api("cuMemHostUnregister", host)
    api("cuMemFreeHost", host)
    api("cuMemFreeHost", 0)
    api("cuMemFreeHost", pages())


@TABLE.once
def free_managed(rig: Rig) -> None:
    api = rig.api
    place = api.make("cuMemAllocManaged", 4096, 1)
    api("cuMemFreeHost", place)
    api("cuMemFree_v2", place + 4)
    api("cuMemFree_v2", place)


@TABLE.each((0, 1, 100, 4096, 1 << 50, (1 << 64) - 1))
def address_range(rig: Rig, size: int) -> None:
    api = rig.api
    place = api.make("cuMemAlloc_v2", size)
    base, length = Out("-"), Out("u64")
    for shift in (0, 1, size - 1, size, 1 << 21):
        api("cuMemGetAddressRange_v2", base, length, place + shift)
        api.note("base", base.value == place)
    api("cuMemGetAddressRange_v2", 0, length, place)
    api("cuMemGetAddressRange_v2", 0, 0, place)
    api("cuMemGetAddressRange_v2", base, length, 0)
    host = api.make("cuMemHostAlloc", 100, 0)
    api("cuMemGetAddressRange_v2", base, length, host)
    managed = api.make("cuMemAllocManaged", 100, 1)
    api("cuMemGetAddressRange_v2", base, length, managed)
    for call, pointer in (
        ("cuMemFree_v2", place),
        ("cuMemFreeHost", host),
        ("cuMemFree_v2", managed),
    ):
        api.call(call, pointer)


@TABLE.each([(flags, size) for flags in (*range(9), 15, 16, 32, 1 << 31) for size in (0, 1, 4096)])
def host_alloc(rig: Rig, flags: int, size: int) -> None:
    api, out, device, back = rig.api, Out(), Out("-"), Out("u32")
    if api("cuMemHostAlloc", out, size, flags):
        return
    api("cuMemHostGetFlags", back, out.value)
    for pointer_flags in (0, 1):
        api("cuMemHostGetDevicePointer_v2", device, out.value, pointer_flags)
    api.note("same", device.value == out.value)
    api("cuMemHostGetDevicePointer_v2", device, out.value + 1, 0)
    api.call("cuMemFreeHost", out.value)


@TABLE.each((0, 1, 4096, *HUGE))
def alloc_host(rig: Rig, size: int) -> None:
    out, flags = Out(), Out("u32")
    if not rig.api("cuMemAllocHost_v2", out, size):
        rig.api("cuMemHostGetFlags", flags, out.value)
        rig.api.call("cuMemFreeHost", out.value)


@TABLE.each(
    [
        (flags, shift, size)
        for flags in (*range(9), 15, 16, 1 << 30)
        for shift, size in ((0, 4096), (16, 100), (0, 0))
    ]
)
def host_register(rig: Rig, flags: int, shift: int, size: int) -> None:
    api, place, device, back = rig.api, pages(), Out("-"), Out("u32")
    if api("cuMemHostRegister_v2", place + shift, size, flags):
        return
    api("cuMemHostGetFlags", back, place + shift)
    api("cuMemHostGetDevicePointer_v2", device, place + shift, 0)
    api.note("same", device.value == place + shift)
    api("cuMemHostRegister_v2", place + shift, size, flags)
    api("cuMemHostUnregister", place + shift + 1)
    api("cuMemHostUnregister", place + shift)
    api("cuMemHostUnregister", place + shift)


@TABLE.once
def host_register_overlapping(rig: Rig) -> None:
    api, place = rig.api, pages(4)
    api("cuMemHostRegister_v2", place, 2 * PAGE, 0)
    api("cuMemHostRegister_v2", place + PAGE, PAGE, 0)
    api("cuMemHostRegister_v2", place + PAGE, 2 * PAGE, 0)
    api("cuMemHostRegister_v2", place + 2 * PAGE, PAGE, 0)
    api("cuMemHostRegister_v2", place + 3 * PAGE, 100, 0)
    api("cuMemHostRegister_v2", place + 3 * PAGE + 200, 100, 0)
    for i in range(4):
        api("cuMemHostUnregister", place + i * PAGE)
    api("cuMemHostUnregister", place + 3 * PAGE + 200)
    for wrong in (
        0,
        0x1000,
        1 << 62,
        api.make("cuMemAlloc_v2", 4096),
        api.make("cuMemHostAlloc", 4096, 0),
        api.make("cuMemAllocManaged", 4096, 1),
    ):
        api("cuMemHostRegister_v2", wrong, 4096, 0)
        api("cuMemHostUnregister", wrong)
        api("cuMemHostGetFlags", Out("u32"), wrong)
        api("cuMemHostGetDevicePointer_v2", Out("-"), wrong, 0)


@TABLE.each([(flags, size) for flags in (*range(8), 1 << 20) for size in (0, 1, 4096)])
def alloc_managed(rig: Rig, flags: int, size: int) -> None:
    out = Out()
    if not rig.api("cuMemAllocManaged", out, size, flags):
        rig.api("cuMemFree_v2", out.value)


@TABLE.each(HUGE)
def managed_huge(rig: Rig, size: int) -> None:
    rig.api("cuMemAllocManaged", Out(), size, 1)


def kinds(rig: Rig) -> dict[str, int]:
    """Return an address of 8192 bytes of each kind, and of none."""
    api = rig.api
    return {
        "device": api.make("cuMemAlloc_v2", 8192),
        "host": api.make("cuMemHostAlloc", 8192, 0),
        "managed": api.make("cuMemAllocManaged", 8192, 1),
        "pageable": pages(),
        "null": 0,
    }


def release(rig: Rig, addresses: dict[str, int]) -> None:
    """Free what ``kinds`` returned."""
    for name in ("device", "managed"):
        rig.api.call("cuMemFree_v2", addresses[name])
    rig.api.call("cuMemFreeHost", addresses["host"])


@TABLE.each(
    [
        (advice, kind, device)
        for advice in range(9)
        for kind in ("managed", "device", "host", "pageable", "null")
        for device in (0, -1, 5)
    ]
)
def advise(rig: Rig, advice: int, kind: str, device: int) -> None:
    api, addresses = rig.api, kinds(rig)
    place = {0: (1, 0), -1: (2, 0), 5: (1, 5)}[device]
    where = place[0] | place[1] << 32  # CUmemLocation by value
    api("cuMemAdvise_v2", addresses[kind], 8192, advice, where)
    api("cuMemAdvise", addresses[kind], 4096, advice, device)
    api("cuMemAdvise_v2", addresses[kind] + 1, 100, advice, where)
    api("cuMemAdvise_v2", addresses[kind], 0, advice, where)
    release(rig, addresses)


@TABLE.each(
    [
        (kind, place)
        for kind in ("managed", "device", "host", "pageable", "null")
        for place in ((1, 0), (2, 0), (3, 0), (4, 0), (0, 0), (1, 7), (1, -1), (5, 0))
    ]
)
def prefetch(rig: Rig, kind: str, place: tuple[int, int]) -> None:
    api, addresses = rig.api, kinds(rig)
    where = place[0] | (place[1] & 0xFFFF_FFFF) << 32
    for size, flags in ((8192, 0), (0, 0), (1 << 40, 0), (8192, 1)):
        api("cuMemPrefetchAsync_v2", addresses[kind], size, where, flags, 0)
    api("cuMemPrefetchAsync", addresses[kind], 4096, place[1], 0)
    api("cuStreamSynchronize", 0)
    release(rig, addresses)


@TABLE.each(
    [(kind, attribute) for kind in ("managed", "device", "host", "null") for attribute in range(10)]
)
def range_attribute(rig: Rig, kind: str, attribute: int) -> None:
    api, addresses = rig.api, kinds(rig)
    for size in (4, 8, 3, 0, 16):
        out = Out("i32")
        api("cuMemRangeGetAttribute", out, size, attribute, addresses[kind], 4096)
    api("cuMemRangeGetAttribute", Out("i32"), 4, attribute, addresses[kind], 0)
    release(rig, addresses)


@TABLE.once
def info(rig: Rig) -> None:
    api, free, total = rig.api, Out("-"), Out("u64")
    api("cuMemGetInfo_v2", free, total)
    api.note("less", free.value <= total.value)
    api("cuMemGetInfo_v2", 0, total)
    api("cuMemGetInfo_v2", free, 0)
    api("cuMemGetInfo_v2", 0, 0)
