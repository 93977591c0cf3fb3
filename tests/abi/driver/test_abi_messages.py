"""Messages on stderr about a failed kernel: its name, the location, the limit."""

import re
import subprocess
import sys
import time

import pytest

from support.kernels.ptx_kernels import ENDLESS, HEADER

# smear(p, n): each thread whose index is below n stores the index at p[index * 9].
SMEAR = (
    HEADER
    + """
.visible .entry smear(.param .u64 p, .param .u32 n)
{
    .loc 1 3 0
    .reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .pred %p;
    ld.param.u64 %rd0, [p];
    ld.param.u32 %r5, [n];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r0, %r1, %r2;
    .loc 1 4 9
    setp.ge.u32 %p, %r3, %r5;
    @%p bra OUT;
    mul.wide.u32 %rd1, %r3, 36;
    add.u64 %rd2, %rd0, %rd1;
    .loc 1 5 5, function_name $L__info, inlined_at 1 9 2
    st.global.u32 [%rd2], %r3;
OUT:
    ret;
}
.file 1 "kernel.cu"
"""
)

START = f"""
import ctypes, sys
import numpy as np
from cuda.bindings import driver as d
def call(result):
    status, *more = result
    assert int(status) == 0, status
    return more[0] if len(more) == 1 else more
call(d.cuInit(0))
call(d.cuCtxCreate(None, 0, 0))
def kernel(ptx, name):
    return call(d.cuModuleGetFunction(call(d.cuModuleLoadData(ptx.encode() + b"\\0")), name))
SMEAR = {SMEAR!r}
ENDLESS = {ENDLESS!r}
def smear(address, n, grid, block):
    f = kernel(SMEAR, b"smear")
    kinds = ctypes.c_uint64, ctypes.c_uint32
    print(int(d.cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, 0, ((address, n), kinds), 0)[0]))
    print(int(d.cuCtxSynchronize()[0]))
"""


def python(text, environment, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START + text],
        env={**environment, **more},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def lines_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    lines = done.stderr.splitlines()
    assert all(line.startswith("tessera: ") for line in lines), done.stderr
    return [line.removeprefix("tessera: ") for line in lines]


# An allocation of 4000 bytes, alone in its chunk of 2 MiB, in its own context.
PAST = """
p = int(call(d.cuMemAlloc(4000)))
print(hex(p))
smear(p, 1 << 20, 1024, 256)
"""


def test_a_fault_names_source_line_thread_and_the_allocation(either_backend):
    done = python(PAST, either_backend)
    begin, launched, ended = done.stdout.split()
    assert (launched, ended) == ("0", "700"), done.stderr
    lines = lines_of(done)
    head = re.fullmatch(
        r"context ended, CUDA error 700: kernel smear, PTX line 21, block (\d+):"
        r" illegal address: ST\.GLOBAL\.U32 \S+ \S+ at (0x[0-9a-f]+)",
        lines[0],
    )
    assert head is not None, lines
    address = int(head[2], 16)
    index, rest = divmod(address - int(begin, 16), 36)
    assert rest == 0
    assert index // 256 == int(head[1])
    distance = address - int(begin, 16) - 4000 + 1
    assert lines[1:] == [
        "  source kernel.cu:5:5, inlined at kernel.cu:9:2",
        "  PTX line 21: st.global.u32 [%rd2], %r3;",
        f"  block ({index // 256},0,0), thread ({index % 256},0,0)",
        f"  address {address:#x}: {distance} bytes past the end of the allocation of 4000 bytes"
        f" at {begin}",
    ]


FREED = """
p = int(call(d.cuMemAlloc(4 << 20)))
q = int(call(d.cuMemAlloc(4 << 20)))
call(d.cuMemFree(p))
print(hex(p))
smear(p + 36, 1, 1, 32)
"""


def test_memory_that_was_freed_is_called_so(either_backend):
    done = python(FREED, either_backend)
    begin = done.stdout.split()[0]
    address = int(begin, 16) + 36
    assert lines_of(done)[-2:] == [
        "  block (0,0,0), thread (0,0,0)",
        f"  address {address:#x}: in the allocation of {4 << 20} bytes at {begin}, which has been"
        " freed",
    ]


@pytest.mark.parametrize(
    ("address", "place"), [(0, "a null pointer"), (256, "a null pointer and 256 bytes")]
)
def test_a_null_pointer_is_called_so(either_backend, address, place):
    done = python(f"smear({address}, 1, 3, 32)", either_backend)
    assert lines_of(done)[-1] == f"  address {address:#x}: {place}"


TRAP = (
    HEADER
    + """
.visible .entry trapping()
{
    .reg .b32 %r0; .reg .pred %p;
    mov.u32 %r0, %tid.y;
    setp.ne.u32 %p, %r0, 3;
    @%p ret;
    trap;
}
"""
)


def test_a_trap_names_its_thread(either_backend):
    text = f"""
f = kernel({TRAP!r}, b"trapping")
d.cuLaunchKernel(f, 1, 1, 1, 1, 8, 1, 0, 0, 0, 0)
d.cuCtxSynchronize()
"""
    lines = lines_of(python(text, either_backend))
    assert lines[-2:] == ["  PTX line 11: trap;", "  block (0,0,0), thread (0,3,0)"]


LAUNCH = """
limited = SMEAR.replace(".param .u32 n)", ".param .u32 n)\\n.maxntid 128, 1, 1")
fixed = SMEAR.replace(".param .u32 n)", ".param .u32 n)\\n.reqntid 32, 2, 1")
kinds = ctypes.c_uint64, ctypes.c_uint32
def launch(ptx, grid=(1, 1, 1), block=(32, 1, 1), shared=0, given=((0, 0), kinds)):
    f = kernel(ptx, b"smear")
    for _ in range(2):
        print(int(d.cuLaunchKernel(f, *grid, *block, shared, 0, given, 0)[0]))
"""

REFUSALS = {
    "block": (
        "launch(SMEAR, block=(2048, 1, 1))",
        1,
        "2048 threads of a block in x; the device takes 1 to 1024 (block 2048x1x1)",
    ),
    "no threads": (
        "launch(SMEAR, block=(32, 0, 1))",
        1,
        "0 threads of a block in y; the device takes 1 to 1024 (block 32x0x1)",
    ),
    "block z": (
        "launch(SMEAR, block=(1, 1, 128))",
        1,
        "128 threads of a block in z; the device takes 1 to 64 (block 1x1x128)",
    ),
    "threads": (
        "launch(SMEAR, block=(64, 32, 1))",
        1,
        "block 64x32x1 has 2048 threads; the device takes 1024 of a block",
    ),
    "grid y": (
        "launch(SMEAR, grid=(1, 70000, 1))",
        1,
        "70000 blocks of the grid in y; the device takes 1 to 65535 (grid 1x70000x1)",
    ),
    "grid z": (
        "launch(SMEAR, grid=(1, 1, 65536))",
        1,
        "65536 blocks of the grid in z; the device takes 1 to 65535 (grid 1x1x65536)",
    ),
    "shared memory": (
        "launch(SMEAR, shared=300 << 10)",
        1,
        "307200 bytes of dynamic shared memory beside 0 of the kernel's own; it may ask for 49152"
        " (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES raises that up to 232448)",
    ),
    "no parameters": (
        "launch(SMEAR, given=0)",
        1,
        "no parameters are given; the kernel takes 2",
    ),
    "maxntid": (
        "launch(limited, block=(129, 1, 1))",
        1,
        "block 129x1x1 has 129 threads; the kernel is compiled for 128 (its .maxntid)",
    ),
    "more than reqntid": (
        "launch(fixed, block=(65, 1, 1))",
        1,
        "block 65x1x1 has 65 threads; the kernel is compiled for 64 (its .reqntid)",
    ),
    "another shape than reqntid": (
        "launch(fixed, block=(64, 1, 1))",
        1,
        "block 64x1x1; the kernel's .reqntid requires 32x2x1",
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_a_refused_launch_names_kernel_value_and_limit(environment, what):
    call, code, why = REFUSALS[what]
    done = python(LAUNCH + call, environment)
    assert done.stdout.split() == [str(code)] * 2, done.stderr
    assert lines_of(done) == [f"cuLaunchKernel, kernel smear: {why} (CUDA error {code})"]


def test_messages_have_demangled_names(environment):
    text = """
name = "_Z5smearILi1EEvPjj"
f = kernel(SMEAR.replace("smear", name), name.encode())
kinds = ctypes.c_uint64, ctypes.c_uint32
d.cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, 0, ((0, 0), kinds), 0)
print(d.cuFuncGetName(f)[1].decode())
d.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, 0, ((0, 1), kinds), 0)
d.cuCtxSynchronize()
"""
    done = python(text, environment)
    assert done.stdout == "_Z5smearILi1EEvPjj\n"
    refusal, fault = [one for one in lines_of(done) if "kernel smear" in one]
    assert refusal.startswith("cuLaunchKernel, kernel smear<1>(unsigned int*, unsigned int): 2048")
    assert ": kernel smear<1>(unsigned int*, unsigned int), PTX line " in fault


HANG = """
flag = int(call(d.cuMemAlloc(4)))
call(d.cuMemsetD32(flag, 0, 1))
f = kernel(ENDLESS.replace("endless", "_Z7endlessPi"), b"_Z7endlessPi")
first, second = (call(d.cuStreamCreate(1)) for _ in range(2))
event = call(d.cuEventCreate(0))
call(d.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, first, ((flag,), (ctypes.c_uint64,)), 0))
call(d.cuEventRecord(event, first))
call(d.cuStreamWaitEvent(second, event, 0))
call(d.cuMemsetD32Async(flag + 0, 0, 1, second))
print("waiting", flush=True)
d.cuStreamSynchronize(second)
"""


def test_a_kernel_that_does_not_end_is_named_once(either_backend):
    """It is also named to a thread that waits for another stream, which waits for the kernel."""
    process = subprocess.Popen(
        [sys.executable, "-c", START + HANG],
        env={**either_backend, "TESSERA_HANG_NOTICE_S": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "waiting\n"
        begin = time.monotonic()
        line = process.stderr.readline()
        assert time.monotonic() - begin >= 0.9
    finally:
        process.kill()
        _, more = process.communicate()
    assert line == (
        "tessera: kernel endless(int*) (grid 1x1x1, block 32x1x1) has not ended after 1 s (a first"
        " launch also compiles it): press Ctrl-C twice under tessera run, or run it with --kernel-timeout SECONDS, to end it\n"
    )
    assert more == ""


def raw(text: str, environment, **more) -> subprocess.CompletedProcess[str]:
    """Run a program that calls the library directly, because the bindings refuse the arguments."""
    return python("lib = ctypes.CDLL('libcuda.so.1')\n" + text, environment, **more)


EX = """
f = kernel(SMEAR, b"smear")
class Config(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint)]
class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint32 * 16)]
def launch(*attributes):
    rows = (Attribute * max(1, len(attributes)))()
    for row, (number, value) in zip(rows, attributes):
        row.id = number
        row.value[: len(value)] = value
    config = Config((5, 6, 7), (32, 2, 1), 96, None, ctypes.addressof(rows), len(attributes))
    a, n = ctypes.c_uint64(0), ctypes.c_uint32(0)
    both = (ctypes.c_void_p * 2)(ctypes.addressof(a), ctypes.addressof(n))
    return lib.cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(int(f)), both, None)
"""


def test_the_trace_shows_a_configuration_and_refused_calls(environment, tmp_path):
    trace = tmp_path / "trace"
    text = EX + "print(launch(), lib.cuGraphicsUnregisterResource(None))"
    done = raw(text, environment, TESSERA_TRACE=str(trace))
    assert done.stdout == "0 801\n", done.stderr
    traced = trace.read_text()
    (line,) = [one for one in traced.splitlines() if " cuLaunchKernelEx(" in one]
    assert (
        ", config.gridDimX=5, config.gridDimY=6, config.gridDimZ=7, config.blockDimX=32,"
        " config.blockDimY=2, config.blockDimZ=1, config.sharedMemBytes=96, config.hStream=0,"
    ) in line
    assert ", config.numAttrs=0, f=" in line
    assert re.search(r" cuGraphicsUnregisterResource\(\) = 801 \d+ ns\n", traced)


PERMISSIONS = (0, 1, 3, 5, 6, 8, 9, 10, 11, 14, 16)
DEMANDS = {
    7: "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT",
    12: "CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT",
    13: "CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE",
    15: "an unknown launch attribute of cuLaunchKernelEx",
    4711: None,
}


def test_permissions_are_ignored_and_demands_are_refused(environment):
    text = (
        EX
        + f"""
print([launch((one, [1, 1, 1])) for one in {PERMISSIONS}])
print([launch((one, [1, 1, 1])) for one in {tuple(DEMANDS)}])
print(launch((4, [1, 1, 1])), launch((4, [2, 1, 1])), launch((-1, [0])))
print(launch((6, [1]), (4, [1, 1, 1])))
"""
    )
    done = raw(text, environment)
    assert done.stdout.splitlines() == [
        str([0] * len(PERMISSIONS)),
        str([801] * len(DEMANDS)),
        "0 912 801",
        "0",
    ], done.stderr
    lines = [
        f"{one} is not supported (CUDA_ERROR_NOT_SUPPORTED)" for one in DEMANDS.values() if one
    ]
    cluster = (
        "cuLaunchKernelEx, kernel smear: 5 blocks of the grid in x are not a multiple of the"
        " cluster's 2 (CUDA error 912)"
    )
    assert sorted(lines_of(done)) == sorted([*lines, cluster])
