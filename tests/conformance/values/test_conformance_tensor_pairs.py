"""tcgen05 of two blocks: allocation, copies, shifts, commits, and what ends the kernel."""

from contextlib import closing

import numpy as np
import pytest

from support.execution.interpreted_ptx import compile_verified
from support.kernels.tensor_memory import (
    THREADS,
    Runs,
    check_hostile_words,
    end_well,
    module_of,
    source,
)

_MMA = "tcgen05.mma.cta_group::2.kind::f16 [%d], %x1, %x2, %idesc, %p;"
_LEGAL = 1 << 4 | 4 << 17 | 16 << 24  # 256 x 32 x 16, f16 to f32
_DESCRIPTOR = 1 << 46 | 8 << 16 | 8 << 32
_ALLOC = "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%s],"
_DEALLOC = "tcgen05.dealloc.cta_group::2.sync.aligned.b32"
_MEET = "barrier.cluster.arrive; barrier.cluster.wait;"
_ISSUES = "setp.eq.u32 %p, %rank, 1; and.pred %p, %p, %first;"  # one thread of the odd block


def _list(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{n}" for n in range(first, first + count)) + "}"


def _own_part(bytes_each: int) -> str:
    """Return PTX that moves %out to the thread's part of the buffer."""
    return f"mad.lo.u32 %s, %rank, {THREADS}, %i; mad.wide.u32 %out, %s, {bytes_each}, %out;"


def _results(body: str, size: int, *words: int) -> list[np.ndarray]:
    with closing(Runs(module_of(body, blocks=2), size, 2)) as runs:
        found = [runs.interpret(*words), runs.execute(*words)]
    assert all(one is not None for one in found)
    return [one for one in found if one is not None]


def test_both_blocks_get_the_same_columns() -> None:
    """Two warps of each block allocate in other orders, and one frees columns before."""
    body = f"""
      mov.u32 %s, bar; setp.eq.u32 %p, %warp, 1; @%p add.u32 %s, %s, 4;
      mov.u32 %r0, %rank; setp.eq.u32 %first, %r0, 1; @%first nanosleep.u32 1000;
      @%w0 {_DEALLOC} %ta, 64;
      @%w0 {_ALLOC} 128;
      {_MEET}
      @%p {_ALLOC} 256;
      {_MEET}
      {_own_part(8)} mov.u32 %s, bar;
      ld.shared.v2.b32 {_list(1, 2)}, [%s]; st.global.v2.b32 [%out], {_list(1, 2)};
    """
    for found in _results(body, 16 * THREADS):
        (columns,) = np.unique(found.reshape(-1, 2), axis=0)
        assert set(columns) <= {0, 128, 256, 384}
        assert abs(int(columns[1]) - int(columns[0])) >= 128


def test_an_allocation_waits_for_both_blocks() -> None:
    """All columns are free only when both blocks have freed theirs."""
    body = f"""
      mov.u32 %r0, %rank; setp.eq.u32 %p, %warp, 1; mov.u32 %s, bar;
      @%p {_ALLOC} 512;
      setp.eq.u32 %first, %r0, 1; @%first nanosleep.u32 2000;
      @%w0 {_DEALLOC} %ta, 64;
      bar.sync 0; {_own_part(4)} st.global.b32 [%out], 5;
    """
    for found in _results(body, 8 * THREADS):
        np.testing.assert_array_equal(found, 5)


def test_a_copy_in_each_block_from_its_own_memory() -> None:
    body = f"""
      mov.u32 %r9, tile; mad.lo.u32 %s, %i, 4, %r9; mad.lo.u32 %r0, %rank, 1000, %i;
      st.shared.b32 [%s], %r0; {_MEET} {_ISSUES}
      @%p tcgen05.cp.cta_group::2.warpx4.32x128b [%ta], %x1;
      {_MEET}
      tcgen05.ld.sync.aligned.32x32b.x4.b32 {_list(16, 4)}, [%own];
      {_own_part(16)} st.global.v4.b32 [%out], {_list(16, 4)};
    """
    lane, rank = np.arange(THREADS)[None, :, None] % 32, np.arange(2)[:, None, None]
    expected = 1000 * rank + 4 * lane + np.arange(4)
    for found in _results(body, 32 * THREADS, 1 << 46 | 8 << 32 | 4 << 16):
        np.testing.assert_array_equal(found.reshape(expected.shape), expected)


def test_a_shift_in_both_blocks() -> None:
    body = f"""
      mad.lo.u32 %r0, %rank, 1000, %i;
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%own], {{%r0}};
      tcgen05.wait::st.sync.aligned; {_MEET} {_ISSUES}
      @%p tcgen05.shift.cta_group::2.down [%ta];
      {_MEET}
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r1}}, [%own];
      {_own_part(4)} st.global.b32 [%out], %r1;
    """
    lane, rank = np.arange(THREADS)[None, :], np.arange(2)[:, None]
    expected = 1000 * rank + np.where((lane > 0) & (lane < 32), lane - 1, lane)
    for found in _results(body, 8 * THREADS):
        np.testing.assert_array_equal(found.reshape(2, THREADS), expected)


@pytest.mark.parametrize(
    ("words", "ends_well"),
    [
        ((_DESCRIPTOR, _DESCRIPTOR, _LEGAL, 0), True),
        ((_DESCRIPTOR, _DESCRIPTOR, _LEGAL - (8 << 24), 0), True),  # 128 rows
        ((_DESCRIPTOR, _DESCRIPTOR, _LEGAL - (12 << 24), 0), False),  # 64 rows
        ((_DESCRIPTOR, _DESCRIPTOR, _LEGAL | 1 << 17, 0), False),  # 40 columns
        ((_DESCRIPTOR, _DESCRIPTOR, _LEGAL, 33), False),  # columns 33 to 64
        ((_DESCRIPTOR, _DESCRIPTOR, _LEGAL - (8 << 24), 48), True),  # 16 columns of 128 rows
        ((_DESCRIPTOR, _DESCRIPTOR, _LEGAL, 0x100000), False),  # lane 16
        ((_DESCRIPTOR | 0x3FFF, _DESCRIPTOR, _LEGAL, 0), False),  # outside shared memory
        ((_DESCRIPTOR, _DESCRIPTOR | 0x3FFF << 32, _LEGAL, 0), False),
    ],
)
def test_descriptors_that_end_the_kernel(words: tuple[int, ...], ends_well: bool) -> None:
    body = f"mov.pred %w0, %first; {_MEET} setp.eq.u32 %p, %i, %i; @%first {_MMA}"
    assert end_well(module_of(body, blocks=2), words, 2) == [ends_well] * 2


def test_hostile_descriptors_end_only_the_kernel() -> None:
    """TESSERA_HOSTILE_TENSORS sets how many."""
    module = module_of(f"@%first {_MMA}", blocks=2)
    check_hostile_words(module, _DESCRIPTOR, _LEGAL, seed=12, count=160, blocks=2)


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_block_without_a_partner_ends_the_kernel(blocks: int) -> None:
    """The only block, or the last one of an odd number."""
    text = source("", blocks=2).replace("cluster 2", f"cluster {blocks}")
    with closing(Runs(compile_verified(text, (10, 0)), 64, blocks)) as runs:
        assert runs.interpret() is None
        assert runs.execute() is None


def test_a_product_after_the_other_block_has_freed_columns_ends_the_kernel() -> None:
    body = f"""
      setp.eq.u32 %p, %rank, 0; and.pred %p, %p, %w0;
      @%p {_DEALLOC} %ta, 64;
      {_MEET} {_ISSUES}
      @%p {_MMA.replace("%p;", "1;")}
    """
    with closing(Runs(module_of(body, blocks=2), 64, 2)) as runs:
        words = (_DESCRIPTOR, _DESCRIPTOR, _LEGAL, 0)
        assert runs.interpret(*words) is None
        assert runs.execute(*words) is None
