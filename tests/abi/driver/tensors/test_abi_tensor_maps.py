"""Tensor maps: their arguments, and a kernel that copies through one."""

import ctypes
import struct

import numpy as np
import pytest

from support.oracles.tensor_boxes import TensorMap

INVALID_VALUE, NOT_SUPPORTED = 1, 801
ADDRESS = 0x2000_0000_1000
GOOD = {
    "type": 2, "rank": 3, "address": ADDRESS, "sizes": (64, 8, 4), "strides": (256, 2048),
    "box": (32, 4, 2), "steps": (1, 1, 2), "interleave": 0, "swizzle": 3, "promotion": 2, "fill": 0,
}  # fmt: skip

PADDED = {"type": 14, "sizes": (256, 8, 4), "box": (128, 4, 2)}


class Map(ctypes.Structure):
    _fields_ = (("opaque", ctypes.c_uint64 * 16),)


@pytest.fixture
def encode(cuda, libraries):
    """Call cuTensorMapEncodeTiled; return its status and the map."""
    library = ctypes.CDLL(str(libraries / "libcuda.so.1"))

    def call(place=None, **changes):
        given = GOOD | changes
        memory = (ctypes.c_uint8 * 256)()
        base = (ctypes.addressof(memory) + 63) & -64
        sizes, strides = (
            None if given[name] is None else (ctypes.c_uint64 * 5)(*given[name])
            for name in ("sizes", "strides")
        )
        box, steps = (
            None if given[name] is None else (ctypes.c_uint32 * 5)(*given[name])
            for name in ("box", "steps")
        )
        status = library.cuTensorMapEncodeTiled(
            ctypes.c_void_p(base if place is None else place and base + place),
            given["type"], given["rank"], ctypes.c_void_p(given["address"]), sizes, strides, box,
            steps, given["interleave"], given["swizzle"], given["promotion"], given["fill"],
        )  # fmt: skip
        return status, ctypes.string_at(base, 128)

    return call


def test_a_map_has_the_documented_layout(encode):
    wanted = TensorMap(ADDRESS, 2, (64, 8, 4), (256, 2048), (32, 4, 2), (1, 1, 2), 3, 0).encode()
    status, found = encode()
    assert (status, found[:81], found[82:]) == (0, wanted[:81], wanted[82:])
    assert found[81] == 2  # the promotion, which copies ignore
    assert encode(place=8)[0] == 0  # cuda.core aligns its maps to 16 bytes
    _, found = encode(type=9, rank=1, sizes=(1 << 32,), strides=None, box=(64,), steps=(1,), fill=1)
    assert struct.unpack_from("<I", found, 40) == (0xFFFF_FFFF,)
    assert (found[76], found[79]) == (10, 1)  # as tensormap.replace numbers bf16


@pytest.mark.parametrize(
    "changes",
    [
        {"place": 0}, {"type": 16}, {"type": -1}, {"rank": 0}, {"rank": 6},
        {"address": 0}, {"address": ADDRESS + 8}, {"sizes": None}, {"sizes": (64, 0, 4)},
        {"sizes": (64, 8, (1 << 32) + 1)}, {"strides": None}, {"strides": (264, 2048)},
        {"strides": (256, 1 << 40)}, {"box": None}, {"box": (32, 0, 2)}, {"box": (32, 257, 2)},
        {"box": (3, 4, 2)}, {"box": (36, 4, 2)}, {"swizzle": 1}, {"steps": None},
        {"steps": (1, 0, 1)}, {"steps": (1, 9, 1)}, {"interleave": 3}, {"swizzle": 7},
        {"promotion": 4}, {"fill": 2}, {"fill": 1}, {"interleave": 2},
        {"interleave": 1, "rank": 2},
        PADDED | {"sizes": (192, 8, 4)}, PADDED | {"box": (64, 4, 2)}, PADDED | {"swizzle": 1},
        PADDED | {"strides": (272, 2048)}, PADDED | {"address": ADDRESS + 16},
        PADDED | {"swizzle": 6}, PADDED | {"type": 15, "interleave": 1}, PADDED | {"fill": 1},
        {"type": 13, "sizes": (63, 8, 4)}, {"type": 13, "box": (16, 4, 2)},
        {"swizzle": 4, "box": (64, 4, 2)},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_arguments(encode, changes):
    assert encode(**changes)[0] == INVALID_VALUE


@pytest.mark.parametrize(
    "changes",
    [
        {"interleave": 1, "type": 13, "box": (32, 4, 2)}, {"interleave": 1, "steps": (2, 1, 1)},
        {"interleave": 2, "swizzle": 1, "address": ADDRESS}, {"interleave": 1, "box": (2, 4, 2)},
    ],
    ids=str,
)  # fmt: skip
def test_what_copies_cannot_do_is_refused(encode, changes):
    assert encode(**changes)[0] == NOT_SUPPORTED


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"type": 13}, {76: 13}), (PADDED, {76: 14}), (PADDED | {"type": 15, "swizzle": 6}, {76: 15}),
        ({"swizzle": 4}, {78: 3, 80: 1}), ({"swizzle": 5}, {78: 3, 80: 2}),
        ({"swizzle": 6}, {78: 3, 80: 3}), ({"interleave": 1}, {77: 1}),
        ({"interleave": 2, "swizzle": 1, "box": (8, 4, 2)}, {77: 2, 78: 1}),
    ],
    ids=str,
)  # fmt: skip
def test_layouts_of_shared_memory(encode, changes, fields):
    status, found = encode(**changes)
    assert status == 0
    assert {place: found[place] for place in fields} == fields


KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 o)
{
  .reg .b64 %m, %o; .reg .b32 %t, %s, %x; .reg .pred %p, %q;
  .shared .align 128 .b8 sm[1024]; .shared .b64 bar;
  mov.b64 %m, map; cvta.param.u64 %m, %m; ld.param.u64 %o, [o]; mov.u32 %t, %tid.x;
  setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [bar], 1; bar.sync 0;
  @%p prefetch.tensormap [%m];
  @%p mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
  mov.u32 %x, 4; mov.u32 %s, -1;
  @%p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [sm], [%m, {%x, %s}], [bar];
  again: mbarrier.try_wait.parity.shared.b64 %q, [bar], 0; @!%q bra again;
  mov.u32 %s, sm; mad.lo.u32 %s, %t, 4, %s; ld.shared.u32 %x, [%s];
  mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %x;
  ret;
}
"""


def test_a_kernel_copies_a_box(cuda, encode, libraries):
    data = np.arange(64 * 8, dtype=np.uint32).reshape(8, 64)
    source, out = int(cuda.cuMemAlloc(data.nbytes)), int(cuda.cuMemAlloc(1024))
    cuda.cuMemcpyHtoD(source, data.ctypes.data, data.nbytes)
    _, encoded = encode(
        rank=2, address=ADDRESS, sizes=(64, 8), strides=(256,), box=(32, 8), steps=(1, 1), swizzle=0
    )
    memory = (ctypes.c_uint8 * 256)()
    base = (ctypes.addressof(memory) + 63) & -64
    ctypes.memmove(base, encoded, 128)
    library = ctypes.CDLL(str(libraries / "libcuda.so.1"))
    replace = library.cuTensorMapReplaceAddress
    assert replace(ctypes.c_void_p(base), ctypes.c_void_p(source + 8)) == INVALID_VALUE
    assert replace(ctypes.c_void_p(base), None) == INVALID_VALUE
    assert replace(ctypes.c_void_p(base), ctypes.c_void_p(source)) == 0
    function = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(KERNEL.encode()), b"k")
    pointer = ctypes.c_uint64(out)
    parameters = (ctypes.c_void_p * 2)(base, ctypes.addressof(pointer))
    cuda.cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, 0, ctypes.addressof(parameters), 0)
    found = np.zeros(256, np.uint32)
    cuda.cuMemcpyDtoH(found.ctypes.data, out, found.nbytes)
    wanted = np.zeros((8, 32), np.uint32)
    wanted[1:] = data[:7, 4:36]
    assert (found.reshape(8, 32) == wanted).all()


def test_a_row_that_begins_at_no_multiple_of_16_bytes_is_an_illegal_instruction(cuda, encode):
    source = int(cuda.cuMemAlloc(2048))
    shape = {"sizes": (64, 8), "strides": (256,), "box": (32, 8), "steps": (1, 1)}
    _, encoded = encode(rank=2, address=source, **shape, swizzle=0)
    memory = (ctypes.c_uint8 * 256)()
    base = (ctypes.addressof(memory) + 63) & -64
    ctypes.memmove(base, encoded, 128)
    text = KERNEL.replace("mov.u32 %x, 4;", "mov.u32 %x, 3;")
    function = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(text.encode()), b"k")
    pointer = ctypes.c_uint64(source)
    parameters = (ctypes.c_void_p * 2)(base, ctypes.addressof(pointer))
    cuda.cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, 0, ctypes.addressof(parameters), 0)
    assert cuda.code("cuCtxSynchronize") == 715
