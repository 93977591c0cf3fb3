"""Kernels that call vprintf, __assertfail, malloc and free: ``system_calls.py SCENARIO``."""

import ctypes
import struct
import sys

import numpy as np
from cuda.bindings import driver

from support.programs.client_kernels.gpu import DriverError, Gpu, Program, call

HEAD = """.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 status) vprintf(.param .b64 format, .param .b64 arguments);
.extern .func (.param .b64 block) malloc(.param .b64 bytes);
.extern .func free(.param .b64 block);
.extern .func __assertfail(.param .b64 message, .param .b64 file, .param .b32 line,
                           .param .b64 function, .param .b64 character_bytes);
"""
# Prints the format and the packed arguments that it gets; stores the result of vprintf.
PRINT = """
.visible .entry print(.param .u64 format, .param .u64 packed, .param .u64 statuses)
{
  .reg .b32 %r<8>;
  .reg .b64 %d<8>;
  ld.param.u64 %d1, [format];
  ld.param.u64 %d2, [packed];
  ld.param.u64 %d3, [statuses];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %ctaid.x;
  mad.lo.u32 %r1, %r2, %r3, %r1;
  {
    .param .b64 one;
    .param .b64 two;
    .param .b32 status;
    st.param.b64 [one], %d1;
    st.param.b64 [two], %d2;
    call (status), vprintf, (one, two);
    ld.param.b32 %r4, [status];
  }
  mul.wide.u32 %d4, %r1, 4;
  add.u64 %d3, %d3, %d4;
  st.global.b32 [%d3], %r4;
  ret;
}
"""
ASSERT = """
.global .align 1 .b8 message[6] = {120, 32, 62, 32, 48, 0};
.global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};
.global .align 1 .b8 function[2] = {102, 0};
.visible .entry check(.param .u32 wrong)
{
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  ld.param.u32 %r1, [wrong];
  mov.u32 %r2, %tid.x;
  setp.ne.u32 %p, %r1, %r2;
  @%p bra FINE;
  mov.u64 %d1, message;
  cvta.global.u64 %d1, %d1;
  mov.u64 %d2, file;
  cvta.global.u64 %d2, %d2;
  mov.u64 %d3, function;
  cvta.global.u64 %d3, %d3;
  {
    .param .b64 one;
    .param .b64 two;
    .param .b32 three;
    .param .b64 four;
    .param .b64 five;
    st.param.b64 [one], %d1;
    st.param.b64 [two], %d2;
    st.param.b32 [three], 77;
    st.param.b64 [four], %d3;
    st.param.b64 [five], 1;
    call __assertfail, (one, two, three, four, five);
  }
FINE:
  ret;
}
"""
# Allocates a block `rounds` times, fills it, checks that no other thread has written to it, and
# frees it.
HEAP = """
.visible .entry heap(.param .u64 wrong, .param .u32 bytes, .param .u32 rounds)
{
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .b64 %d<8>;
  ld.param.u64 %d1, [wrong];
  ld.param.u32 %r1, [bytes];
  ld.param.u32 %r2, [rounds];
  mov.u32 %r3, %ctaid.x;
  shl.b32 %r3, %r3, 10;
  mov.u32 %r4, %tid.x;
  add.u32 %r3, %r3, %r4;
  rem.u32 %r5, %r3, 7; // of several sizes at once
  mad.lo.u32 %r1, %r5, 24, %r1;
  cvt.u64.u32 %d2, %r1;
ROUND:
  {
    .param .b64 one;
    .param .b64 result;
    st.param.b64 [one], %d2;
    call (result), malloc, (one);
    ld.param.b64 %d3, [result];
  }
  setp.eq.u64 %p, %d3, 0;
  @%p bra WRONG;
  add.u64 %d4, %d3, %d2;
  mov.u64 %d5, %d3;
FILL:
  st.b32 [%d5], %r3;
  add.u64 %d5, %d5, 4;
  setp.lt.u64 %p, %d5, %d4;
  @%p bra FILL;
  mov.u64 %d5, %d3;
LOOK:
  ld.volatile.b32 %r6, [%d5];
  setp.ne.u32 %p, %r6, %r3;
  @%p bra WRONG;
  add.u64 %d5, %d5, 4;
  setp.lt.u64 %p, %d5, %d4;
  @%p bra LOOK;
  {
    .param .b64 one;
    st.param.b64 [one], %d3;
    call free, (one);
  }
  sub.u32 %r2, %r2, 1;
  setp.ne.u32 %p, %r2, 0;
  @%p bra ROUND;
  ret;
WRONG:
  red.global.add.u32 [%d1], 1;
  ret;
}
.visible .entry take(.param .u64 blocks, .param .u64 bytes)
{
  .reg .b32 %r;
  .reg .b64 %d<5>;
  ld.param.u64 %d1, [blocks];
  ld.param.u64 %d2, [bytes];
  {
    .param .b64 one;
    .param .b64 result;
    st.param.b64 [one], %d2;
    call (result), malloc, (one);
    ld.param.b64 %d3, [result];
  }
  mov.u32 %r, %tid.x;
  mul.wide.u32 %d4, %r, 8;
  add.u64 %d1, %d1, %d4;
  st.global.b64 [%d1], %d3;
  ret;
}
.visible .entry give(.param .u64 blocks)
{
  .reg .b32 %r;
  .reg .b64 %d<5>;
  ld.param.u64 %d1, [blocks];
  mov.u32 %r, %tid.x;
  mul.wide.u32 %d4, %r, 8;
  add.u64 %d1, %d1, %d4;
  ld.global.b64 %d3, [%d1];
  {
    .param .b64 one;
    st.param.b64 [one], %d3;
    call free, (one);
  }
  ret;
}
"""
INVALID_VALUE, UNSUPPORTED_LIMIT = 1, 215
# Each activation has an array of 96 bytes. Adds up what is read from it, and counts how often it
# was not zero at the start.
DEEP = """
.func (.reg .b32 sum, .reg .b32 dirty) deep(.reg .b32 n)
{
  .local .align 8 .b8 own[96];
  .reg .b64 %a;
  .reg .b32 %x, %y, %s, %d;
  .reg .pred %p;
  mov.b32 sum, 0;
  mov.b32 dirty, 0;
  setp.eq.u32 %p, n, 0;
  @%p ret;
  and.b32 %x, n, 7;
  mov.b64 %a, own;
  mad.wide.u32 %a, %x, 8, %a;
  ld.local.b32 %y, [%a];
  setp.ne.u32 %p, %y, 0;
  selp.u32 dirty, 1, 0, %p;
  st.local.b32 [%a], n;
  sub.u32 %x, n, 1;
  call (%s, %d), deep, (%x);
  add.u32 dirty, dirty, %d;
  ld.local.b32 %y, [%a];
  add.u32 sum, %s, %y;
  ret;
}
.visible .entry descend(.param .u64 out, .param .u32 n)
{
  .reg .b64 %o;
  .reg .b32 %n, %s, %d, %t;
  ld.param.u64 %o, [out];
  ld.param.u32 %n, [n];
  mov.u32 %t, %tid.x;
  mad.wide.u32 %o, %t, 8, %o;
  add.u32 %n, %n, %t;
  call (%s, %d), deep, (%n);
  st.global.v2.b32 [%o], {%s, %d};
  ret;
}
.visible .entry plain(.param .u64 out)
{
  .local .align 4 .b8 own[40];
  .reg .b64 %o, %a;
  .reg .b32 %t;
  ld.param.u64 %o, [out];
  mov.u32 %t, %tid.x;
  mov.b64 %a, own;
  mad.wide.u32 %a, %t, 4, %a;
  st.local.b32 [%a], %t;
  ld.local.b32 %t, [own+8];
  st.global.b32 [%o], %t;
  ret;
}
"""
LIMIT = driver.CUlimit


def load_program(text: str) -> Program:
    return Program(call(driver.cuModuleLoadData, (HEAD + text).encode() + b"\0"))


class Printing:
    """Prints the given arguments from a kernel."""

    def __init__(self) -> None:
        self._program = load_program(PRINT)

    def out(self, text: str, *arguments: object, threads: int = 1, grid: int = 1) -> list[int]:
        packed, kept = b"", []
        for argument in arguments:
            if isinstance(argument, str):
                kept.append(self._copy_to_device(argument.encode() + b"\0"))
                argument = np.uint64(int(kept[-1]))
            data = np.asarray(argument)
            packed += b"\0" * (-len(packed) % data.nbytes) + data.tobytes()
        *_, statuses = self._program.run(
            "print",
            np.frombuffer(text.encode() + b"\0", np.uint8),
            np.frombuffer(packed or b"\0", np.uint8),
            np.full(threads * grid, -99, np.int32),
            grid=(grid,),
            block=(threads,),
        )
        return [int(status) for status in statuses]

    def _copy_to_device(self, data: bytes):
        pointer = call(driver.cuMemAlloc, len(data))
        call(driver.cuMemcpyHtoD, pointer, data, len(data))
        return pointer


def i32(value: int) -> np.int32:
    return np.int32(value)


def formats() -> None:
    p = Printing()
    null = np.uint64(0)
    assert p.out("plain\n") == [0]
    assert p.out("%d|%5d|%-5d|%05d|%+d|% d\n", *[i32(-7)] * 6) == [6]
    assert p.out("%u %x %#X %o\n", *[np.uint32(0xFFFFFFF0)] * 4) == [4]
    assert p.out("%c%c %hd %hhu\n", i32(72), i32(105), i32(70000), i32(511)) == [4]
    assert p.out("%lld %d %llu\n", np.int64(-(1 << 40)), i32(3), np.uint64(1 << 63)) == [3]
    assert p.out("%d %f %.3e %g\n", i32(1), *[np.float64(2.5)] * 3) == [4]
    assert p.out("%*d|%-*d|%.*f\n", i32(6), i32(42), i32(4), i32(1), i32(2), np.float64(1 / 3)) == [
        6
    ]
    assert p.out("[%s][%8s][%-8s][%.2s][%s]\n", "one", "two", "three", "four", null) == [5]
    assert p.out("100%% %p %y %ld%%\n", np.uint64(0xABC), np.int64(5)) == [2]
    assert p.out("ends with %") == [0]
    assert p.out("\n%s%s%d\n", "", "x" * 5000, i32(9)) == [3]
    assert p.out(sys.argv[2], *[i32(-7)] * sys.argv[2].count("[")) == [sys.argv[2].count("[")]


def threads() -> None:
    assert Printing().out("%s %d\n", "thread", i32(5), threads=96, grid=5) == [2] * 480


def overflow() -> None:
    """Output beyond the FIFO's capacity is lost, but the next launch prints again."""
    call(driver.cuCtxSetLimit, LIMIT.CU_LIMIT_PRINTF_FIFO_SIZE, 4096)
    printing = Printing()
    for _ in range(3):  # also across the FIFO's end
        statuses = printing.out("twelve bytes\n", threads=256)
        kept = statuses.count(0)
        assert 100 <= kept <= 128, kept
        assert kept + statuses.count(-2) == 256
    assert printing.out("x" * 5000) == [-2]
    assert printing.out("last\n") == [0]


def assertion() -> None:
    program = load_program(ASSERT)
    program.run("check", np.uint32(1000))
    try:
        program.run("check", np.uint32(5), block=(64,))
    except DriverError as error:
        print(error.code)


def heap() -> None:
    program = load_program(HEAP)
    for size in (1, 100, 1000):
        (wrong,) = program.run(
            "heap", np.zeros(1, np.uint32), np.uint32(size), np.uint32(6), grid=(4,), block=(64,)
        )
        assert wrong[0] == 0, size
    limit = call(driver.cuCtxGetLimit, LIMIT.CU_LIMIT_MALLOC_HEAP_SIZE)
    for _ in range(3):  # freed memory is available again
        blocks, *_ = program.run("take", np.zeros(64, np.uint64), np.uint64(limit // 100))
        taken = blocks[:32]
        assert len(set(taken)) == 32
        assert (taken != 0).all()
        assert (taken % 16 == 0).all()
        program.run("give", blocks, block=(32,))
    (block,) = program.run("take", np.ones(1, np.uint64), np.uint64(limit + 1), block=(1,))
    assert block[0] == 0
    (block,) = program.run("take", np.ones(1, np.uint64), np.uint64(2**64 - 1), block=(1,))
    assert block[0] == 0
    (block,) = program.run("take", np.ones(1, np.uint64), np.uint64(0), block=(1,))
    assert block[0] == 0
    blocks, *_ = program.run("take", np.zeros(32, np.uint64), np.uint64(limit // 10))
    assert 0 < np.count_nonzero(blocks) < 10
    program.run("give", np.zeros(1, np.uint64), block=(1,))  # free(NULL)
    again = np.repeat(blocks[blocks != 0][:1], 2)
    try:
        program.run("give", again, block=(2,))  # twice
    except DriverError as error:
        print(error.code)


def limits() -> None:
    def set_limit(limit: int, value: int) -> int:
        return int(driver.cuCtxSetLimit(limit, value)[0])

    get = lambda limit: call(driver.cuCtxGetLimit, limit)  # noqa: E731
    fifo, heap_, stack = (
        LIMIT.CU_LIMIT_PRINTF_FIFO_SIZE,
        LIMIT.CU_LIMIT_MALLOC_HEAP_SIZE,
        LIMIT.CU_LIMIT_STACK_SIZE,
    )
    # Measured on an H100 80GB HBM3, driver 580.159.
    assert (get(stack), get(fifo), get(heap_)) == (1024, 8650752, 8 << 20)
    assert (set_limit(stack, 2050), get(stack)) == (0, 2064)
    assert (set_limit(stack, (512 << 10) + 1), get(stack)) == (INVALID_VALUE, 2064)
    assert (set_limit(heap_, 32 << 20), get(heap_)) == (0, 32 << 20)
    assert (set_limit(fifo, 2 << 20), get(fifo)) == (0, 2 << 20)
    assert set_limit(LIMIT.CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64) == UNSUPPORTED_LIMIT
    program = load_program(HEAP)
    (block,) = program.run("take", np.zeros(1, np.uint64), np.uint64(20 << 20), block=(1,))
    assert block[0] != 0
    assert (set_limit(heap_, 64 << 20), set_limit(heap_, 32 << 20)) == (INVALID_VALUE, 0)
    assert set_limit(fifo, 4 << 20) == INVALID_VALUE


def deep() -> None:
    """The stack has the size that the program sets, is zeroed, and is apart from local memory."""
    program = load_program(DEEP)
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
    for kernel, own in (("plain", 40), ("descend", 0)):
        function = call(driver.cuModuleGetFunction, program._module, kernel.encode())
        assert call(driver.cuFuncGetAttribute, attribute, function) == own
    depth, stack = 300, LIMIT.CU_LIMIT_STACK_SIZE
    assert call(driver.cuCtxGetLimit, stack) < depth * 96
    call(driver.cuCtxSetLimit, stack, 64 << 10)
    for _ in range(2):  # the second call finds what the first has left
        (out,) = program.run(
            "descend", np.zeros((64, 2), np.uint32), np.uint32(depth - 64), grid=(40,), block=(64,)
        )
        n = depth - 64 + np.arange(64)
        assert out[:, 0].tolist() == (n * (n + 1) // 2).tolist()
        assert not out[:, 1].any(), out[:, 1]
    call(driver.cuCtxSetLimit, stack, 8 << 10)
    try:
        program.run("descend", np.zeros((64, 2), np.uint32), np.uint32(depth), block=(1,))
    except DriverError as error:
        print(error.code)


def overwritten() -> None:
    """A kernel that overwrites the FIFO harms only itself."""
    printing = Printing()
    printing.out("before\n")
    area = call(driver.cuModuleGetGlobal, printing._program._module, b"tessera.area")[0]
    address = ctypes.c_uint64()
    call(driver.cuMemcpyDtoH, ctypes.addressof(address), area, 8)
    rng = np.random.default_rng(1)
    for size, kind in ((8, 1), (1 << 31, 1), (0, 2), (24, 1), (40, 2), (1 << 12, 1)):
        junk = struct.pack("<II", size, kind) + rng.integers(0, 256, 6000, np.uint8).tobytes()
        if size == 1 << 12:  # a format that needs more arguments than there are
            text = b"%s%d%999999999d%.99999999f%s%*d" * 4 + b"\0"
            junk = struct.pack("<IIQ", size, kind, len(text)) + text + b"\xff" * 4000
        call(driver.cuMemcpyHtoD, address.value + 4096, junk, len(junk))
        header = struct.pack("<QQ", len(junk) // 8 * 8, 0)
        call(driver.cuMemcpyHtoD, address.value + 8, header, len(header))
        call(driver.cuCtxSynchronize)
        printing.out("after\n")  # the FIFO is empty: a record of zeros is incomplete
        fifo = np.ones(1 << 20, np.uint8)
        call(driver.cuMemcpyDtoH, fifo.ctypes.data, address.value + 4096, fifo.nbytes)
        assert not fifo.any(), np.flatnonzero(fifo)


Gpu()
globals()[sys.argv[1]]()
