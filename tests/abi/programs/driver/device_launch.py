"""Kernels that launch kernels: ``device_launch.py SCENARIO``, which prints what it finds as JSON."""

import ctypes
import json
import sys
from collections.abc import Callable

import numpy as np
from cuda.bindings import driver

from support.execution.raising import Raising, Refused

cuda = Raising(driver)
PENDING = driver.CUlimit.CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT
FEW = 8  # pending launches, so that the limit is reached soon
TAIL, FIRE_AND_FORGET = 3, 4
HEAD = """.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b64 buffer) __cudaCDP2GetParameterBufferV2(.param .b64 function,
  .param .align 4 .b8 grid[12], .param .align 4 .b8 block[12], .param .b32 shared);
.extern .func (.param .b32 status) __cudaCDP2LaunchDeviceV2(.param .b64 buffer, .param .b64 stream);
.extern .func (.param .b32 status) __cudaCDP2GetLastError();
.extern .func (.param .b32 status) __cudaCDP2PeekAtLastError();
.extern .func (.param .b32 status) __cudaCDP2StreamCreateWithFlags(.param .b64 p, .param .b32 f);
.extern .func (.param .b32 status) __cudaCDP2StreamDestroy(.param .b64 stream);
.extern .func (.param .b32 status) __cudaCDP2MemcpyAsync_ptsz(.param .b64 to, .param .b64 from,
  .param .b64 bytes, .param .b32 kind, .param .b64 stream);
.extern .func (.param .b32 status) cudaMemsetAsync(.param .b64 to, .param .b32 value,
  .param .b64 bytes, .param .b64 stream);
.extern .func (.param .b64 buffer) cudaGetParameterBuffer(.param .b64 a, .param .b64 bytes);
.extern .func (.param .b32 status) cudaLaunchDevice(.param .b64 function, .param .b64 buffer,
  .param .align 4 .b8 grid[12], .param .align 4 .b8 block[12], .param .b32 shared,
  .param .b64 stream);
"""


def call(function: str, result: str, *arguments: str) -> str:
    """Return PTX of a call; an argument is ``TYPE VALUE``, or three sizes with commas."""
    names: list[str] = []
    lines = [f".param .b{64 if result.startswith('%d') else 32} out;"]
    for i, argument in enumerate(arguments):
        kind, values = argument.split(" ", 1)
        names.append(f"a{i}")
        if kind == "dim3":
            lines.append(f".param .align 4 .b8 a{i}[12];")
            lines += [f"st.param.b32 [a{i}+{4 * j}], {v};" for j, v in enumerate(values.split(","))]
        else:
            lines += [f".param .{kind} a{i};", f"st.param.{kind} [a{i}], {values};"]
    lines.append(f"call.uni (out), {function}, ({', '.join(names)});")
    lines.append(f"ld.param.b{64 if result.startswith('%d') else 32} {result}, [out];")
    return "{\n" + "\n".join(lines) + "\n}\n"


def launch(kernel: str, *values: str, grid: str = "1,1,1", block: str = "1,1,1",
           stream: str = "0") -> str:  # fmt: skip
    """Return PTX that launches a kernel with 64-bit parameters, if it gets a buffer (%d20), and
    leaves the status in %r20.
    """
    stores = [f"@%p9 st.b64 [%d20+{8 * i}], {value};" for i, value in enumerate(values)]
    return (
        f"mov.u64 %d21, {kernel};\n"
        + call("__cudaCDP2GetParameterBufferV2", "%d20", "b64 %d21", f"dim3 {grid}",
               f"dim3 {block}", "b32 0")
        + "setp.ne.b64 %p9, %d20, 0;\n"
        + "\n".join(stores)
        + "\n"
        + call("__cudaCDP2LaunchDeviceV2", "%r20", "b64 %d20", f"b64 {stream}")
    )  # fmt: skip


def kernel(name: str, body: str, parameters: int = 2) -> str:
    """Return a kernel with 64-bit parameters in %d1, %d2 ..."""
    declared = ", ".join(f".param .b64 p{i}" for i in range(1, parameters + 1))
    loads = "".join(f"ld.param.b64 %d{i}, [p{i}];\n" for i in range(1, parameters + 1))
    registers = ".reg .pred %p<10>;\n.reg .b32 %r<24>;\n.reg .b64 %d<24>;\n.local .b64 place;\n"
    return f".visible .entry {name}({declared})\n{{\n{registers}{loads}{body}ret;\n}}\n"


# note(log, value): append a value to a list, whose first word is its length.
NOTE = kernel("note", """
atom.add.u32 %r1, [%d1], 1;
cvt.u32.u64 %r2, %d2;
mul.wide.u32 %d3, %r1, 4;
add.u64 %d3, %d3, %d1;
st.b32 [%d3+4], %r2;
""")  # fmt: skip


def load(source: str, limit: int | None = None) -> driver.CUmodule:
    """Make a context with a module."""
    cuda.cuInit(0)
    context = cuda.cuDevicePrimaryCtxRetain(0)
    cuda.cuCtxSetCurrent(context)
    if limit is not None:
        cuda.cuCtxSetLimit(PENDING, limit)
    return cuda.cuModuleLoadData((HEAD + source).encode() + b"\0")


def start(source: str, limit: int | None = None) -> Callable[..., None]:
    """Make a context with a module; return a function that launches one of its kernels."""
    return launcher(load(source, limit))


def launcher(module: driver.CUmodule) -> Callable[..., None]:
    """Return a function that launches a kernel of a module."""

    def run(name: str, *values: int, grid: int = 1, block: int = 1) -> None:
        function = cuda.cuModuleGetFunction(module, name.encode())
        given = tuple(int(value) for value in values), (ctypes.c_uint64,) * len(values)
        cuda.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, 0, given, 0)

    return run


def words(count: int) -> int:
    pointer = int(cuda.cuMemAlloc(4 * count))
    cuda.cuMemsetD32(pointer, 0, count)
    return pointer


def read(pointer: int, count: int) -> list[int]:
    found = np.zeros(count, np.uint32)
    cuda.cuMemcpyDtoH(found, pointer, found.nbytes)  # waits for the legacy stream
    return [int(one) for one in found]


def order() -> list[int]:
    """The order of children: the tail stream's last, and each with its own children."""
    parent = kernel("parent", launch("note", "%d1", "90", stream=str(TAIL))
                    + launch("middle", "%d1", "10") + launch("note", "%d1", "20")
                    + launch("note", "%d1", "30", stream=str(FIRE_AND_FORGET)))  # fmt: skip
    middle = kernel("middle", launch("note", "%d1", "12", stream=str(TAIL))
                    + launch("note", "%d1", "11"))  # fmt: skip
    run = start(NOTE + middle + parent)
    log = words(16)
    run("parent", log, 0)
    run("note", log, 100)  # the next request of the stream
    return read(log, 8)


def widths() -> list[int]:
    """Every thread of a grid launches a grid with its own parameters, by both versions."""
    body = """
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r1, %r2, 4, %r1;
mul.wide.u32 %d3, %r1, 32;
add.u64 %d3, %d1, %d3;
cvt.u64.u32 %d4, %r1;
"""
    older = call("cudaGetParameterBuffer", "%d5", "b64 64", "b64 16")
    older += "st.b64 [%d5], %d6;\nst.b64 [%d5+8], %d4;\nmov.u64 %d7, fill;\n"
    older += call("cudaLaunchDevice", "%r3", "b64 %d7", "b64 %d5", "dim3 1,1,1", "dim3 4,1,1",
                  "b32 0", "b64 0")  # fmt: skip
    fill = kernel("fill", """
mov.u32 %r1, %tid.x;
mul.wide.u32 %d3, %r1, 4;
add.u64 %d3, %d1, %d3;
cvt.u32.u64 %r2, %d2;
mad.lo.u32 %r2, %r2, 100, %r1;
st.b32 [%d3], %r2;
""")  # fmt: skip
    parent = kernel("parent", body + launch("fill", "%d3", "%d4", block="4,1,1")
                    + "add.u64 %d6, %d3, 16;\n" + older)  # fmt: skip
    run = start(fill + parent)
    out = words(64)
    run("parent", out, 0, grid=2, block=4)
    return read(out, 64)


def depth() -> list[int]:
    """Return how many grids ran, and the error of the launch that was too deep."""
    errors = call("__cudaCDP2PeekAtLastError", "%r1") + call("__cudaCDP2GetLastError", "%r2")
    errors += call("__cudaCDP2GetLastError", "%r3") + "atom.max.u32 %r5, [%d1+4], %r1;\n"
    errors += "atom.max.u32 %r5, [%d1+8], %r2;\natom.max.u32 %r5, [%d1+12], %r3;\n"
    errors += "atom.max.u32 %r5, [%d1+16], %r20;\n"
    deep = kernel("deep", "atom.add.u32 %r4, [%d1], 1;\n" + launch("deep", "%d1", "0") + errors)
    run = start(deep)
    out = words(5)
    run("deep", out, 0)
    return read(out, 5)


def chain() -> list[int]:
    """A grid may replace itself by the tail stream as often as it likes."""
    again = kernel("again", "atom.add.u32 %r4, [%d1], 1;\nsub.u64 %d3, %d2, 1;\n"
                   "setp.eq.u64 %p1, %d2, 0;\n@%p1 ret;\n"
                   + launch("again", "%d1", "%d3", stream=str(TAIL)))  # fmt: skip
    run = start(again)
    out = words(1)
    run("again", out, 60)
    return read(out, 1)


def pending() -> list[int]:
    """Launch one grid more than can be pending: the count that ran, and the errors."""
    last = call("__cudaCDP2GetLastError", "%r1") + "atom.max.u32 %r5, [%d1+4], %r1;\n"
    count = kernel("count", "atom.add.u32 %r1, [%d1], 1;\n")
    parent = kernel("parent", launch("count", "%d1", "0") + last)
    run = start(count + parent, FEW)
    assert int(cuda.cuCtxGetLimit(PENDING)) == FEW
    assert cuda._bindings.cuCtxSetLimit(PENDING, FEW + 1)[0] == 1  # it is in use
    out = words(2)
    run("parent", out, 0, block=FEW + 3)
    run("parent", out, 0, block=FEW)  # the buffer was emptied
    return read(out, 2)


def sizes() -> list[int]:
    """Launches with sizes that no grid can have, and to a stream that does not exist."""
    body = ""
    for i, (grid, block, stream) in enumerate(
        (("0,1,1", "1,1,1", "0"), ("1,65536,1", "1,1,1", "0"), ("1,1,1", "1025,1,1", "0"),
         ("1,1,1", "64,32,1", "0"), ("1,1,1", "1,1,65", "0"), ("1,1,1", "1,1,1", "77"))
    ):  # fmt: skip
        body += launch("note", "%d1", "1", grid=grid, block=block, stream=stream)
        body += call("__cudaCDP2GetLastError", "%r1") + f"st.b32 [%d2+{4 * i}], %r1;\n"
    run = start(NOTE + kernel("parent", body))
    log, out = words(4), words(6)
    run("parent", log, out)
    return [*read(out, 6), *read(log, 1)]


def copies() -> list[int]:
    """Copies and fills in a stream of the grid's own, between launches."""
    place = "cvta.local.u64 %d9, %d9;\n"
    body = "mov.u64 %d9, place;\n" + place
    body += call("__cudaCDP2StreamCreateWithFlags", "%r1", "b64 %d9", "b32 1")
    body += "ld.b64 %d3, [%d9];\nst.b32 [%d2+16], %r1;\n"
    body += launch("note", "%d1", "7", stream="%d3")
    body += call("__cudaCDP2MemcpyAsync_ptsz", "%r2", "b64 %d2", "b64 %d1", "b64 8", "b32 3",
                 "b64 %d3")  # fmt: skip
    body += "add.u64 %d4, %d2, 8;\n"
    body += call("cudaMemsetAsync", "%r3", "b64 %d4", "b32 0x1ab", "b64 6", "b64 %d3")
    body += call("__cudaCDP2StreamDestroy", "%r4", "b64 %d3")
    body += call("__cudaCDP2StreamCreateWithFlags", "%r5", "b64 %d9", "b32 0")
    body += call("__cudaCDP2MemcpyAsync_ptsz", "%r6", "b64 %d9", "b64 %d1", "b64 8", "b32 3",
                 "b64 0")  # fmt: skip
    body += "".join(f"st.b32 [%d2+{16 + 4 * i}], %r{i};\n" for i in range(2, 7))
    run = start(NOTE + kernel("parent", body))
    log, out = words(4), words(11)
    run("parent", log, out)
    return read(out, 11)


def hostile() -> list[int]:
    """Overwrite a word of the launch buffer after a launch: the CUresult of each case."""
    return [_overwrite(offset, value) for offset, value in json.loads(sys.argv[2])]


def _overwrite(offset: int, value: int) -> int:
    body = launch("note", "%d1", "7") + f"st.b32 [%d20+{offset - 64}], {value};\n"
    run = start(NOTE + kernel("parent", body), FEW)
    log = words(16)
    try:
        run("parent", log, 0)
        return 1000 + read(log, 2)[1]
    except Refused as err:
        return err.code
    finally:
        driver.cuDevicePrimaryCtxReset(0)


def fault() -> int:
    """A grid whose child writes to a bad address."""
    run = start(
        kernel("bad", "st.global.b32 [%d1], 5;\n") + kernel("parent", launch("bad", "0x10", "0"))
    )
    try:
        run("parent", 0, 0)
        cuda.cuCtxSynchronize()
    except Refused as err:
        return err.code
    return 0


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
