"""Numbers and flags of the driver API: all values of enumerations, and both sides of limits."""

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

import numpy as np
import pytest

from support.kernels.ptx_kernels import HEADER

INVALID_VALUE, INVALID_HANDLE, INVALID_DEVICE = 1, 400, 101
MIB = 1 << 20
BIG = 2 * MIB + 12  # more than two of the pieces in which variables are copied

KERNEL = (
    HEADER
    + f"""
.global .align 16 .b8 one[{BIG}];
.global .align 16 .b8 two[{BIG}];
.visible .entry k(.param .u64 a, .param .u32 b, .param .u64 c, .param .align 4 .b8 d[20])
    .maxntid 96
{{
    .local .align 8 .b8 frame[24];
    .shared .align 8 .b8 room[40];
    .reg .b64 %rd<4>; .reg .b32 %r<4>;
    ld.param.u64 %rd0, [a];
    cvta.to.global.u64 %rd0, %rd0;
    mov.u64 %rd1, frame;
    mov.u64 %rd2, room;
    ld.global.u32 %r0, [%rd0];
    st.local.u32 [%rd1], %r0;
    st.shared.u32 [%rd2], %r0;
    ld.shared.u32 %r1, [%rd2];
    st.global.u32 [%rd0], %r1;
    ret;
}}
.visible .entry plain() {{ ret; }}
"""
)


@pytest.fixture
def api(cuda):
    """The library itself, which accepts any number as a value of an enumeration."""
    return ctypes.CDLL("libcuda.so.1")


@pytest.fixture
def module(cuda):
    return cuda.cuModuleLoadData(KERNEL.encode() + b"\0")


@pytest.fixture
def function(cuda, module):
    return c_void_p(int(cuda.cuModuleGetFunction(module, b"k")))


def call_with_result(call, kind, *arguments):
    """Return the status of a call, and its first result."""
    value = kind(77)
    return call(byref(value), *arguments), value.value


def test_each_attribute_of_a_function_has_its_value(api, cuda, module, function):
    plain = c_void_p(int(cuda.cuModuleGetFunction(module, b"plain")))
    registers = call_with_result(api.cuFuncGetAttribute, c_int, 4, function)[1]
    assert 1 <= registers <= 255
    # CUfunction_attribute: threads, shared, constant, local, registers, PTX, binary, caches,
    # dynamic shared memory, carve-out, and six of clusters.
    expected = [96, 40, 0, 24, registers, 80, None, 0, 48 * 1024 - 40, -1, *[0] * 6]
    for number, value in enumerate(expected):
        code, found = call_with_result(api.cuFuncGetAttribute, c_int, number, function)
        assert (code, number, found) == (0, number, found if value is None else value)
    for number in (-1, 16, 17, 1 << 30):
        assert call_with_result(api.cuFuncGetAttribute, c_int, number, function) == (
            INVALID_VALUE,
            77,
        )
    assert call_with_result(api.cuFuncGetAttribute, c_int, 0, plain) == (0, 1024)
    assert call_with_result(api.cuFuncGetAttribute, c_int, 8, plain) == (0, 48 * 1024)
    assert call_with_result(api.cuFuncGetAttribute, c_int, 0, c_void_p(12345)) == (
        INVALID_HANDLE,
        77,
    )


@pytest.mark.parametrize("of", ["Func", "Kernel"])
def test_settable_attributes_of_a_function(api, cuda, of):
    library = cuda.cuLibraryLoadData(KERNEL.encode() + b"\0", [], [], 0, [], [], 0)
    kernel = c_void_p(int(cuda.cuLibraryGetKernel(library, b"k")))
    device = (0,) if of == "Kernel" else ()
    attribute, config = getattr(api, f"cu{of}SetAttribute"), getattr(api, f"cu{of}SetCacheConfig")
    get = getattr(api, f"cu{of}GetAttribute")

    def set_to(number, value):
        words = (kernel, number) if of == "Func" else (number,)
        return attribute(*words, value, *(() if of == "Func" else (kernel, 0)))

    optin = cuda.cuDeviceGetAttribute(
        cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0
    )
    for value, code in ((0, 0), (-1, INVALID_VALUE), (optin - 40, 0), (optin - 39, INVALID_VALUE)):
        assert set_to(8, value) == code, value
    assert call_with_result(get, c_int, 8, kernel, *device) == (0, optin - 40)
    for value, code in ((-1, 0), (-2, INVALID_VALUE), (0, 0), (100, 0), (101, INVALID_VALUE)):
        assert set_to(9, value) == code, value
    for number in (11, 12, 13):  # REQUIRED_CLUSTER_WIDTH, HEIGHT and DEPTH
        assert (set_to(number, -1), set_to(number, 0)) == (INVALID_VALUE, 0), number
    for value, code in ((2, INVALID_VALUE), (1, 0), (0, 0)):  # NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        assert set_to(14, value) == code, value
    for value, code in ((3, INVALID_VALUE), (2, 0), (0, 0)):  # CLUSTER_SCHEDULING_POLICY_PREFERENCE
        assert set_to(15, value) == code, value
    for number in (*range(8), 10, 16, -1):
        assert set_to(number, 0) == INVALID_VALUE, number
    for value, code in ((-1, INVALID_VALUE), (0, 0), (3, 0), (4, INVALID_VALUE)):
        assert config(kernel, value, *device) == code, value
    if of == "Kernel":
        for wrong in (-1, 64):
            assert attribute(8, 0, kernel, wrong) == INVALID_DEVICE
            assert config(kernel, 0, wrong) == INVALID_DEVICE
            assert get(byref(c_int()), 0, kernel, wrong) == INVALID_DEVICE


@pytest.mark.parametrize("of", ["Func", "Kernel"])
def test_parameter_info_is_available_up_to_the_last(api, cuda, of):
    library = cuda.cuLibraryLoadData(KERNEL.encode() + b"\0", [], [], 0, [], [], 0)
    kernel = c_void_p(int(cuda.cuLibraryGetKernel(library, b"k")))
    info, count = getattr(api, f"cu{of}GetParamInfo"), getattr(api, f"cu{of}GetParamCount")
    found = []
    for index in range(4):
        offset, size = c_size_t(), c_size_t()
        assert info(kernel, c_size_t(index), byref(offset), byref(size)) == 0
        assert info(kernel, c_size_t(index), byref(offset), None) == 0
        found.append((offset.value, size.value))
    assert found == [(0, 8), (8, 4), (16, 8), (24, 20)]
    assert info(kernel, c_size_t(4), byref(c_size_t()), None) == INVALID_VALUE
    assert info(kernel, c_size_t(0), None, byref(c_size_t())) == INVALID_VALUE
    number = c_size_t()
    assert (count(kernel, byref(number)), number.value) == (0, 4)
    assert count(kernel, None) == INVALID_VALUE
    assert count(c_void_p(3), byref(number)) == INVALID_HANDLE


_KINDS = {1: c_uint64, 2: c_uint, 3: c_uint64, 4: c_uint64, 6: c_int, 7: c_uint64, 8: c_int}
_KINDS |= {9: c_int, 10: c_int, 11: c_uint64, 12: c_uint64, 13: c_int, 14: c_uint64}
_KINDS |= {
    15: c_int,
    16: c_uint,
    17: c_uint64,
    18: c_size_t,
    19: c_uint64,
    20: c_uint64,
    21: c_int,
}


def test_each_attribute_of_a_pointer_has_its_value_and_its_size(api, cuda, module):
    device, host = int(cuda.cuMemAlloc(1000)), int(cuda.cuMemHostAlloc(2000, 0))
    variable, bytes_of_it = (int(one) for one in cuda.cuModuleGetGlobal(module, b"one"))
    context = int(cuda.cuCtxGetCurrent())
    for base, size, memory_type in (
        (device, 1000, 2),
        (host, 2000, 1),
        (variable, bytes_of_it, 2),
    ):
        pointer = base + 17
        expected = {
            1: context,
            2: memory_type,
            3: pointer,
            4: pointer,
            6: 0,
            8: 0,
            9: 0,
            10: base == device,
        }
        expected |= {11: base, 12: size, 13: 1, 14: 0, 15: 0, 16: 3, 17: 0, 21: 0}
        for number in range(-1, 24):
            buffer = (ctypes.c_uint8 * 16)(*[0xA5] * 16)
            code = api.cuPointerGetAttribute(buffer, number, c_uint64(pointer))
            if number not in _KINDS or (number == 4 and memory_type == 2):
                assert (code, bytes(buffer)) == (INVALID_VALUE, b"\xa5" * 16), number
                continue
            kind = _KINDS[number]
            value = kind.from_buffer_copy(bytes(buffer)).value
            assert (code, number, int(value)) == (0, number, expected.get(number, int(value)))
            assert bytes(buffer)[ctypes.sizeof(kind) :] == b"\xa5" * (16 - ctypes.sizeof(kind))
        ids = [
            call_with_result(api.cuPointerGetAttribute, c_uint64, 7, c_uint64(base + n))[1]
            for n in (0, 9)
        ]
        assert ids[0] == ids[1]
        for outside in (base - 1, base + size):
            assert api.cuPointerGetAttribute(buffer, 1, c_uint64(outside)) == INVALID_VALUE


def test_of_no_pointer_several_attributes_are_nothing(api):
    for number in range(-1, 24):
        buffer = (ctypes.c_uint8 * 16)(*[0xA5] * 16)
        code = api.cuPointerGetAttributes(
            1, byref(c_int(number)), byref(c_void_p(ctypes.addressof(buffer))), c_uint64(64)
        )
        kind = _KINDS.get(number)
        nothing = b"" if kind is None else bytes(kind(-2 if number == 9 else 0))
        assert code == (0 if kind else INVALID_VALUE), number
        assert bytes(buffer) == nothing + b"\xa5" * (16 - len(nothing)), number
    assert api.cuPointerGetAttributes(0, byref(c_int(1)), byref(c_void_p()), c_uint64(64)) == 1
    assert api.cuPointerGetAttributes(1, byref(c_int(1)), byref(c_void_p()), c_uint64(64)) == 1


def test_each_flag_is_taken_refused_or_unknown(api, cuda):
    stream, event, context = c_void_p(), c_void_p(), c_void_p()
    for bit in range(32):
        flags = c_uint(1 << bit)
        made = api.cuStreamCreate(byref(stream), flags)
        assert made == (0 if bit == 0 else INVALID_VALUE), bit
        if made == 0:
            assert call_with_result(lambda p: api.cuStreamGetFlags(stream, p), c_uint) == (0, 1)
            assert api.cuStreamDestroy_v2(stream) == 0
        made = api.cuEventCreate(byref(event), flags)
        # CU_EVENT_INTERPROCESS (bit 2) requires CU_EVENT_DISABLE_TIMING.
        assert made == {0: 0, 1: 0}.get(bit, INVALID_VALUE), bit
        if made == 0:
            assert api.cuEventDestroy_v2(event) == 0
        # CU_CTX_: three of scheduling, host maps, local memory, core dumps, memory operations.
        known = {0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 801, 6: 801, 7: 801}.get(bit, INVALID_VALUE)
        made = api.cuCtxCreate_v2(byref(context), flags, 0)
        assert made == known, bit
        if made == 0:
            assert call_with_result(api.cuCtxGetFlags, c_uint) == (0, 1 << bit)
            assert api.cuCtxDestroy_v2(context) == 0
        assert api.cuDevicePrimaryCtxSetFlags_v2(0, flags) == known, bit
    for two_schedules in (3, 5, 6, 7):
        assert api.cuCtxCreate_v2(byref(context), two_schedules, 0) == INVALID_VALUE
    assert api.cuDevicePrimaryCtxReset_v2(0) == 0
    flags, active = c_uint(9), c_int(9)
    assert api.cuDevicePrimaryCtxGetState(0, byref(flags), byref(active)) == 0
    assert (flags.value, active.value) == (0, 0)
    assert int(cuda.cuCtxGetCurrent()) != 0


def test_a_primary_context_is_used_as_often_as_it_was_retained(api):
    context, flags, active = c_void_p(), c_uint(), c_int()
    assert api.cuDevicePrimaryCtxRelease_v2(0) == 201
    for users in (1, 2):
        assert api.cuDevicePrimaryCtxRetain(byref(context), 0) == 0, users
    assert api.cuCtxDestroy_v2(context) == 201
    for remaining in (1, 0):
        assert api.cuDevicePrimaryCtxRelease_v2(0) == 0
        assert api.cuDevicePrimaryCtxGetState(0, byref(flags), byref(active)) == 0
        assert active.value == remaining
    assert api.cuDevicePrimaryCtxRelease_v2(0) == 201
    assert api.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
    assert api.cuDevicePrimaryCtxReset_v2(0) == 0
    assert api.cuDevicePrimaryCtxRelease_v2(0) == 201
    for wrong in (-1, 64):
        assert api.cuDevicePrimaryCtxRetain(byref(context), wrong) == INVALID_DEVICE
        assert api.cuDevicePrimaryCtxRelease_v2(wrong) == INVALID_DEVICE
        assert api.cuDevicePrimaryCtxReset_v2(wrong) == INVALID_DEVICE
        assert api.cuDevicePrimaryCtxSetFlags_v2(wrong, 0) == INVALID_DEVICE


@pytest.mark.parametrize("size", [1, MIB - 1, MIB, MIB + 1, BIG])
def test_variables_are_copied_in_pieces(cuda, module, size):
    """Copies between a variable, another one, and device, pinned and pageable memory."""
    data = np.random.default_rng(size).integers(0, 256, BIG, np.uint8)
    kept = np.full(BIG, 7, np.uint8)
    ends = {
        "one": int(cuda.cuModuleGetGlobal(module, b"one")[0]),
        "two": int(cuda.cuModuleGetGlobal(module, b"two")[0]),
        "device": int(cuda.cuMemAlloc(BIG)),
        "pinned": int(cuda.cuMemHostAlloc(BIG, 0)),
        "pageable": np.zeros(BIG, np.uint8).ctypes.data,
    }
    buffer = np.zeros(BIG, np.uint8)
    ends["pageable"] = buffer.ctypes.data
    back = np.zeros(BIG, np.uint8)
    for source in ends:
        for target in ends:
            if source == target or not {source, target} & {"one", "two"}:
                continue
            cuda.cuMemcpy(ends[source], data.ctypes.data, BIG)
            cuda.cuMemcpy(ends[target], kept.ctypes.data, BIG)
            cuda.cuMemcpy(ends[target], ends[source], size)
            cuda.cuMemcpy(back.ctypes.data, ends[target], BIG)
            assert (back[:size] == data[:size]).all(), (source, target)
            assert (back[size:] == 7).all(), (source, target)
    code = cuda.code("cuMemcpy", ends["one"], ends["device"], BIG + 1)
    assert code == INVALID_VALUE
