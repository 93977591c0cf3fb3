"""Maps the kernels of each file to the cases that check them."""

from collections.abc import Callable
from typing import Final

from support.programs.client_kernels import matrices, meeting, scalar
from support.programs.client_kernels.gpu import Program

CASES: Final[dict[str, dict[str, Callable[[Program], None]]]] = {
    "01_vecadd": {
        "vecadd": scalar.vecadd,
        "vecadd4": scalar.vecadd4,
        "saxpy": scalar.saxpy,
        "dmath": scalar.dmath,
    },
    "02_sgemm": {"sgemm16": meeting.sgemm16, "sgemm_reg": meeting.sgemm_registers},
    "03_wmma": {
        "wmma_h": matrices.halves,
        "wmma_b": matrices.brains,
        "wmma_s8": matrices.integers,
        "wmma_tf32": matrices.singles,
    },
    "05_tma_mbarrier": {"cbar": meeting.arrive_and_wait},
    "06_reduce_scan": {
        "reduce": meeting.reduce,
        "scan": meeting.scan,
        "blockmax": meeting.blockmax,
    },
    "07_cub_scan_sort": {"cubscan": meeting.block_scan, "cubsort": meeting.block_sort},
    "08_histogram_atomics": {
        "hist": meeting.histogram,
        "atoms": meeting.atoms,
        "catom": meeting.ordered_atomics,
    },
    "09_spmv_stencil": {"spmv": meeting.spmv, "stencil": meeting.stencil},
    "10_bitonic_mandel_nbody": {
        "bitonic": meeting.bitonic,
        "mandel": scalar.mandel,
        "nbody": meeting.nbody,
    },
    "11_fft": {"fft": meeting.fft, "cmul": scalar.cmul},
    "13_philox_rng": {"rng": scalar.rng, "xorshift": scalar.xorshift},
    "14_cdp2": {"_Z5childPii": scalar.child, "parent": scalar.parent},
    "15_coop_groups": {"gridsync": meeting.grid_sync, "tiles": meeting.tiles},
    "16_printf_assert": {
        "indirect": meeting.calls,
        "heap": meeting.heap,
        "hello": meeting.hello,
    },
    "18_fp8_fp4": {"fp8": scalar.narrow_floats, "fp4": scalar.smallest_floats},
    "20_cluster_dsmem": {"dummy": scalar.one_store, "pdl": scalar.after_other_grids},
    "24_globals_managed_rdc": {
        "lam": scalar.lam,
        "tk": scalar.typed_stores,
        "bigp": scalar.structures_and_variables,
    },
}
