"""C = A B' by TMA and ``wgmma``: a plain kernel, and its warp-specialised twin.

A block computes 128 x 128 elements of C. Both factors are stored along K, which ``wgmma`` requires
of 8-bit elements; TMA copies pieces of 128 rows by 128 bytes into a ring, swizzled by 128 bytes. In
the plain kernel a thread of the two warpgroups that multiply also issues the copies; in its twin a
third warpgroup does only that.
"""

from dataclasses import dataclass

ROWS = COLUMNS = 128
LINE_BYTES = 128
STAGES = 4
_PIECE_BYTES = ROWS * LINE_BYTES
_STAGE_BYTES = 2 * _PIECE_BYTES
_BARRIERS_BYTES = 1024
SHARED_BYTES = _BARRIERS_BYTES + STAGES * _STAGE_BYTES
_EACH = 64  # registers of D of a thread: 64 rows and 128 columns by 128 threads
# A descriptor of rows of 128 bytes: 1,024 bytes between groups of eight, swizzled by 128 bytes.
_DESCRIPTOR = 1 << 62 | (1024 >> 4) << 32 | 1 << 16


@dataclass(frozen=True, slots=True)
class Type:
    """A type of factors: its name in PTX, bytes of an element, type of sums, and immediates."""

    name: str
    element_bytes: int
    sums: str
    immediates: str

    @property
    def depth(self) -> int:
        """Elements of K of a piece."""
        return LINE_BYTES // self.element_bytes


BF16 = Type("bf16", 2, "f32", ", 1, 1, 0, 0")
F16 = Type("f16", 2, "f32", ", 1, 1, 0, 0")
E4M3 = Type("e4m3", 1, "f32", ", 1, 1")
S8 = Type("s8", 1, "s32", "")


def threads(specialised: bool) -> int:
    """Return the threads of a block."""
    return 384 if specialised else 256


def source(kind: Type, specialised: bool) -> str:
    """Return PTX with the kernel ``product``: maps of A and B, C, its columns, pieces of K."""
    registers = ", ".join(f"%s{n}" for n in range(_EACH))
    step_bytes = 32
    spelling = f"m64n128k{step_bytes // kind.element_bytes}.{kind.sums}.{kind.name}.{kind.name}"
    multiply = "".join(
        f"""
  add.u64 %da, %a0, {step * step_bytes >> 4}; add.u64 %db, %b0, {step * step_bytes >> 4};
  wgmma.mma_async.sync.aligned.{spelling} {{{registers}}}, %da, %db, %yes{kind.immediates};"""
        for step in range(LINE_BYTES // step_bytes)
    )
    copies = f"""
  mbarrier.arrive.expect_tx.shared.b64 _, [%bar], {_STAGE_BYTES};
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [%to], [%ma, {{%k, %row}}], [%bar];
  add.u32 %to, %to, {_PIECE_BYTES};
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [%to], [%mb, {{%k, %column}}], [%bar];"""
    body = _specialised(kind, copies, multiply) if specialised else _plain(kind, copies, multiply)
    return f""".version 8.5
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 ring[];
.visible .entry product(.param .align 64 .b8 pa[128], .param .align 64 .b8 pb[128], .param .u64 pc,
  .param .u32 pn, .param .u32 pieces)
.maxntid {threads(specialised)}, 1, 1
{{
  .reg .b32 %s<{_EACH}>, %t, %lane, %warp, %group, %base, %to, %bar, %n, %k, %row, %column, %last;
  .reg .b32 %i, %ahead, %slot, %phase, %w, %x;
  .reg .b64 %ma, %mb, %c, %a0, %b0, %da, %db, %o;
  .reg .pred %p, %yes, %first;
  mov.b64 %ma, pa; mov.b64 %mb, pb; cvta.param.u64 %ma, %ma; cvta.param.u64 %mb, %mb;
  ld.param.u64 %c, [pc]; ld.param.u32 %n, [pn]; ld.param.u32 %last, [pieces];
  mov.u32 %t, %tid.x; mov.u32 %base, ring; setp.eq.u32 %first, %t, 0;
  mov.u32 %row, %ctaid.y; mul.lo.u32 %row, %row, {ROWS};
  mov.u32 %column, %ctaid.x; mul.lo.u32 %column, %column, {COLUMNS};
  @!%first bra READY;
  {_initialise(specialised)}
  fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;
READY:
  bar.sync 0;
  setp.eq.u32 %yes, 0, 0;
  {" ".join(f"mov.b32 %s{n}, 0;" for n in range(_EACH))}
{body}
{_store()}
DONE:
  ret;
}}
"""


def _initialise(specialised: bool) -> str:
    """Return PTX that prepares a full and an empty barrier for each stage."""
    text = ""
    for stage in range(STAGES):
        text += f"mbarrier.init.shared.b64 [%base+{8 * stage}], 1;"
        if specialised:
            text += f"mbarrier.init.shared.b64 [%base+{128 + 8 * stage}], 2;"
    return text


def _wait(offset: int, parity: str, label: str) -> str:
    return f"""
  shl.b32 %bar, %slot, 3; add.u32 %bar, %bar, %base;
{label}:
  mbarrier.try_wait.parity.shared.b64 %p, [%bar+{offset}], {parity};
  @!%p bra {label};"""


def _place(index: str, copies: str, depth: int) -> str:
    """Return PTX that copies the piece with this number into its slot of the ring."""
    return f"""
  and.b32 %slot, {index}, {STAGES - 1}; shl.b32 %bar, %slot, 3; add.u32 %bar, %bar, %base;
  mul.lo.u32 %to, %slot, {_STAGE_BYTES}; add.u32 %to, %to, %base;
  add.u32 %to, %to, {_BARRIERS_BYTES}; mul.lo.u32 %k, {index}, {depth};{copies}"""


def _compute(multiply: str) -> str:
    """Return PTX that multiplies the piece in %slot; %group is 0 or 1."""
    return f"""
  mul.lo.u32 %x, %slot, {_STAGE_BYTES}; add.u32 %x, %x, %base; add.u32 %x, %x, {_BARRIERS_BYTES};
  shr.u32 %w, %x, 4; and.b32 %w, %w, 0x3fff; mad.lo.u32 %w, %group, {64 * LINE_BYTES >> 4}, %w;
  cvt.u64.u32 %a0, %w; or.b64 %a0, %a0, {_DESCRIPTOR:#x};
  add.u32 %x, %x, {_PIECE_BYTES}; shr.u32 %w, %x, 4; and.b32 %w, %w, 0x3fff;
  cvt.u64.u32 %b0, %w; or.b64 %b0, %b0, {_DESCRIPTOR:#x};
  wgmma.fence.sync.aligned;{multiply}
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;"""


def _plain(kind: Type, copies: str, multiply: str) -> str:
    return f"""
  shr.u32 %group, %t, 7;
  mov.u32 %ahead, 0;
FILL:
  setp.ge.u32 %p, %ahead, {STAGES - 1}; @%p bra BEGIN;
  setp.ge.u32 %p, %ahead, %last; @%p bra BEGIN;
  @!%first bra FILLED;{_place("%ahead", copies, kind.depth)}
FILLED:
  add.u32 %ahead, %ahead, 1; bra FILL;
BEGIN:
  mov.u32 %i, 0;
PIECE:
  and.b32 %slot, %i, {STAGES - 1}; shr.u32 %phase, %i, {STAGES.bit_length() - 1};
  and.b32 %phase, %phase, 1;{_wait(0, "%phase", "FULL")}{_compute(multiply)}
  bar.sync 0;
  setp.ge.u32 %p, %ahead, %last; @%p bra COPIED;
  @!%first bra COPIED;{_place("%ahead", copies, kind.depth)}
COPIED:
  add.u32 %ahead, %ahead, 1;
  add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %last; @%p bra PIECE;"""


def _specialised(kind: Type, copies: str, multiply: str) -> str:
    return f"""
  shr.u32 %group, %t, 7;
  setp.eq.u32 %p, %group, 2; @!%p bra CONSUMER;
  setmaxnreg.dec.sync.aligned.u32 40;
  setp.ne.u32 %p, %t, 256; @%p bra DONE;
  mov.u32 %i, 0;
PRODUCE:
  and.b32 %slot, %i, {STAGES - 1}; shr.u32 %phase, %i, {STAGES.bit_length() - 1};
  and.b32 %phase, %phase, 1; xor.b32 %phase, %phase, 1;{_wait(128, "%phase", "EMPTY")}
  {_place("%i", copies, kind.depth)}
  add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %last; @%p bra PRODUCE;
  bra DONE;
CONSUMER:
  setmaxnreg.inc.sync.aligned.u32 232;
  and.b32 %x, %t, 127; setp.eq.u32 %first, %x, 0;
  mov.u32 %i, 0;
PIECE:
  and.b32 %slot, %i, {STAGES - 1}; shr.u32 %phase, %i, {STAGES.bit_length() - 1};
  and.b32 %phase, %phase, 1;{_wait(0, "%phase", "FULL")}{_compute(multiply)}
  shl.b32 %bar, %slot, 3; add.u32 %bar, %bar, %base;
  @%first mbarrier.arrive.shared.b64 _, [%bar+128];
  add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %last; @%p bra PIECE;"""


def _store() -> str:
    text = """
  and.b32 %lane, %t, 31; shr.u32 %warp, %t, 5; and.b32 %warp, %warp, 3;
  mad.lo.u32 %row, %group, 64, %row; mad.lo.u32 %row, %warp, 16, %row;
  shr.u32 %x, %lane, 2; add.u32 %row, %row, %x;
  and.b32 %x, %lane, 3; shl.b32 %x, %x, 1; add.u32 %column, %column, %x;
  mad.lo.u32 %x, %row, %n, %column; mul.wide.u32 %o, %x, 4; add.u64 %c, %c, %o;
  mul.wide.u32 %o, %n, 32; add.u64 %o, %o, %c;"""
    for block in range(COLUMNS // 8):
        a, b, c, d = (4 * block + n for n in range(4))
        text += f"""
  st.global.v2.b32 [%c+{32 * block}], {{%s{a}, %s{b}}};
  st.global.v2.b32 [%o+{32 * block}], {{%s{c}, %s{d}}};"""
    return text
