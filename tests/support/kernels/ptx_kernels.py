"""Small PTX kernels for tests of the client library."""

from pathlib import Path

VECADD = (Path(__file__).parents[3] / "examples" / "vecadd.ptx").read_text()

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

# widened(values): one block of 64; each 64-bit value v < 2**23 becomes 7, or, in threads whose
# index has bit 2 clear, 7 + v * (the bits of 0.5). These are the saturated sum of 0.5 and v read as
# a float.
WIDENED = (
    HEADER
    + """
.visible .entry widened(.param .u64 values)
{
    .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .f32 %f<2>; .reg .pred %p;
    ld.param.u64 %d0, [values];
    mov.u32 %r0, %tid.x;
    mad.wide.u32 %d0, %r0, 8, %d0;
    ld.global.u32 %r1, [%d0];
    mov.b32 %f1, %r1;
    add.sat.f32 %f0, %f1, 0f3F000000;
    mov.b32 %r3, %f0;
    mov.u64 %d2, 7;
    and.b32 %r2, %r0, 4;
    setp.eq.u32 %p, %r2, 0;
    @!%p bra OUT;
    mad.wide.u32 %d2, %r1, %r3, %d2;
OUT:
    st.global.u64 [%d0], %d2;
    ret;
}
"""
)

# endless(flag): runs until `flag` is non-zero.
ENDLESS = (
    HEADER
    + """
.visible .entry endless(.param .u64 p0)
{
    .reg .u64 %rd<2>;
    .reg .u32 %r<2>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [p0];
again:
    ld.volatile.global.u32 %r1, [%rd1];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra again;
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


def straight(count: int) -> str:
    """Return a kernel of ``count`` additions, which takes long to load."""
    additions = "add.u32 %r0, %r0, 3;\n" * count
    return (
        HEADER
        + ".visible .entry straight(.param .u64 p0)\n{\n.reg .b32 %r<1>; .reg .b64 %rd<1>;\n"
        + "ld.param.u64 %rd0, [p0];\nld.global.u32 %r0, [%rd0];\n"
        + additions
        + "st.global.u32 [%rd0], %r0;\nret;\n}\n"
    )


# One kernel polls memory that another stream writes, and stores what it reads; the other writes.
FLAGS = (
    HEADER
    + """
.visible .entry await(.param .u64 p0, .param .u64 p1)
{
  .reg .b64 %rd<2>; .reg .b32 %r<1>; .reg .pred %p<1>;
  ld.param.u64 %rd0, [p0];
  ld.param.u64 %rd1, [p1];
LOOP:
  ld.volatile.global.u32 %r0, [%rd0];
  setp.eq.u32 %p0, %r0, 0;
  @%p0 bra LOOP;
  st.volatile.global.u32 [%rd1], %r0;
  ret;
}
.visible .entry raise(.param .u64 p0)
{
  .reg .b64 %rd<1>;
  ld.param.u64 %rd0, [p0];
  st.volatile.global.u32 [%rd0], 1;
  ret;
}
"""
)

# One kernel needs a block of at most 64 threads, another a block of exactly 32x2.
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


def nested_loops(depth: int) -> str:
    """Return ``nested()``: nested loops; native code supports a depth of 256."""
    begins = "".join(f"L{i}:\n  add.u32 %r1, %r1, {i};\n" for i in range(depth))
    ends = "".join(f"@%p bra L{i};\n" for i in reversed(range(depth)))
    count = "  mov.u32 %r0, %tid.x;\n  setp.gt.u32 %p, %r0, 99;\n"
    registers = "  .reg .b32 %r<2>; .reg .pred %p;\n"
    return f"{HEADER}.visible .entry nested()\n{{\n{registers}{begins}{count}{ends}  ret;\n}}\n"


def sum_of_parameters(count: int) -> str:
    """Return ``total(out, v0, ... v[count-1])``, which stores the sum of 32-bit parameters."""
    names = ", ".join(f".param .u32 v{i}" for i in range(count))
    loads = "\n".join(
        f"  ld.param.u32 %r0, [v{i}];\n  add.u32 %r1, %r1, %r0;" for i in range(count)
    )
    header = HEADER.replace("7.0", "8.1")  # up to 32764 bytes
    return f"""{header}
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
