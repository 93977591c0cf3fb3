"""Texture and surface objects of a case: arrays with their elements, and the sampler's settings."""

import ctypes
import math
import struct
from collections.abc import Callable
from typing import Any

from benchmarks.silicon.values.driver import Driver

_FORMATS = (0x01, 0x02, 0x03, 0x08, 0x09, 0x0A, 0x10, 0x20)
_ELEMENT_BYTES = (1, 2, 4, 1, 2, 4, 2, 4)
_LAYERED, _SURFACE, _CUBE = 1, 2, 4
_LINE, _PLANE, _SPACE, _LAYERED_LINE, _LAYERED_PLANE, _CUBE_MAP, _LAYERED_CUBES, _BUFFER = range(8)
_ARRAY_RESOURCE, _MIPMAP_RESOURCE, _LINEAR_RESOURCE = 0, 1, 2
_HOST, _ARRAY = 1, 3
_AS_INTEGER, _NORMALIZED, _SRGB = 1, 2, 0x10
_RESOURCE_BYTES = 144


class Copy3d(ctypes.Structure):
    """``CUDA_MEMCPY3D``."""

    _fields_ = [
        *((f"from_{name}", ctypes.c_size_t) for name in ("x", "y", "z", "level")),
        ("from_kind", ctypes.c_uint),
        ("from_host", ctypes.c_void_p),
        *((f"from_{name}", ctypes.c_size_t) for name in ("device", "array", "no", "pitch", "high")),
        *((f"to_{name}", ctypes.c_size_t) for name in ("x", "y", "z", "level")),
        ("to_kind", ctypes.c_uint),
        ("to_host", ctypes.c_void_p),
        ("to_device", ctypes.c_uint64),
        ("to_array", ctypes.c_void_p),
        *((f"to_{name}", ctypes.c_size_t) for name in ("no", "pitch", "high")),
        *((name, ctypes.c_size_t) for name in ("width", "height", "depth")),
    ]


def create(
    driver: Driver, spec: dict[str, Any], blob: Callable[[str], bytes]
) -> tuple[int, Callable[[], None]]:
    """Return the handle of a texture or surface, and a function that destroys it and its array."""
    undo: list[Callable[[], None]] = []
    resource = _new_resource(driver, spec, blob, undo)
    handle = ctypes.c_uint64()
    if spec["surface"]:
        driver.call("cuSurfObjectCreate", ctypes.byref(handle), resource)
        undo.append(lambda: driver.call("cuSurfObjectDestroy", handle))
    else:
        settings = _describe_sampler(spec)
        driver.call("cuTexObjectCreate", ctypes.byref(handle), resource, settings, None)
        undo.append(lambda: driver.call("cuTexObjectDestroy", handle))

    def destroy() -> None:
        for step in reversed(undo):
            step()

    return handle.value, destroy


def _new_resource(
    driver: Driver,
    spec: dict[str, Any],
    blob: Callable[[str], bytes],
    undo: list[Callable[[], None]],
) -> bytes:
    """Return a ``CUDA_RESOURCE_DESC`` of new memory that holds the texture's elements."""
    item = _ELEMENT_BYTES[spec["format"]] * spec["channels"]
    if spec["shape"] == _BUFFER:
        data = blob(spec["levels"][0][1])
        address = driver.allocate(len(data) + 512)
        undo.append(lambda: driver.call("cuMemFree_v2", ctypes.c_uint64(address)))
        driver.write(address, data)
        described = struct.pack("<QIIQ", address, *_elements(spec), len(data))
        return struct.pack("<I4x", _LINEAR_RESOURCE) + described.ljust(_RESOURCE_BYTES - 8, b"\0")
    description = _describe_array(spec)
    levels = spec["levels"]
    whole = ctypes.c_void_p()
    if not spec["mipmapped"]:
        driver.call("cuArray3DCreate_v2", ctypes.byref(whole), description)
        undo.append(lambda: driver.call("cuArrayDestroy", whole))
        arrays, kind = [whole], _ARRAY_RESOURCE
    else:
        driver.call("cuMipmappedArrayCreate", ctypes.byref(whole), description, len(levels))
        undo.append(lambda: driver.call("cuMipmappedArrayDestroy", whole))
        arrays, kind = [ctypes.c_void_p() for _ in levels], _MIPMAP_RESOURCE
        for number, array in enumerate(arrays):
            driver.call("cuMipmappedArrayGetLevel", ctypes.byref(array), whole, number)
    for array, ((slices, height, width), name) in zip(arrays, levels, strict=True):
        data = blob(name)
        source = ctypes.create_string_buffer(data, len(data))
        copy = Copy3d(
            from_kind=_HOST,
            from_host=ctypes.addressof(source),
            from_pitch=width * item,
            from_high=height,
            to_kind=_ARRAY,
            to_array=array,
            width=width * item,
            height=height,
            depth=slices,
        )
        driver.call("cuMemcpy3D_v2", ctypes.byref(copy))
    return struct.pack("<I4xQ", kind, whole.value or 0).ljust(_RESOURCE_BYTES, b"\0")


def _elements(spec: dict[str, Any]) -> tuple[int, int]:
    return _FORMATS[spec["format"]], spec["channels"]


def _describe_array(spec: dict[str, Any]) -> bytes:
    """Return a ``CUDA_ARRAY3D_DESCRIPTOR`` of the texture's first level."""
    (slices, height, width), _ = spec["levels"][0]
    shape, flags = spec["shape"], _SURFACE if spec["surface"] else 0
    if shape in (_LINE, _LAYERED_LINE):
        height = 0
    if shape in (_LINE, _PLANE):
        slices = 0
    if shape in (_LAYERED_LINE, _LAYERED_PLANE, _LAYERED_CUBES):
        flags |= _LAYERED
    if shape in (_CUBE_MAP, _LAYERED_CUBES):
        flags |= _CUBE
    return struct.pack("<QQQIIII", width, height, slices, *_elements(spec), flags, 0)


def _describe_sampler(spec: dict[str, Any]) -> bytes:
    """Return a ``CUDA_TEXTURE_DESC``."""
    flags = _AS_INTEGER * spec["integers"] | _NORMALIZED * spec["normalized"]
    flags |= _SRGB * spec["srgb"]
    bias, min_level, max_level = spec["clamps"]
    assert math.isfinite(bias)
    return struct.pack(
        "<3IIIII3f4f12x4x",
        *spec["modes"],
        int(spec["linear"]),
        flags,
        0,
        int(spec["linear_levels"]),
        bias,
        min_level,
        max_level,
        *spec["border"],
    ).ljust(104, b"\0")
