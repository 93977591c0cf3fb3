"""Threads that synchronize, end to end: shared memory, barriers and polling through libcuda.

Kernels that wait by polling memory run only on the interpreter.
"""

import sys
import textwrap
from pathlib import Path

import pytest

from support.processes.tessera_run import EXAMPLES, run
from vgpu_sim.hal.compute import limits

_HEAD = """
    import sys
    from pathlib import Path
    import numpy as np
    from cuda.bindings import driver
    from cuda.core import Device

    def call(result):
        assert result[0] == driver.CUresult.CUDA_SUCCESS, result[0]
        return result[1] if len(result) > 1 else None

    Device(0).set_current()

    def load(source, name):
        return call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(source)), name))

    def upload(array):
        address = call(driver.cuMemAlloc(array.nbytes))
        call(driver.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))
        return np.array([int(address)], np.uint64)

    def download(address, like):
        result = np.empty_like(like)
        call(driver.cuMemcpyDtoH(result.ctypes.data, int(address[0]), like.nbytes))
        return result

    def launch(kernel, grid, block, arguments, shared=0):
        pointers = np.array([a.ctypes.data for a in arguments], dtype=np.uint64)
        return driver.cuLaunchKernel(
            kernel, *grid, *block, shared, 0, pointers.ctypes.data, 0
        )[0]
"""


def _program(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", textwrap.dedent(_HEAD) + textwrap.dedent(code)


_SGEMM = """
    n = 37
    random = np.random.default_rng(8)
    a, b = (random.standard_normal((n, n)).astype(np.float32) for _ in range(2))
    kernel = load(Path(sys.argv[1]).read_bytes(), b"tiled_sgemm")
    arguments = [upload(a), upload(b), upload(np.zeros_like(a)), np.array([n], np.uint32)]
    tiles = -(-n // 16)
    call((launch(kernel, (tiles, tiles, 1), (16, 16, 1), arguments),))
    call(driver.cuCtxSynchronize())
    want = np.zeros((n, n), np.float64)
    for k in range(n):  # as fma.rn rounds: each product and sum exact, then to a float
        want = (a[:, k : k + 1].astype(np.float64) * b[k] + want).astype(np.float32).astype(float)
    close = np.abs(download(arguments[2], a) - want).max()
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
    print(f"error {close:.0e}", "shared", call(driver.cuFuncGetAttribute(attribute, kernel)))
"""


@pytest.mark.parametrize("backend", ["interp", "jit"])
def test_a_tiled_sgemm_meets_at_barriers_in_a_loop(place: Path, backend: str) -> None:
    program = (*_program(_SGEMM), str(EXAMPLES / "tiled_sgemm.ptx"))
    done = run(place, *program, backend=backend)
    assert done.returncode == 0, done.stderr
    error, _, shared = done.stdout.removeprefix("error ").partition(" shared ")
    assert float(error) < 1e-5
    assert shared.strip() == "2048"


_TOKEN = """
    kernel = load(Path(sys.argv[1]).read_bytes(), b"hand_over")
    for grid, block in ((1, 32), (3, 48)):
        turn, total = upload(np.zeros(1, np.uint32)), upload(np.zeros(1, np.uint32))
        call((launch(kernel, (grid, 1, 1), (block, 1, 1), [turn, total]),))
        call(driver.cuCtxSynchronize())
        threads = grid * block
        assert download(turn, np.zeros(1, np.uint32)) == threads
        assert download(total, np.zeros(1, np.uint32)) == threads * (threads - 1) // 2
    print("handed over")
"""


def test_lanes_of_a_warp_hand_a_token_on(place: Path) -> None:
    program = (*_program(_TOKEN), str(EXAMPLES / "hand_over.ptx"))
    done = run(place, *program, backend="interp")
    assert done.stdout.strip() == "handed over", done.stderr


_REVERSE = """
    .version 8.5
    .target sm_80
    .address_size 64
    .extern .shared .align 4 .b32 all[];
    .shared .b32 own[16];
    .visible .entry reverse(.param .u64 out)
    {
        .reg .b64 %out;
        .reg .b32 %t, %last, %at, %x, %base;
        ld.param.u64 %out, [out];
        mov.u32 %t, %tid.x;
        st.shared.u32 [own], %t;
        mov.u32 %base, all;
        mad.lo.u32 %at, %t, 4, %base;
        st.shared.u32 [%at], %t;
        bar.sync 0;
        mov.u32 %last, %ntid.x;
        sub.u32 %last, %last, 1;
        sub.u32 %last, %last, %t;
        mad.lo.u32 %at, %last, 4, %base;
        ld.shared.u32 %x, [%at];
        mad.wide.u32 %out, %t, 4, %out;
        st.global.u32 [%out], %x;
        ret;
    }
"""

_DYNAMIC = f"""
    kernel = load({_REVERSE.encode()!r}, b"reverse")
    out = upload(np.zeros(64, np.uint32))
    limit = {limits.MAX_SHARED_BYTES_PER_BLOCK} - 64
    optin = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    most = call(driver.cuDeviceGetAttribute(optin, 0)) - 64
    names = driver.CUfunction_attribute
    dynamic = names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert call(driver.cuFuncGetAttribute(names.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel)) == 64
    assert call(driver.cuFuncGetAttribute(dynamic, kernel)) == limit
    invalid = driver.CUresult.CUDA_ERROR_INVALID_VALUE
    assert launch(kernel, (1, 1, 1), (64, 1, 1), [out], limit + 1) == invalid
    assert driver.cuFuncSetAttribute(kernel, dynamic, most + 1)[0] == invalid
    call(driver.cuFuncSetAttribute(kernel, dynamic, most))
    call((launch(kernel, (1, 1, 1), (64, 1, 1), [out], most),))
    call(driver.cuFuncSetAttribute(kernel, dynamic, 300))
    assert launch(kernel, (1, 1, 1), (64, 1, 1), [out], 301) == invalid
    call((launch(kernel, (1, 1, 1), (64, 1, 1), [out], 256),))
    call(driver.cuCtxSynchronize())
    assert (download(out, np.zeros(64, np.uint32)) == np.arange(64)[::-1]).all()
    call((launch(kernel, (1, 1, 1), (64, 1, 1), [out], 252),))
    print(driver.cuCtxSynchronize()[0].name)
"""


def test_a_launch_gets_the_shared_memory_it_requests_and_no_more(place: Path) -> None:
    done = run(place, *_program(_DYNAMIC), backend="interp")
    assert done.stdout.strip() == "CUDA_ERROR_ILLEGAL_ADDRESS", done.stderr
    assert "illegal address: ST.SHARED.U32" in done.stderr
    assert "at 0x13c, 1 byte past" in done.stderr


_STUCK = r"""
    .version 8.5
    .target sm_80
    .address_size 64
    .visible .entry stuck()
    {
        .reg .pred %p;
        .reg .b32 %t;
        mov.u32 %t, %tid.x;
        setp.lt.u32 %p, %t, 32;
        @%p bar.sync 1, 64;
        ret;
    }
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ("interp", "barrier 1 has 32 of 64 threads"),
        ("jit", "no thread of the block can make progress: @p0 BAR_SYNC"),
    ],
)
def test_a_block_that_waits_for_ever_ends_with_the_barriers_name(
    place: Path, backend: str, said: str
) -> None:
    code = f"""
        kernel = load({_STUCK.encode()!r}, b"stuck")
        call((launch(kernel, (1, 1, 1), (64, 1, 1), []),))
        print(driver.cuCtxSynchronize()[0].name)
    """
    done = run(place, *_program(code), backend=backend)
    assert done.stdout.strip() == "CUDA_ERROR_LAUNCH_FAILED", done.stderr
    assert said in done.stderr
