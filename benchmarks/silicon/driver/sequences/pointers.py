"""Attributes of pointers to every kind of memory."""

import ctypes

from benchmarks.silicon.driver.answers import Out, longs, words
from benchmarks.silicon.driver.context import Rig, module
from benchmarks.silicon.driver.sequences.memory import pages
from benchmarks.silicon.driver.sequences.registry import Table

TABLE = Table("pointers")
KINDS = (
    "device",
    "inside",
    "host",
    "mapped",
    "managed",
    "registered",
    "pageable",
    "null",
    "freed",
    "pool",
    "variable",
    "reserved",
    "mapped view",
    "small",
    "kernel",
)
NUMBERS = {2, 6, 8, 9, 10, 11, 13, 14, 15, 16, 18, 21, 22}


def address(rig: Rig, kind: str) -> int:  # noqa: C901 - one case for each kind
    """Return an address of a kind; what it needs stays allocated."""
    api = rig.api
    match kind:
        case "device" | "inside":
            return api.make("cuMemAlloc_v2", 8192) + (100 if kind == "inside" else 0)
        case "host":
            return api.make("cuMemHostAlloc", 8192, 0)
        case "mapped":
            return api.make("cuMemHostAlloc", 8192, 3)
        case "managed":
            return api.make("cuMemAllocManaged", 8192, 1)
        case "registered":
            place = pages()
            api.call("cuMemHostRegister_v2", place, 4096, 0)
            return place
        case "pageable":
            return pages()
        case "freed":
            place = api.make("cuMemAlloc_v2", 64 << 20)
            api.call("cuMemFree_v2", place)
            return place
        case "pool":
            place = api.make("cuMemAllocAsync", 4096, 0)
            api.call("cuStreamSynchronize", 0)
            return place
        case "variable":
            return api.make("cuModuleGetGlobal_v2", 0, module(), b"counter")
        case "reserved" | "mapped view":
            place = api.make("cuMemAddressReserve", 2 << 20, 0, 0, 0)
            if kind == "reserved":
                return place
            handle = api.make("cuMemCreate", 2 << 20, words(1, 0, 1, 0, 0, 0, 0, 0), 0)
            api.call("cuMemMap", place, 2 << 20, 0, handle, 0)
            api.call("cuMemSetAccess", place, 2 << 20, words(1, 0, 3), 1)
            return place
        case "small":
            return 0x1000
        case "kernel":
            return rig.function("nothing")
    return 0


@TABLE.each([(kind, number) for kind in KINDS for number in range(-1, 24)])
def attribute(rig: Rig, kind: str, number: int) -> None:
    api, place = rig.api, address(rig, kind)
    room = (ctypes.c_uint64 * 16)(*[0x7777777777777777] * 16)
    status, _ = api.call("cuPointerGetAttribute", room, number, place)
    first, second = int(room[0]), int(room[1])
    value: object
    if first == 0x7777777777777777:
        value = "unwritten"
    elif first == 0:
        value = "zero"
    elif number in NUMBERS:
        written = next(
            (n for n in (1, 2, 4) if first >> (8 * n) == 0x7777777777777777 >> (8 * n)), 8
        )
        value = [written, first & ((1 << (8 * written)) - 1)]
    elif number in (3, 4, 12):
        value = "equal" if first == place else "below" if first < place else "other"
    elif number == 20:
        value = [hex(first), hex(second)]
    else:
        value = "set"
    api.note("cuPointerGetAttribute", status, value)


@TABLE.each(KINDS)
def attributes(rig: Rig, kind: str) -> None:
    api, place = rig.api, address(rig, kind)
    numbers = words(2, 4, 8, 9, 1)
    rooms = [Out("u64"), Out("-"), Out("u64"), Out("u64"), Out()]
    for room in rooms:
        room.cell.value = 0
    data = longs(*(room.address for room in rooms))
    status, _ = api.call("cuPointerGetAttributes", 5, numbers, data, place)
    api.note(
        "cuPointerGetAttributes", status, *(room.show() for room in rooms if room.shown != "-")
    )
    api("cuPointerGetAttributes", 0, numbers, data, place)
    api("cuPointerGetAttributes", 1, words(99), data, place)


@TABLE.each(
    [
        (kind, number)
        for kind in ("device", "host", "managed", "null", "pool")
        for number in (0, 2, 6, 7, 9, 14, 99)
    ]
)
def set_attribute(rig: Rig, kind: str, number: int) -> None:
    api, place = rig.api, address(rig, kind)
    for value in (1, 0, 2):
        api("cuPointerSetAttribute", words(value), number, place)
        out = Out("u64")
        out.cell.value = 0
        api("cuPointerGetAttribute", out, 6, place)


@TABLE.each(
    [(kind, handle, flags) for kind in KINDS for handle in (0, 1, 2) for flags in (0, 1, 2)]
)
def range_handle(rig: Rig, kind: str, handle: int, flags: int) -> None:
    import os

    api, place, out = rig.api, address(rig, kind), Out("-")
    for size in (4096, 2 << 20, 100):
        status = api("cuMemGetHandleForAddressRange", out, place, size, handle, flags)
        if not status:
            os.close(out.value & 0xFFFF_FFFF)
