"""Tensor maps of images: their arguments, and a convolution that loads pixels by im2col."""

import ctypes

import numpy as np
import pytest

from support.oracles.tensor_boxes import TensorMap

INVALID_VALUE, NOT_SUPPORTED = 1, 801
ADDRESS = 0x2000_0000_1000
GOOD = {
    "type": 7, "rank": 4, "address": ADDRESS, "sizes": (8, 7, 6, 3), "strides": (32, 224, 1344),
    "lower": (-1, -1), "upper": (-1, -1), "channels": 8, "pixels": 32, "steps": (1, 1, 1, 1),
    "interleave": 0, "swizzle": 0, "promotion": 0, "fill": 0,
}  # fmt: skip
WIDE = {"lower": -1, "upper": 0, "swizzle": 2, "mode": 0}


@pytest.fixture
def encode(cuda, libraries):
    """Call cuTensorMapEncodeIm2col, or the wide function; return the status and the map."""
    library = ctypes.CDLL(str(libraries / "libcuda.so.1"))

    def array(kind, values):
        return None if values is None else (kind * 5)(*values)

    def call(wide=False, **changes):
        given = GOOD | (WIDE if wide else {}) | changes
        found = (ctypes.c_uint8 * 256)()
        base = (ctypes.addressof(found) + 63) & -64
        lower, upper = given["lower"], given["upper"]
        if not wide:
            lower, upper = array(ctypes.c_int, lower), array(ctypes.c_int, upper)
        function = library.cuTensorMapEncodeIm2colWide if wide else library.cuTensorMapEncodeIm2col
        status = function(
            ctypes.c_void_p(base), given["type"], given["rank"], ctypes.c_void_p(given["address"]),
            array(ctypes.c_uint64, given["sizes"]), array(ctypes.c_uint64, given["strides"]),
            lower, upper, given["channels"], given["pixels"],
            array(ctypes.c_uint32, given["steps"]), given["interleave"],
            *((given["mode"],) if wide else ()), given["swizzle"], given["promotion"],
            given["fill"],
        )  # fmt: skip
        return status, ctypes.string_at(base, 128)

    return call


@pytest.mark.parametrize("access", [1, 2, 3])
def test_a_map_has_the_documented_layout(encode, access):
    wide = access > 1
    status, found = encode(wide=wide, mode=access - 2)
    corners = ((-1,), (0,)) if wide else ((-1, -1), (-1, -1))
    pixels = 0 if access == 3 else 32
    wanted = TensorMap(
        ADDRESS, 7, (8, 7, 6, 3), (32, 224, 1344), (8,), (1, 1, 1, 1), 2 * wide, 0, 0, 0, access,
        pixels, *corners,
    )  # fmt: skip
    assert (status, found) == (0, wanted.encode())


@pytest.mark.parametrize(
    "changes",
    [
        {"rank": 2}, {"rank": 6}, {"sizes": None}, {"strides": None}, {"lower": None},
        {"upper": None}, {"steps": None}, {"channels": 0}, {"channels": 257}, {"channels": 3},
        {"pixels": 0}, {"pixels": 1025}, {"lower": (-129, 0)}, {"lower": (0, 128)},
        {"upper": (0, -129)}, {"upper": (128, 0)}, {"lower": (0, 5)}, {"upper": (-8, 0)},
        {"address": ADDRESS + 8}, {"type": 16}, {"swizzle": 7}, {"interleave": 3},
        {"promotion": 4}, {"fill": 2}, {"type": 2, "fill": 1}, {"steps": (1, 9, 1, 1)},
        {"swizzle": 1, "channels": 16}, {"interleave": 2}, {"strides": (40, 224, 1344)},
        {"wide": True, "swizzle": 0}, {"wide": True, "swizzle": 5}, {"wide": True, "mode": 2},
        {"wide": True, "swizzle": 6}, {"wide": True, "swizzle": 1}, {"wide": True, "mode": -1},
        {"wide": True, "interleave": 1}, {"wide": True, "lower": 32768},
        {"wide": True, "upper": -32769}, {"wide": True, "lower": 7}, {"wide": True, "rank": 2},
        {"wide": True, "pixels": 0},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_arguments(encode, changes):
    assert encode(**changes)[0] == INVALID_VALUE


@pytest.mark.parametrize(
    "changes",
    [
        {"lower": (-128, -128), "upper": (127, 127)}, {"lower": (0, 4)}, {"pixels": 1024},
        {"wide": True, "mode": 1, "pixels": 5000}, {"wide": True, "swizzle": 4},
        {"wide": True, "lower": -32768, "upper": 32767},
    ],
    ids=str,
)  # fmt: skip
def test_extreme_arguments(encode, changes):
    assert encode(**changes)[0] == 0


IMAGES, HEIGHT, WIDTH, CHANNELS, OUTPUTS, PIXELS = 3, 6, 7, 8, 4, 32
# Thread t computes the outputs of pixel t of the block's 32, from 9 loads of 32 pixels each.
CONVOLUTION = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry conv(.param .align 64 .b8 map[128], .param .u64 weights, .param .u64 out,
  .param .u32 n, .param .u32 p, .param .u32 q, .param .u32 stride)
{{
  .reg .b64 %m, %w, %o; .reg .b32 %t, %s, %x, %y, %z, %n, %p, %q, %stride, %tap, %c, %parity;
  .reg .b16 %r16, %s16; .reg .f32 %v, %f, %sum<4>; .reg .pred %first, %done;
  .shared .align 128 .b8 sm[{PIXELS * CHANNELS * 4}]; .shared .b64 bar;
  mov.b64 %m, map; cvta.param.u64 %m, %m; ld.param.u64 %w, [weights]; ld.param.u64 %o, [out];
  ld.param.u32 %p, [p]; ld.param.u32 %q, [q]; ld.param.u32 %stride, [stride];
  mov.u32 %t, %tid.x; setp.eq.u32 %first, %t, 0;
  @%first mbarrier.init.shared.b64 [bar], 1;
  bar.sync 0;
  mov.u32 %x, %ctaid.x; mul.lo.u32 %x, %x, {PIXELS};
  rem.u32 %z, %x, %q; div.u32 %y, %x, %q; div.u32 %n, %y, %p; rem.u32 %y, %y, %p;
  mul.lo.u32 %z, %z, %stride; sub.u32 %z, %z, 1; mul.lo.u32 %y, %y, %stride; sub.u32 %y, %y, 1;
  add.u32 %x, %x, %t; mad.wide.u32 %o, %x, {OUTPUTS * 4}, %o;
  {" ".join(f"mov.f32 %sum{k}, 0f00000000;" for k in range(OUTPUTS))}
  mov.u32 %tap, 0;
TAP:
  rem.u32 %c, %tap, 3; cvt.u16.u32 %s16, %c; div.u32 %c, %tap, 3; cvt.u16.u32 %r16, %c;
  mov.u32 %c, 0;
  @%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], {PIXELS * CHANNELS * 4};
  @%first cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes
    [sm], [%m, {{%c, %z, %y, %n}}], [bar], {{%s16, %r16}};
  and.b32 %parity, %tap, 1;
WAIT:
  mbarrier.try_wait.parity.shared.b64 %done, [bar], %parity; @!%done bra WAIT;
  mov.u32 %s, sm; mad.lo.u32 %s, %t, {CHANNELS * 4}, %s;
CHANNEL:
  ld.shared.f32 %v, [%s];
  {
    " ".join(
        f"ld.global.f32 %f, [%w+{4 * k}]; fma.rn.f32 %sum{k}, %v, %f, %sum{k};"
        for k in range(OUTPUTS)
    )
}
  add.u64 %w, %w, {OUTPUTS * 4}; add.u32 %s, %s, 4; add.u32 %c, %c, 1;
  setp.lt.u32 %done, %c, {CHANNELS}; @%done bra CHANNEL;
  bar.sync 0;
  add.u32 %tap, %tap, 1; setp.lt.u32 %done, %tap, 9; @%done bra TAP;
  ld.param.u32 %n, [n]; setp.lt.u32 %done, %x, %n;
  @%done st.global.v4.f32 [%o], {{%sum0, %sum1, %sum2, %sum3}};
  ret;
}}
"""


@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_loads_its_pixels_by_im2col(cuda, encode, stride):
    draw = np.random.default_rng(stride)
    images = draw.integers(-8, 9, (IMAGES, HEIGHT, WIDTH, CHANNELS)).astype(np.float32)
    weights = draw.integers(-8, 9, (3, 3, CHANNELS, OUTPUTS)).astype(np.float32)
    rows, columns = (HEIGHT - 1) // stride + 1, (WIDTH - 1) // stride + 1
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    wanted = np.zeros((IMAGES, rows, columns, OUTPUTS), np.float32)
    for r in range(3):
        for s in range(3):
            part = padded[:, r : r + HEIGHT : stride, s : s + WIDTH : stride]
            wanted += part[:, :rows, :columns] @ weights[r, s]
    places = [int(cuda.cuMemAlloc(array.nbytes)) for array in (images, weights, wanted)]
    for place, array in zip(places, (images, weights), strict=False):
        cuda.cuMemcpyHtoD(place, array.ctypes.data, array.nbytes)
    status, encoded = encode(address=places[0], steps=(1, stride, stride, 1))
    assert status == 0
    map_ = (ctypes.c_uint8 * 192)()
    base = (ctypes.addressof(map_) + 63) & -64
    ctypes.memmove(base, encoded, 128)
    count = IMAGES * rows * columns
    numbers = [ctypes.c_uint64(place) for place in places[1:]]
    numbers += [ctypes.c_uint32(value) for value in (count, rows, columns, stride)]
    parameters = (ctypes.c_void_p * 7)(base, *map(ctypes.addressof, numbers))
    function = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(CONVOLUTION.encode()), b"conv")
    blocks = -(-count // PIXELS)
    cuda.cuLaunchKernel(function, blocks, 1, 1, PIXELS, 1, 1, 0, 0, ctypes.addressof(parameters), 0)
    found = np.zeros_like(wanted)
    cuda.cuMemcpyDtoH(found.ctypes.data, places[2], found.nbytes)
    assert (found == wanted).all()
