"""Small PTX kernels for tests of the client library."""

from pathlib import Path

VECADD = (Path(__file__).parents[2] / "examples" / "vecadd.ptx").read_text()

HEADER = ".version 7.0\n.target sm_80\n.address_size 64\n"

# poke(address, value): one thread stores 32 bits anywhere.
POKE = (
    HEADER
    + """
.visible .entry poke(.param .u64 p0, .param .u32 p1)
{
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd0, [p0];
  ld.param.u32 %r0, [p1];
  st.global.u32 [%rd0], %r0;
  ret;
}
"""
)

# spin(out, n): counts to n, then stores n + what `out` held.
SPIN = (
    HEADER
    + """
.visible .entry spin(.param .u64 p0, .param .u32 p1)
{
  .reg .b64 %rd<2>; .reg .b32 %r<5>; .reg .pred %p<2>;
  ld.param.u64 %rd0, [p0];
  ld.param.u32 %r0, [p1];
  mov.u32 %r1, 0;
LOOP:
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p0, %r1, %r0;
  @%p0 bra LOOP;
  ld.global.u32 %r2, [%rd0];
  add.u32 %r2, %r2, %r1;
  st.global.u32 [%rd0], %r2;
  ret;
}
"""
)

# Needs a block of at most 64 threads; needs a block of exactly 32x2.
LIMITS = (
    HEADER
    + """
.visible .entry at_most(.param .u64 p0) .maxntid 64, 1, 1 { ret; }
.visible .entry exactly(.param .u64 p0) .reqntid 32, 2, 1 { ret; }
.visible .entry nothing() { ret; }
"""
)

# add(n): *counter += n, with module variables.
VARIABLES = (
    HEADER
    + """
.visible .global .align 4 .u32 counter = 5;
.visible .global .align 16 .b8 scratch[3000000];
.visible .entry bump(.param .u32 p0)
{
  .reg .b64 %rd<2>; .reg .b32 %r<3>;
  ld.param.u32 %r0, [p0];
  mov.u64 %rd0, counter;
  cvta.global.u64 %rd0, %rd0;
  cvta.to.global.u64 %rd0, %rd0;
  ld.global.u32 %r1, [%rd0];
  add.u32 %r1, %r1, %r0;
  st.global.u32 [%rd0], %r1;
  ret;
}
"""
)


def sum_of_parameters(count: int) -> str:
    """``total(out, v0, ... v[count-1])``: stores the sum of 32-bit parameters."""
    names = ", ".join(f".param .u32 v{i}" for i in range(count))
    loads = "\n".join(
        f"  ld.param.u32 %r0, [v{i}];\n  add.u32 %r1, %r1, %r0;" for i in range(count)
    )
    return f"""{HEADER}
.visible .entry total(.param .u64 p0, {names})
{{
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd0, [p0];
  mov.u32 %r1, 0;
{loads}
  st.global.u32 [%rd0], %r1;
  ret;
}}
"""
