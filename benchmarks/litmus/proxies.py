"""Litmus tests of the async proxy: a plain store, then a bulk copy or ``wgmma`` that reads it.

Both are of one block. PTX forbids that the reading instruction sees the value before the store if
``fence.proxy.async`` is between them, and permits it otherwise.
"""

from dataclasses import dataclass

THREADS = 128
FENCED, PLAIN = "fence.proxy.async", "no fence"
# A's 64 rows of 32 bytes are ones, B's 8 columns of 32 bytes are the value; without a swizzle, with
# 128 bytes between pieces along K and 256 between pieces along M and N.
_A_BYTES, _B_BYTES = 2048, 256
_DESCRIPTOR = (128 >> 4) << 16 | (256 >> 4) << 32


@dataclass(frozen=True, slots=True)
class Reader:
    """An instruction of the async proxy: PTX that makes %v from the stored value %x in run %i."""

    name: str
    setup: str
    store: str
    fence: str
    read: str
    factor: int = 1  # %v / %x


READERS = (
    Reader(
        "cp.async.bulk from shared memory",
        "",
        "st.shared.u32 [data], %x;",
        "fence.proxy.async.shared::cta;",
        """
        @!%first bra PAST;
        cp.async.bulk.global.shared::cta.bulk_group [%scratch], [data], 16;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
PAST:   bar.sync 0;
        ld.global.u32 %v, [%scratch];""",
    ),
    Reader(
        "cp.async.bulk from global memory",
        "mbarrier.init.shared.b64 [bar], 1; mov.u32 %phase, 0;",
        "st.global.u32 [%scratch], %x;",
        "fence.proxy.async.global;",
        """
        @!%first bra PAST;
        mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
          [data], [%scratch], 16, [bar];
PAST:   mbarrier.try_wait.parity.shared.b64 %p, [bar], %phase; @!%p bra PAST;
        xor.b32 %phase, %phase, 1;
        ld.shared.u32 %v, [data];
        bar.sync 0;""",
    ),
    Reader(
        "wgmma from shared memory",
        "mov.u32 %w, %tid.x; mul.lo.u32 %w, %w, 16; mov.u32 %t, data; add.u32 %t, %t, %w;"
        "mov.u32 %w, 0x01010101; st.shared.v4.b32 [%t], {%w, %w, %w, %w};",
        f"""
        mov.u32 %w, %tid.x; shl.b32 %w, %w, 1; mov.u32 %t, data; add.u32 %t, %t, %w;
        shl.b32 %w, %x, 8; or.b32 %w, %w, %x; st.shared.u16 [%t+{_A_BYTES}], %w;""",
        "fence.proxy.async.shared::cta;",
        f"""
        bar.sync 0;
        mov.u32 %t, data; and.b32 %t, %t, 0x3ffff; shr.u32 %t, %t, 4; cvt.u64.u32 %da, %t;
        or.b64 %da, %da, {_DESCRIPTOR:#x}; add.u64 %db, %da, {_A_BYTES >> 4};
        wgmma.fence.sync.aligned;
        setp.ne.u32 %p, 0, 0;
        wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {{%v, %e1, %e2, %e3}}, %da, %db, %p;
        wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
        bar.sync 0;""",
        factor=32,
    ),
)


def source(reader: Reader, fenced: bool) -> str:
    """Return PTX with the kernel ``k``: results, a scratch buffer, the number of runs."""
    return f""".version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pr, .param .u64 ps, .param .u32 pn)
{{
  .shared .align 128 .b8 data[{_A_BYTES + _B_BYTES}];
  .shared .align 8 .b64 bar;
  .reg .b32 %t, %w, %n, %i, %x, %v, %e<4>, %phase;
  .reg .b64 %result, %scratch, %da, %db;
  .reg .pred %p, %first;
  ld.param.u64 %result, [pr]; ld.param.u64 %scratch, [ps]; ld.param.u32 %n, [pn];
  mov.u32 %t, %tid.x; setp.eq.u32 %first, %t, 0;
  @!%first bra READY;
  {"" if reader.factor > 1 else reader.setup}
READY:
  {reader.setup if reader.factor > 1 else ""}
  bar.sync 0;
  mov.u32 %i, 0;
RUN:
  and.b32 %x, %i, 63; add.u32 %x, %x, 1;
  {"" if reader.factor > 1 else "@%first"} bra STORE;
  bra STORED;
STORE:
  {reader.store}
STORED:
  {reader.fence if fenced else ""}
  {reader.read}
  @%first st.global.u32 [%result], %v;
  add.u64 %result, %result, 4; add.u32 %i, %i, 1;
  setp.lt.u32 %p, %i, %n; @%p bra RUN;
  ret;
}}
"""
