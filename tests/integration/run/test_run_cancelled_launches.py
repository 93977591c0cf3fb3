"""clusterlaunchcontrol in launches whose blocks several threads of a worker run."""

import sys
import textwrap

import pytest

from support.processes.tessera_run import run

BLOCKS, THREADS = 700, 64
KERNEL = """
.version 8.6
.target sm_100
.address_size 64
.visible .entry k(.param .u64 counts, .param .u64 owners)
{
  .reg .b32 %t, %k, %x, %own, %parity; .reg .b64 %o, %w, %g; .reg .pred %p, %q, %first; .reg .b128 %r;
  .shared .align 16 .b8 response[16]; .shared .b64 bar;
  ld.param.u64 %o, [counts]; ld.param.u64 %w, [owners]; mov.u32 %t, %tid.x;
  setp.eq.u32 %first, %t, 0; mov.u32 %x, %ctaid.x; mov.u32 %own, %x; mov.u32 %parity, 0;
  @%first mbarrier.init.shared.b64 [bar], 1;
  bar.sync 0;
WORK:
  mul.wide.u32 %g, %x, 4; add.u64 %g, %g, %o; red.global.add.u32 [%g], 1;
  mul.wide.u32 %g, %x, 4; add.u64 %g, %g, %w; @%first st.global.u32 [%g], %own;
  @%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
  @%first clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128
    [response], [bar];
again:
  mbarrier.try_wait.parity.shared.b64 %q, [bar], %parity; @!%q bra again;
  xor.b32 %parity, %parity, 1; ld.shared.b128 %r, [response]; bar.sync 0;
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p, %r;
  @%p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %x, %r;
  @%p bra WORK;
  ret;
}
"""


PROGRAM = """
    import ctypes, sys
    import numpy as np
    from cuda.bindings import driver
    from cuda.core import Device
    BLOCKS, THREADS = SIZES

    def call(result):
        assert result[0] == driver.CUresult.CUDA_SUCCESS, result[0]
        return result[1] if len(result) > 1 else None

    Device(0).set_current()
    counts, owners = (int(call(driver.cuMemAlloc(4 * BLOCKS))) for _ in range(2))
    call(driver.cuMemsetD32(counts, 0, BLOCKS))
    module = call(driver.cuModuleLoadData(open("kernel.ptx", "rb").read()))
    function = call(driver.cuModuleGetFunction(module, b"k"))
    pointers = [ctypes.c_uint64(counts), ctypes.c_uint64(owners)]
    parameters = (ctypes.c_void_p * 2)(*map(ctypes.addressof, pointers))
    launches = 5
    for _ in range(launches):
        call(driver.cuLaunchKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, 0, 0,
                                   ctypes.addressof(parameters), 0))
    found = np.zeros((2, BLOCKS), np.uint32)
    call(driver.cuMemcpyDtoH(found[0].ctypes.data, counts, 4 * BLOCKS))
    call(driver.cuMemcpyDtoH(found[1].ctypes.data, owners, 4 * BLOCKS))
    assert (found[0] == launches * THREADS).all(), "a block's work was not done exactly once"
    own = found[1] == np.arange(BLOCKS)
    assert own.any() and not own.all(), "no block was taken over"
    assert (found[1][found[1]] == found[1]).all(), "a block that was taken over has run"
    print("taken over", (~own).sum())
""".replace("SIZES", f"{BLOCKS}, {THREADS}")


@pytest.mark.parametrize("backend", ["jit", "interp"])
def test_each_block_runs_once(place, backend):
    (place / "kernel.ptx").write_text(KERNEL)
    done = run(
        place, sys.executable, "-c", textwrap.dedent(PROGRAM), board="b200", profile="1g.23gb",
        backend=backend,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "taken over" in done.stdout
