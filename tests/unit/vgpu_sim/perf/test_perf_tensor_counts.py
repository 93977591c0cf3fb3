"""Counts of products in tensor memory and of its traffic, of kernels with known counts."""

import struct

import pytest

from support.kernels.tensor_memory import THREADS, source
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec.interp import BufferMemory
from vgpu_sim.hal.compute.ports import Launch
from vgpu_sim.perf.kernels.chip import chip_of
from vgpu_sim.perf.kernels.counts import Counts
from vgpu_sim.worker.modelling.sampler import Place, predict_counts

BASE, GRID, ROWS, COLUMNS = 1 << 33, 6, 128, 16
LEGAL = 1 << 4 | COLUMNS >> 3 << 17
SMALL = 1 << 46 | 8 << 16 | 8 << 32  # a descriptor
LOADED = 4 * THREADS * 2  # two columns of all lanes, by ld


def _counts(statement: str, idesc: int, blocks: int = 1) -> Counts:
    body = f"""
      setp.eq.u32 %w0, %rank, 0; and.pred %first, %first, %w0;
      @%first {statement} {"barrier.cluster.arrive; barrier.cluster.wait;" * (blocks > 1)}
      bar.sync 0;
      tcgen05.ld.sync.aligned.32x32b.x2.b32 {{%r1, %r2}}, [%own];
      st.global.b32 [%out], %r1;
    """
    module = compile_ptx(source(body, blocks=blocks), capability=(10, 0))
    words = struct.pack("<5Q", BASE, SMALL, SMALL, idesc, 0)
    launch = Launch("k", (GRID, 1, 1), (THREADS, 1, 1), words, 0)
    memory = BufferMemory(BASE, bytearray(1 << 12))
    place = Place(0, 148, [(BASE, BASE + (1 << 12))])
    return predict_counts(chip_of("b200"), module, module.functions[0], launch, place, memory)


@pytest.mark.parametrize(
    ("kind", "types", "depth", "field"),
    [
        ("f16", 0, 16, "tensor_fp16"),
        ("f16", 1 << 7 | 1 << 10, 16, "tensor_bf16"),
        ("tf32", 2 << 7 | 2 << 10, 8, "tensor_tf32"),
        ("f8f6f4", 0, 32, "tensor_int8"),
    ],
)
def test_a_product_counts_operations_and_bytes(
    kind: str, types: int, depth: int, field: str
) -> None:
    statement = f"tcgen05.mma.cta_group::1.kind::{kind} [%d], %x1, %x2, %idesc, %p;"
    found = _counts(statement, LEGAL | types | ROWS >> 4 << 24)
    assert getattr(found, field) == found.flop == 2 * ROWS * COLUMNS * depth
    assert found.tensor_operations == found.flop
    assert found.tensor_memory_bytes == 2 * 4 * ROWS * COLUMNS + LOADED


def test_a_product_that_does_not_add_reads_no_sums() -> None:
    statement = "tcgen05.mma.cta_group::1.kind::f16 [%d], %x1, %x2, %idesc, !%p;"
    found = _counts(statement, LEGAL | ROWS >> 4 << 24)
    assert found.tensor_memory_bytes == 4 * ROWS * COLUMNS + LOADED


def test_a_product_of_two_blocks_is_counted_once() -> None:
    statement = "tcgen05.mma.cta_group::2.kind::f16 [%d], %x1, %x2, %idesc, %p;"
    found = _counts(statement, LEGAL | 2 * ROWS >> 4 << 24, 2)
    assert found.tensor_fp16 == 2 * ROWS * COLUMNS * 16  # a block's share
    assert found.tensor_memory_bytes == 2 * 4 * ROWS * COLUMNS + LOADED
