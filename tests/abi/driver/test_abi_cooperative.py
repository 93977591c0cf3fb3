"""Cooperative launches, and the occupancy of a device."""

import ctypes

import numpy as np
import pytest
from cuda.bindings.driver import CUfunction_attribute

INVALID_VALUE = 1
TOO_LARGE = 720
# meet(out, phases): in each phase, every block adds 1 to a word and then sees the additions of all
# blocks. The barrier is written as compilers write it.
MEET = """
.version 8.5
.target sm_90
.address_size 64
.visible .entry meet(.param .u64 p0, .param .u32 p1)
{
    .reg .pred %p<8>;
    .reg .b32 %r<32>;
    .reg .b64 %d<8>;
    ld.param.u64 %d1, [p0];
    ld.param.u32 %r1, [p1];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %nctaid.x;
    mov.u32 %r5, %envreg2;
    mov.u32 %r6, %envreg1;
    mov.b64 %d2, {%r5, %r6};
    mov.u32 %r7, 0;
NEXT:
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra ADDED;
    atom.add.global.u32 %r8, [%d1], 1;
ADDED:
    barrier.sync 0;
    @%p1 bra MET;
    setp.eq.u32 %p2, %r3, 0;
    sub.u32 %r9, 0x80000001, %r4;
    selp.b32 %r10, %r9, 1, %p2;
    atom.add.release.gpu.u32 %r11, [%d2+4], %r10;
SPIN:
    ld.acquire.gpu.u32 %r12, [%d2+4];
    xor.b32 %r13, %r12, %r11;
    setp.gt.s32 %p3, %r13, -1;
    @%p3 bra SPIN;
MET:
    barrier.sync 0;
    add.u32 %r7, %r7, 1;
    ld.volatile.global.u32 %r14, [%d1];
    mul.lo.u32 %r15, %r7, %r4;
    setp.lt.u32 %p4, %r14, %r15;
    @%p4 trap;
    setp.lt.u32 %p5, %r7, %r1;
    @%p5 bra NEXT;
    ret;
}
"""

DYNAMIC_SHARED_LIMIT = CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


@pytest.fixture
def meet(cuda):
    module = cuda.cuModuleLoadData(MEET.encode() + bytes(1))
    return cuda.cuModuleGetFunction(module, b"meet")


def kernel_params(out, phases):
    """Return kernelParams in the form of cuda.bindings."""
    return ((out, phases), (ctypes.c_uint64, ctypes.c_uint32))


def _count(cuda, pointer) -> int:
    found = np.zeros(1, np.uint32)
    cuda.cuMemcpyDtoH(found, pointer, 4)
    return int(found[0])


def _launch(cuda, function, out, phases, grid, block, stream=0) -> int:
    given = kernel_params(out, phases)
    return cuda.code(
        "cuLaunchCooperativeKernel", function, grid, 1, 1, block, 1, 1, 0, stream, given
    )


def test_all_blocks_of_a_grid_synchronise(cuda, meet):
    out = int(cuda.cuMemAlloc(4))
    cuda.cuMemsetD32(out, 0, 1)
    assert _launch(cuda, meet, out, 3, 40, 64) == 0
    cuda.cuCtxSynchronize()
    assert _count(cuda, out) == 3 * 40


def test_launches_of_several_streams_have_the_barrier_one_after_the_other(cuda, meet):
    streams = [cuda.cuStreamCreate(1) for _ in range(4)]
    outs = [int(cuda.cuMemAlloc(4)) for _ in streams]
    for out in outs:
        cuda.cuMemsetD32(out, 0, 1)
    cuda.cuCtxSynchronize()
    for _ in range(3):
        for out, stream in zip(outs, streams, strict=True):
            cuda.cuMemsetD32Async(out, 0, 1, stream)
            assert _launch(cuda, meet, out, 2, 8, 32, stream) == 0
    cuda.cuCtxSynchronize()
    assert [_count(cuda, out) for out in outs] == [2 * 8] * 4


def test_a_launch_attribute_requests_it_too(cuda, meet):
    out = int(cuda.cuMemAlloc(4))
    cuda.cuMemsetD32(out, 0, 1)
    config = cuda.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = 10, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 32, 1, 1
    attribute = cuda.CUlaunchAttribute()
    attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    attribute.value.cooperative = 1
    config.attrs, config.numAttrs = [attribute], 1
    given = kernel_params(out, 2)
    cuda.cuLaunchKernelEx(config, meet, given, 0)
    cuda.cuCtxSynchronize()
    assert _count(cuda, out) == 20
    config.gridDimX = 1 << 20
    assert cuda.code("cuLaunchKernelEx", config, meet, given, 0) == TOO_LARGE
    attribute.value.cooperative = 0
    config.attrs, config.gridDimX = [attribute], 2
    cuda.cuLaunchKernelEx(config, meet, given, 0)
    cuda.cuCtxSynchronize()


def _attribute(cuda, name: str) -> int:
    return cuda.cuDeviceGetAttribute(getattr(cuda.CUdevice_attribute, name), 0)


@pytest.mark.parametrize(
    ("threads", "shared", "blocks"),
    [
        (1024, 0, 2),
        (1023, 0, 2),
        (256, 0, 8),
        (32, 0, 32),
        (1, 0, 32),
        (64, 40 << 10, 5),  # 41 of 228 KiB each
        (64, 48 << 10, 4),
        (64, (48 << 10) + 1, 0),  # the function's attribute limits it, as it does launches
        (1025, 0, 0),
    ],
)
def test_occupancy_of_a_multiprocessor(cuda, meet, threads, shared, blocks):
    """An H100: 2048 threads, 32 blocks, 228 KiB; each block uses 1 KiB more than it requests."""
    ask = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
    assert getattr(cuda, ask)(meet, threads, shared) == blocks
    assert getattr(cuda, ask + "WithFlags")(meet, threads, shared, 1) == blocks
    multiprocessors = _attribute(cuda, "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT")
    out = int(cuda.cuMemAlloc(4))
    given = kernel_params(out, 1)
    if blocks and shared <= 48 << 10:
        most = blocks * multiprocessors
        geometry = (1, 1, threads, 1, 1, shared, 0, given)
        assert cuda.code("cuLaunchCooperativeKernel", meet, most + 1, *geometry) == TOO_LARGE
    cuda.cuCtxSynchronize()


def test_the_largest_grid_that_is_resident_meets(cuda, meet):
    out = int(cuda.cuMemAlloc(4))
    cuda.cuMemsetD32(out, 0, 1)
    most = 2 * _attribute(cuda, "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT")
    assert _launch(cuda, meet, out, 1, most, 1024) == 0
    cuda.cuCtxSynchronize()
    assert _count(cuda, out) == most


def test_questions_about_room(cuda, meet):
    assert cuda.cuOccupancyAvailableDynamicSMemPerBlock(meet, 5, 64) == (228 << 10) // 5
    # As a launch, a query is limited by the function's attribute.
    for limit in (227 << 10, 48 << 10):
        cuda.cuFuncSetAttribute(meet, DYNAMIC_SHARED_LIMIT, limit)
        assert cuda.cuOccupancyAvailableDynamicSMemPerBlock(meet, 1, 64) == limit
    room = "cuOccupancyAvailableDynamicSMemPerBlock"
    assert cuda.code(room, meet, 33, 64) == INVALID_VALUE  # a multiprocessor has 32 blocks
    multiprocessors = _attribute(cuda, "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT")
    assert cuda.cuOccupancyMaxPotentialBlockSize(meet, None, 0, 0) == (2 * multiprocessors, 1024)
    assert cuda.cuOccupancyMaxPotentialBlockSize(meet, None, 0, 96) == (32 * multiprocessors, 64)
    ask = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
    assert cuda.code(ask, meet, 0, 0) == INVALID_VALUE
    assert cuda.code(ask + "WithFlags", meet, 32, 0, 2) == INVALID_VALUE
    assert _attribute(cuda, "CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH") == 1
    assert _attribute(cuda, "CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH") == 0
