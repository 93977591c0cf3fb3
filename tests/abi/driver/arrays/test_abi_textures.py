"""Texture and surface objects: the descriptors that kernels read, and arguments that are refused."""

import ctypes
import struct

import pytest

from support.execution.raising import Refused

INVALID_VALUE, NOT_SUPPORTED = 1, 801
U8, U32, F32 = 1, 3, 32
LAYERED, SURFACE, CUBE = 1, 2, 4
ARRAY, MIPMAPPED, LINEAR, PITCH2D = range(4)
WRAP, CLAMP, MIRROR, BORDER = range(4)
AS_INTEGER, NORMALIZED, SRGB, NO_TRILINEAR, SEAMLESS = 1, 2, 0x10, 0x20, 0x40


def array(cuda, width, height=0, depth=0, form=F32, channels=1, flags=0, levels=0):
    one = cuda.CUDA_ARRAY3D_DESCRIPTOR()
    one.Width, one.Height, one.Depth = width, height, depth
    one.Format, one.NumChannels, one.Flags = cuda.CUarray_format(form), channels, flags
    return cuda.cuMipmappedArrayCreate(one, levels) if levels else cuda.cuArray3DCreate(one)


def resource(cuda, kind, handle=0, form=F32, channels=1, size=0, width=0, height=0, pitch=0):
    one = cuda.CUDA_RESOURCE_DESC()
    one.resType = cuda.CUresourcetype(kind)
    if kind == ARRAY:
        one.res.array.hArray = handle
    elif kind == MIPMAPPED:
        one.res.mipmap.hMipmappedArray = handle
    else:
        part = one.res.linear if kind == LINEAR else one.res.pitch2D
        part.devPtr, part.format = handle, cuda.CUarray_format(form)
        part.numChannels = channels
        if kind == LINEAR:
            part.sizeInBytes = size
        else:
            part.width, part.height, part.pitchInBytes = width, height, pitch
    return one


def texture(cuda, modes=(WRAP, WRAP, WRAP), linear=0, flags=0, **more):
    one = cuda.CUDA_TEXTURE_DESC()
    one.addressMode = [cuda.CUaddress_mode(mode) for mode in modes]
    one.filterMode, one.flags = cuda.CUfilter_mode(linear), flags
    for name, value in more.items():
        setattr(one, name, value)
    return one


def view(cuda, form, extents, levels=(0, 0), layers=(0, 0)):
    one = cuda.CUDA_RESOURCE_VIEW_DESC()
    one.format = cuda.CUresourceViewFormat(form)
    one.width, one.height, one.depth = extents
    one.firstMipmapLevel, one.lastMipmapLevel = levels
    one.firstLayer, one.lastLayer = layers
    return one


def create(cuda, one, sampling, seen=None):
    try:
        return int(cuda.cuTexObjectCreate(one, sampling, seen))
    except Refused as error:
        return error.code


def read(cuda, handle, levels=1):
    """Return the descriptor's bytes, floats and levels."""
    data = bytearray(64 + 32 * levels)
    place = (ctypes.c_char * len(data)).from_buffer(data)
    cuda.cuMemcpyDtoH(ctypes.addressof(place), handle, len(data))
    head = struct.unpack_from("<16B3fI4f16x", data)
    return head, [struct.unpack_from("<Q4IQ", data, 64 + 32 * i) for i in range(levels)]


def test_a_texture_of_an_array_is_described_to_kernels(cuda):
    one = array(cuda, 8, 8, 6, U8, 4, LAYERED | CUBE)
    sampling = texture(
        cuda, (MIRROR, BORDER, WRAP), 1, NORMALIZED | SRGB | NO_TRILINEAR | SEAMLESS,
        maxAnisotropy=99, mipmapLevelBias=0.5, minMipmapLevelClamp=1.0,
        maxMipmapLevelClamp=2.0, borderColor=[1.0, 2.0, 3.0, 4.0],
        mipmapFilterMode=cuda.CUfilter_mode(1),
    )  # fmt: skip
    handle = create(cuda, resource(cuda, ARRAY, one), sampling)
    assert handle % 128 == 0
    head, levels = read(cuda, handle, 2)
    assert head[:8] == (1, 6, 0, 4, MIRROR, BORDER, CLAMP, 1)
    assert head[8:16] == (0, 1, 0, 1, 1, 16, 1, 1)
    assert head[16:] == (0.5, 1.0, 2.0, 6, 1.0, 1.0, 1.0, 1.0)  # of bytes: at most 1
    assert levels[0][1:] == (8, 8, 1, 32, 256)
    assert levels[1] == (0, 0, 0, 0, 0, 0)
    assert int(cuda.cuTexObjectGetResourceDesc(handle).res.array.hArray) == int(one)
    assert cuda.cuTexObjectGetTextureDesc(handle).maxAnisotropy == 99
    assert cuda.code("cuTexObjectGetResourceViewDesc", handle) == INVALID_VALUE
    cuda.cuTexObjectDestroy(handle)
    for call in ("cuTexObjectDestroy", "cuTexObjectGetResourceDesc", "cuTexObjectGetTextureDesc"):
        for wrong in (handle, 0, 4096, handle + 128, 2**64 - 1):
            assert cuda.code(call, wrong) == INVALID_VALUE


@pytest.mark.parametrize(
    ("given", "shape", "layers", "modes"),
    [
        ({"width": 8}, 0, 1, 1), ({"width": 8, "height": 2}, 1, 1, 2),
        ({"width": 8, "height": 2, "depth": 2}, 2, 1, 3),
        ({"width": 8, "depth": 5, "flags": LAYERED}, 3, 5, 1),
        ({"width": 4, "height": 4, "depth": 6, "flags": CUBE}, 5, 6, 2),
        ({"width": 4, "height": 4, "depth": 12, "flags": CUBE | LAYERED}, 6, 12, 2),
    ],
    ids=str,
)  # fmt: skip
def test_every_shape_has_its_number(cuda, given, shape, layers, modes):
    one = resource(cuda, ARRAY, array(cuda, **given))
    head, _ = read(cuda, create(cuda, one, texture(cuda, flags=NORMALIZED)))
    assert (head[1], head[19]) == (shape, layers)
    assert head[4:7] == (WRAP,) * modes + (CLAMP,) * (3 - modes)
    head, _ = read(cuda, create(cuda, one, texture(cuda)))
    assert head[4:7] == (CLAMP,) * 3  # coordinates that are not normalized do not wrap


def test_linear_memory_needs_alignment_and_size(cuda):
    memory = int(cuda.cuMemAlloc(4096))

    def linear(**changes):
        given = {"handle": memory, "size": 4096} | changes
        return create(cuda, resource(cuda, LINEAR, **given), texture(cuda, linear=1))

    head, (level,) = read(cuda, linear(form=U32, channels=2))
    assert (head[1], head[2], head[3], head[7], head[12]) == (7, 2, 2, 0, 1)
    assert level[:4] == (memory, 512, 1, 1)
    for wrong in (
        {"handle": memory + 256}, {"handle": 0}, {"size": 0}, {"size": 3}, {"size": 4097},
        {"size": 2**64 - 1}, {"channels": 3}, {"handle": 1 << 60},
    ):  # fmt: skip
        assert linear(**wrong) == INVALID_VALUE, wrong
    form = cuda.CUarray_format(F32)
    assert cuda.cuDeviceGetTexture1DLinearMaxWidth(form, 4, 0) == 2**28


def test_rectangles_of_memory_need_a_pitch(cuda):
    memory = int(cuda.cuMemAlloc(4096))

    def rectangle(**changes):
        given = {"handle": memory, "width": 60, "height": 16, "pitch": 256} | changes
        return create(cuda, resource(cuda, PITCH2D, **given), texture(cuda, linear=1))

    _, (level,) = read(cuda, rectangle())
    assert level == (memory, 60, 16, 1, 256, 4096)
    for wrong in (
        {"pitch": 240}, {"pitch": 224}, {"pitch": 0}, {"height": 17}, {"width": 0},
        {"height": 0}, {"width": 2**62}, {"height": 2**62}, {"pitch": 1 << 40},
        {"handle": memory + 32},
    ):  # fmt: skip
        assert rectangle(**wrong) == INVALID_VALUE, wrong


@pytest.mark.parametrize(
    ("form", "sampling"),
    [
        (U32, {"linear": 1}), (U8, {"linear": 1, "flags": AS_INTEGER}), (F32, {"flags": SRGB}),
        (F32, {"flags": 4}), (F32, {"flags": SEAMLESS}), (F32, {"mipmapLevelBias": float("nan")}),
    ],
    ids=str,
)  # fmt: skip
def test_invalid_sampling(cuda, form, sampling):
    one = resource(cuda, ARRAY, array(cuda, 8, 8, form=form))
    assert create(cuda, one, texture(cuda, **sampling)) == INVALID_VALUE
    assert create(cuda, one, texture(cuda)) > 1000


def test_foreign_and_destroyed_resources_are_refused(cuda):
    one = array(cuda, 8, 8)
    wanted = resource(cuda, ARRAY, one)
    memory = resource(cuda, LINEAR, int(cuda.cuMemAlloc(64)), size=64)
    handle = create(cuda, memory, texture(cuda))
    context = cuda.cuCtxCreate(None, 0, 0)
    assert create(cuda, wanted, texture(cuda)) == INVALID_VALUE  # another context's
    assert create(cuda, memory, texture(cuda)) == INVALID_VALUE
    own = create(cuda, resource(cuda, ARRAY, array(cuda, 8)), texture(cuda))
    cuda.cuCtxDestroy(context)
    assert cuda.code("cuTexObjectDestroy", own) == INVALID_VALUE
    cuda.cuTexObjectDestroy(handle)
    cuda.cuArrayDestroy(one)
    assert create(cuda, wanted, texture(cuda)) == INVALID_VALUE
    mipmap = array(cuda, 8, 8, levels=2)
    assert create(cuda, resource(cuda, ARRAY, int(mipmap)), texture(cuda)) == INVALID_VALUE


def test_views_reinterpret_and_narrow(cuda):
    mipmap = array(cuda, 16, 8, 4, F32, 1, LAYERED, levels=4)
    wanted, plain = resource(cuda, MIPMAPPED, mipmap), texture(cuda)
    _, whole = read(cuda, create(cuda, wanted, plain), 4)
    assert [level[1:3] for level in whole] == [(16, 8), (8, 4), (4, 2), (2, 1)]
    seen = view(cuda, 3, (16, 8, 4), (1, 2), (2, 3))  # four bytes
    handle = create(cuda, wanted, plain, seen)
    head, levels = read(cuda, handle, 3)
    assert (head[2], head[3], head[12], head[19]) == (0, 4, 2, 2)
    assert levels[2] == (0, 0, 0, 0, 0, 0)
    for found, of in zip(levels, whole[1:3], strict=False):
        assert found == (of[0] + 2 * of[5], *of[1:])
    assert cuda.cuTexObjectGetResourceViewDesc(handle).lastLayer == 3
    for wrong in (
        (1, (16, 8, 4)), (3, (8, 8, 4)), (3, (16, 8, 0)), (3, (16, 8, 4), (2, 1)),
        (3, (16, 8, 4), (0, 4)), (3, (16, 8, 4), (0, 3), (3, 4)), (3, (16, 8, 4), (0, 3), (2, 1)),
    ):  # fmt: skip
        assert create(cuda, wanted, plain, view(cuda, *wrong)) == INVALID_VALUE, wrong
    assert create(cuda, wanted, plain, view(cuda, 25, (16, 8, 4))) == NOT_SUPPORTED
    linear = resource(cuda, LINEAR, int(cuda.cuMemAlloc(64)), size=64)
    assert create(cuda, linear, plain, view(cuda, 3, (16, 0, 0))) == INVALID_VALUE


def test_surfaces_need_arrays_within_their_limits(cuda):
    handle = int(cuda.cuSurfObjectCreate(resource(cuda, ARRAY, array(cuda, 8, 4, flags=SURFACE))))
    head, (level,) = read(cuda, handle)
    assert (head[0], head[1], head[12], level[1:]) == (2, 1, 1, (8, 4, 1, 32, 128))
    assert cuda.code("cuTexObjectDestroy", handle) == INVALID_VALUE  # not a texture
    assert int(cuda.cuSurfObjectGetResourceDesc(handle).resType) == ARRAY
    cuda.cuSurfObjectDestroy(handle)
    assert cuda.code("cuSurfObjectDestroy", handle) == INVALID_VALUE
    for wrong in (
        resource(cuda, ARRAY, array(cuda, 32769)),  # which is wider than surfaces
        resource(cuda, ARRAY, 0),
        resource(cuda, MIPMAPPED, array(cuda, 8, 4, flags=SURFACE, levels=2)),
        resource(cuda, LINEAR, int(cuda.cuMemAlloc(64)), size=64),
    ):
        assert cuda.code("cuSurfObjectCreate", wrong) == INVALID_VALUE
    level = cuda.cuMipmappedArrayGetLevel(array(cuda, 8, 4, levels=2), 1)  # without the flag
    _, (level,) = read(cuda, int(cuda.cuSurfObjectCreate(resource(cuda, ARRAY, level))))
    assert level[1:] == (4, 2, 1, 16, 32)


def test_null_pointers_are_invalid(cuda, libraries):
    library = ctypes.CDLL(str(libraries / "libcuda.so.1"))
    place = ctypes.create_string_buffer(256)
    handle = create(cuda, resource(cuda, LINEAR, int(cuda.cuMemAlloc(64)), size=64), texture(cuda))
    for name, *arguments in (
        ("cuTexObjectCreate", None, place, place, None), ("cuSurfObjectCreate", None, place),
        ("cuTexObjectCreate", place, None, place, None), ("cuSurfObjectCreate", place, None),
        ("cuTexObjectCreate", place, place, None, None),
        ("cuTexObjectGetResourceDesc", None, ctypes.c_uint64(handle)),
        ("cuTexObjectGetTextureDesc", None, ctypes.c_uint64(handle)),
        ("cuDeviceGetTexture1DLinearMaxWidth", None, F32, 1, 0),
    ):  # fmt: skip
        assert getattr(library, name)(*arguments) == INVALID_VALUE, name
