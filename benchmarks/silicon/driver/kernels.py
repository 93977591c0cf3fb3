"""PTX of the kernels whose attributes, occupancy and launches are recorded."""

from typing import Final

HEADER: Final = ".version 8.0\n.target sm_80\n.address_size 64\n"
HOPPER: Final = ".version 8.0\n.target sm_90\n.address_size 64\n"


def plain(name: str, directives: str = "", body: str = "", parameters: str = "") -> str:
    """Return the text of a kernel."""
    return f".visible .entry {name}({parameters}) {directives}\n{{\n{body}\n  ret;\n}}\n"


def with_shared(name: str, size: int, directives: str = "") -> str:
    """Return a kernel that uses ``size`` bytes of static shared memory."""
    body = f"""  .shared .align 16 .b8 room[{size}];
  .reg .b32 %r<4>; .reg .b64 %rd<3>;
  ld.param.u64 %rd0, [p];
  mov.u32 %r0, room; mov.u32 %r1, %tid.x;
  and.b32 %r1, %r1, 15; add.u32 %r0, %r0, %r1;
  st.volatile.shared.u8 [%r0], %r1;
  ld.volatile.shared.u8 %r2, [room];
  st.global.u32 [%rd0], %r2;"""
    return plain(name, directives, body, ".param .u64 p")


POKE: Final = plain(
    "poke",
    "",
    """  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd0, [p0]; ld.param.u32 %r0, [p1];
  st.global.u32 [%rd0], %r0;""",
    ".param .u64 p0, .param .u32 p1",
)
LOCAL: Final = plain(
    "local_frame",
    "",
    """  .local .align 8 .b8 frame[40];
  .reg .b64 %rd<4>; .reg .b32 %r<4>;
  ld.param.u64 %rd0, [p];
  mov.u64 %rd1, frame; ld.global.u32 %r0, [%rd0]; and.b32 %r0, %r0, 28;
  cvt.u64.u32 %rd2, %r0; add.u64 %rd1, %rd1, %rd2;
  st.local.u32 [%rd1], %r0; ld.local.u32 %r1, [frame];
  st.global.u32 [%rd0], %r1;""",
    ".param .u64 p",
)
TRAP: Final = plain("trapped", "", "  trap;")
BREAK: Final = plain("broken", "", "  brkpt;")
MISALIGNED: Final = plain(
    "misaligned",
    "",
    "  .reg .b64 %rd0; .reg .b32 %r0; ld.param.u64 %rd0, [p]; add.u64 %rd0, %rd0, 2;\n"
    "  mov.u32 %r0, 1; st.global.u32 [%rd0], %r0;",
    ".param .u64 p",
)
SHARED_OUTSIDE: Final = plain(
    "outside",
    "",
    "  .reg .b32 %r<2>; mov.u32 %r0, 0x7fffff00; mov.u32 %r1, 1;\n"
    "  st.volatile.shared.u32 [%r0], %r1;",
)
SLOW: Final = plain(
    "slow",
    "",
    """  .reg .b64 %rd<4>; .reg .pred %p;
  ld.param.u64 %rd0, [ns];
  mov.u64 %rd1, %globaltimer;
AGAIN:
  mov.u64 %rd2, %globaltimer; sub.u64 %rd3, %rd2, %rd1;
  setp.lt.u64 %p, %rd3, %rd0; @%p bra AGAIN;""",
    ".param .u64 ns",
)
MODULE: Final = (
    HEADER
    + ".visible .global .align 4 .u32 counter;\n.visible .const .align 4 .b8 table[56];\n"
    + ".visible .global .align 16 .b8 large[4096];\n"
    + "".join(
        (
            plain("nothing"),
            POKE,
            LOCAL,
            TRAP,
            BREAK,
            MISALIGNED,
            SHARED_OUTSIDE,
            SLOW,
            plain("limited", ".maxntid 96"),
            plain("exact", ".reqntid 64"),
            plain("limited3", ".maxntid 8, 8, 2"),
            plain("few_registers", ".maxnreg 16"),
            plain("wide", ".maxntid 128 .minnctapersm 4"),
            plain("many", "", "", ".param .align 8 .b8 big[1024]"),
            with_shared("shared16", 16),
            with_shared("shared1000", 1000),
            with_shared("shared16384", 16384),
            with_shared("shared49152", 49152),
        )
    )
)
CLUSTERS: Final = HOPPER + "".join(
    (
        plain("free"),
        plain("pair", ".reqnctapercluster 2"),
        plain("explicit", ".explicitcluster"),
        plain("most4", ".maxclusterrank 4"),
        with_shared("shared_pair", 4096, ".reqnctapercluster 2"),
    )
)
NAMES: Final = (
    "nothing", "poke", "local_frame", "limited", "exact", "limited3", "few_registers", "wide",
    "many", "shared16", "shared1000", "shared16384", "shared49152",
)  # fmt: skip
