"""One case on the device: its module, memory, tensor maps and textures, and what it leaves."""

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from benchmarks.silicon.values import textures
from benchmarks.silicon.values.driver import CallError, Driver

Case = dict[str, Any]
Undo = Callable[[], None]
PAGE = 4096
_STICKY = frozenset({214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999})
"""Errors after which a context is lost."""


class Lost(Exception):
    """The context of this process is lost; the report is the exception's argument."""


def execute(driver: Driver, case: Case, blob: Callable[[str], bytes]) -> dict[str, Any]:
    """Run a case; return ``status`` and for ``ok`` the buffers that it names, as bytes.

    Raises:
        Lost: with the same report, if no further case can run in this process.
    """
    undo_steps: list[Undo] = []
    report: dict[str, Any] = {"id": case["id"], "status": "ok"}
    try:
        module = driver.load(case["ptx"])
        undo_steps.append(lambda: driver.unload(module))
        if "entry" in case:  # otherwise, whether it loads is the question
            report["outputs"] = _launch(driver, case, module, blob, undo_steps)
    except CallError as error:
        report |= {"status": f"{error.call} {error.code}", "log": error.log[:600]}
        if error.code in _STICKY:
            raise Lost(report) from error
    for undo in reversed(undo_steps):
        undo()
    return report


def _launch(
    driver: Driver,
    case: Case,
    module: ctypes.c_void_p,
    blob: Callable[[str], bytes],
    undo_steps: list[Undo],
) -> list[tuple[int, bytes]]:
    """Prepare memory, launch, and return the buffers that the case names, after the launch."""
    function = driver.function(module, case["entry"])
    addresses, contents = place_buffers(driver, case, blob)
    parameters = bytearray.fromhex(case["params"])
    for number, spec in enumerate(case.get("textures", ())):
        handle, undo = textures.create(driver, spec, blob)
        undo_steps.append(undo)
        struct.pack_into("<Q", contents[case["handles"]], 8 * number, handle)
    for where, offset, target, addend in case.get("relocs", ()):
        into = parameters if where == "p" else contents[where]
        struct.pack_into("<Q", into, offset, addresses[target] + addend)
    for offset, spec in case.get("maps", ()):
        parameters[offset : offset + 128] = encode_map(driver, spec, addresses)
    for address, data in zip(addresses, contents, strict=True):
        driver.write(address, bytes(data))
    driver.launch(
        function,
        case["grid"],
        case["block"],
        case.get("cluster"),
        case.get("shared", 0),
        bytes(parameters),
        case.get("offsets"),
    )
    outputs = case.get("out", range(len(addresses)))
    return [(n, driver.read(addresses[n], len(contents[n]))) for n in outputs]


def place_buffers(
    driver: Driver, case: Case, blob: Callable[[str], bytes]
) -> tuple[list[int], list[bytearray]]:
    """Return an address for each buffer, at its distance from a page's start, and its contents."""
    at, addresses, contents = driver.area, [], []
    for data, offset in case["buffers"]:
        content = bytearray(data) if isinstance(data, int) else bytearray(blob(data))
        at += -at % PAGE + offset
        addresses.append(at)
        contents.append(content)
        at += len(content) + PAGE
    if at > driver.area + driver.area_bytes:
        raise CallError("memory for buffers", 2)
    return addresses, contents


def encode_map(driver: Driver, spec: dict[str, Any], addresses: list[int]) -> bytes:
    """Return the 128 bytes of a tensor map."""
    rank, image = len(spec["sizes"]), (ctypes.c_ubyte * 192)()
    place = ctypes.addressof(image) + -ctypes.addressof(image) % 64
    buffer, addend = spec["at"]
    tensor = ctypes.c_void_p(addresses[buffer] + addend)
    sizes, strides = (ctypes.c_uint64 * 5)(*spec["sizes"]), (ctypes.c_uint64 * 5)(*spec["strides"])
    box, steps = (ctypes.c_uint32 * 5)(*spec["box"]), (ctypes.c_uint32 * 5)(*spec["steps"])
    head = (ctypes.c_void_p(place), spec["type"], rank, tensor, sizes, strides)
    tail = (spec["interleave"], spec["swizzle"], 0, spec["fill"])
    if spec["access"] == 0:
        driver.call("cuTensorMapEncodeTiled", *head, box, steps, *tail)
    elif spec["access"] == 1:
        lower, upper = (ctypes.c_int * 3)(*spec["lower"]), (ctypes.c_int * 3)(*spec["upper"])
        channels, pixels = spec["box"][0], spec["pixels"]
        driver.call("cuTensorMapEncodeIm2col", *head, lower, upper, channels, pixels, steps, *tail)
    else:
        raise CallError("tensor maps of this mode", 801)
    return ctypes.string_at(place, 128)
