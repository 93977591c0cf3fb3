"""A kernel that brings pieces of 16 KiB of an array to shared memory by TMA, one after the other.

It stores one word of each piece, so that the copies can be checked.
"""

PIECE_BYTES, LINE_BYTES = 16 << 10, 128
LINES = PIECE_BYTES // LINE_BYTES


def source(tensor: bool) -> str:
    """Return PTX with the kernel ``copy``: the array or its map, words, pieces of a block."""
    first_parameter = ".param .align 64 .b8 pa[128]" if tensor else ".param .u64 pa"
    start = (
        "mov.b64 %a, pa; cvta.param.u64 %a, %a;"
        if tensor
        else f"ld.param.u64 %a, [pa]; mul.wide.u32 %o, %piece, {PIECE_BYTES}; add.u64 %a, %a, %o;"
    )
    copy = (
        f"""mul.lo.u32 %x, %piece, {LINES};
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [data], [%a, {{0, %x}}], [bar];"""
        if tensor
        else f"""cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
    [data], [%a], {PIECE_BYTES}, [bar]; add.u64 %a, %a, {PIECE_BYTES};"""
    )
    return f""".version 8.5
.target sm_90a
.address_size 64
.visible .entry copy({first_parameter}, .param .u64 pw, .param .u32 pn)
{{
  .shared .align 1024 .b8 data[{PIECE_BYTES}];
  .shared .align 8 .b64 bar;
  .reg .b32 %t, %n, %i, %x, %piece, %phase, %v;
  .reg .b64 %a, %w, %o;
  .reg .pred %p;
  ld.param.u64 %w, [pw]; ld.param.u32 %n, [pn];
  mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p ret;
  mov.u32 %piece, %ctaid.x; mul.lo.u32 %piece, %piece, %n;
  mul.wide.u32 %o, %piece, 4; add.u64 %w, %w, %o;
  {start}
  mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
  mov.u32 %phase, 0; mov.u32 %i, 0;
PIECE:
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], {PIECE_BYTES};
  {copy}
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p, [bar], %phase; @!%p bra WAIT;
  xor.b32 %phase, %phase, 1;
  ld.shared.u32 %v, [data+{PIECE_BYTES - LINE_BYTES}];
  st.global.u32 [%w], %v;
  add.u64 %w, %w, 4; add.u32 %piece, %piece, 1;
  add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra PIECE;
  ret;
}}
"""
