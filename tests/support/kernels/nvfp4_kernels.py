"""Kernels of a transformer block in NVFP4, for compute capability 10.0.

A matrix in NVFP4 has elements of E2M1, two in a byte, the first in the lower half; a scale of E4M3
for each 16 elements of a row; and one number in binary32 for the whole matrix. Each kernel's
parameters are addresses, and then integers. A block has 128 threads.
"""

from typing import Final

THREADS: Final = 128
GROUP: Final = 16
STEP: Final = 64  # depth of one tcgen05.mma
HEADS, HEAD, MODEL, SEQUENCE = 2, 32, 64, 32
_SCALES: Final = 256  # the column of tensor memory after a product of at most 256 columns


def _kernel(parameters: str, registers: str, body: str) -> str:
    """Return a PTX file; register %i is the thread's number in the grid."""
    listed = ", ".join(f".param .u64 {name}" for name in parameters.split())
    loaded = " ".join(f"ld.param.u64 %{name}, [{name}];" for name in parameters.split())
    words = " ".join(f".reg .b64 %{name};" for name in parameters.split())
    return f""".version 8.8
.target sm_100a
.address_size 64
.visible .entry k({listed})
{{
.reg .b32 %i, %j, %t; .reg .pred %p, %q; .reg .b64 %o; {words}
{registers}
{loaded}
mov.u32 %i, %ctaid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, {THREADS}, %t;
{body}
ret;
}}
"""


def _encode(largest: str, factor: str) -> str:
    """Return code for the factor of a matrix: 448 * 6 / its largest magnitude, or 1 for zeros."""
    return f"""
ld.global.f32 {factor}, [{largest}]; setp.eq.f32 %p, {factor}, 0f00000000;
div.rn.f32 {factor}, 0f45280000, {factor}; min.f32 {factor}, {factor}, 0f7F7FFFFF;
selp.f32 {factor}, 0f3F800000, {factor}, %p;"""


def _load_group(*, rotates: bool) -> str:
    """Return code that loads a thread's 16 numbers, and their largest magnitude to %m.

    The rotation is a random Hadamard transform: signs, then sums and differences, then 1/4.
    """
    code = """
cvt.u32.u64 %n, %groups; div.u32 %r, %i, %n; rem.u32 %g, %i, %n; mul.lo.u32 %g, %g, 16;
cvt.u32.u64 %n, %down; mul.lo.u32 %r, %r, %n; cvt.u32.u64 %n, %across; mad.lo.u32 %r, %g, %n, %r;
mul.wide.u32 %o, %r, 4; add.u64 %o, %o, %numbers; mul.wide.u32 %step, %n, 4;
"""
    code += " ".join(f"ld.global.f32 %f{n}, [%o]; add.u64 %o, %o, %step;" for n in range(GROUP))
    if rotates:
        for n in range(GROUP):
            code += f"shl.b64 %o, %signs, {63 - n}; and.b64 %o, %o, 0x8000000000000000;"
            code += f"shr.u64 %o, %o, 32; cvt.u32.u64 %n, %o; mov.b32 %t, %f{n};"
            code += f"xor.b32 %t, %t, %n; mov.b32 %f{n}, %t;\n"
        for half in (1, 2, 4, 8):
            for n in (n for n in range(GROUP) if not n & half):
                x, y = f"%f{n}", f"%f{n + half}"
                code += f"add.rn.f32 %x, {x}, {y}; sub.rn.f32 {y}, {x}, {y}; mov.f32 {x}, %x;\n"
        code += " ".join(f"mul.rn.f32 %f{n}, %f{n}, 0f3E800000;" for n in range(GROUP))
    code += "mov.f32 %m, 0f00000000;"
    return code + " ".join(f"abs.f32 %x, %f{n}; max.f32 %m, %m, %x;" for n in range(GROUP))


_GROUP_REGISTERS = """.reg .b32 %n, %r, %g; .reg .b64 %step; .reg .f32 %f<16>, %m, %x, %y, %e;
.reg .b16 %h; .reg .b8 %c; .reg .f16 %z<2>;"""


def find_largest(*, rotates: bool) -> str:
    """Return the kernel that finds the largest magnitude of a matrix, a group in each thread.

    A row has ``groups`` groups; its numbers are ``across`` words apart, and rows ``down`` words.
    """
    body = _load_group(rotates=rotates) + "mov.b32 %t, %m; red.global.max.u32 [%largest], %t;"
    return _kernel("largest numbers groups down across signs", _GROUP_REGISTERS, body)


def quantise(*, rotates: bool, by_chance: bool) -> str:
    """Return the kernel that quantises a matrix, with addresses as ``find_largest``.

    Elements are rounded to the nearest, or stochastically with a word of ``random`` for each four.
    """
    body = _load_group(rotates=rotates) + _encode("%largest", "%e")
    body += """
div.rn.f32 %m, %m, 0f40C00000; mul.rn.f32 %m, %m, %e; mov.f32 %x, 0f00000000;
cvt.rn.satfinite.e4m3x2.f32 %h, %x, %m;
cvt.u64.u32 %o, %i; add.u64 %o, %o, %scales; st.global.b8 [%o], %h;
cvt.rn.f16x2.e4m3x2 %t, %h; mov.b32 {%z0, %z1}, %t; cvt.f32.f16 %m, %z0;
div.rn.f32 %m, %e, %m; min.f32 %m, %m, 0f7F7FFFFF;
"""
    body += " ".join(f"mul.rn.f32 %f{n}, %f{n}, %m;" for n in range(GROUP))
    body += "mul.wide.u32 %o, %i, 8; add.u64 %o, %o, %codes; mul.wide.u32 %step, %i, 16;"
    body += "add.u64 %step, %step, %random;"
    for n in range(0, GROUP, 4):
        if by_chance:
            four = ", ".join(f"%f{n + k}" for k in (3, 2, 1, 0))
            body += f"ld.global.b32 %t, [%step+{n}];"
            body += (
                f"cvt.rs.satfinite.e2m1x4.f32 %h, {{{four}}}, %t; st.global.b16 [%o+{n // 2}], %h;"
            )
            continue
        for k in (n, n + 2):
            body += f"cvt.rn.satfinite.e2m1x2.f32 %c, %f{k + 1}, %f{k};"
            body += f"st.global.b8 [%o+{k // 2}], %c;\n"
    names = "codes scales numbers largest random groups down across signs"
    return _kernel(names, _GROUP_REGISTERS, body)


def _stage(codes: str, rows: str, place: str, name: str) -> str:
    """Return code that copies a step of rows to shared memory as core matrices of 8 x 16 bytes.

    %k is the step's first byte in a row of %depth bytes.
    """
    return f"""
mov.u32 %j, %tid.x;
{name}:
setp.ge.u32 %p, %j, {rows}; @%p bra {name}_END;
mad.lo.u32 %n, %j, %depth, %k; cvt.u64.u32 %o, %n; add.u64 %o, %o, {codes};
ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%o]; ld.global.v4.b32 {{%w4, %w5, %w6, %w7}}, [%o+16];
shr.u32 %n, %j, 3; shl.b32 %n, %n, 8; and.b32 %r, %j, 7; mad.lo.u32 %n, %r, 16, %n;
add.u32 %n, %n, %tile; add.u32 %n, %n, {place};
st.shared.v4.b32 [%n], {{%w0, %w1, %w2, %w3}}; st.shared.v4.b32 [%n+128], {{%w4, %w5, %w6, %w7}};
add.u32 %j, %j, {THREADS}; bra {name};
{name}_END:"""


def _stage_scales(scales: str, rows: str, column: int, name: str) -> str:
    """Return code by which a warp copies the scales of a step to tensor memory.

    Row r's four scales are in lane r % 32 of column r / 32.
    """
    return f"""
mov.u32 %j, %lane; add.u32 %at, %base, {column};
{name}:
shr.u32 %n, %k, 3; shr.u32 %r, %depth, 3; mad.lo.u32 %n, %j, %r, %n;
cvt.u64.u32 %o, %n; add.u64 %o, %o, {scales}; mov.b32 %w0, 0;
setp.lt.u32 %p, %j, {rows}; @%p ld.global.b32 %w0, [%o];
tcgen05.st.sync.aligned.32x32b.x1.b32 [%at], {{%w0}};
add.u32 %at, %at, 1; add.u32 %j, %j, 32; sub.u32 %n, %j, %lane;
setp.lt.u32 %p, %n, {rows}; @%p bra {name};"""


def multiply() -> str:
    """Return the kernel of D = A x B transposed: A has 128 rows, B ``columns`` of at most 256.

    A step has a depth of 64; ``depth`` is the bytes of a row. D is divided by the factors of A
    and B, of which ``largest_a`` and ``largest_b`` have the largest magnitudes.
    """
    registers = """.shared .align 1024 .b8 tile[12288];
.shared .align 4 .b32 place; .shared .align 8 .b64 bar;
.reg .b32 %n, %r, %k, %depth, %columns, %tile, %base, %own, %at, %lane, %warp, %idesc, %w<8>;
.reg .b32 %parity, %sa, %sb; .reg .b64 %da, %db; .reg .pred %first, %issues, %adds, %more;
.reg .f32 %x, %y;"""
    body = f"""
cvt.u32.u64 %columns, %count; cvt.u32.u64 %depth, %row; cvt.u32.u64 %idesc, %format;
mov.u32 %tile, tile; mov.u32 %lane, %laneid; mov.u32 %n, %tid.x; shr.u32 %warp, %n, 5;
setp.eq.u32 %issues, %n, 0; setp.eq.u32 %first, %warp, 0; mov.u32 %n, place;
@%issues mbarrier.init.shared.b64 [bar], 1;
@%first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%n], 512;
bar.sync 0;
ld.shared.b32 %base, [place];
shr.u32 %n, %tile, 4; cvt.u64.u32 %da, %n; mov.b64 %o, 0x{1 << 46 | 16 << 32 | 8 << 16:x};
add.u64 %da, %da, %o; add.u64 %db, %da, {4096 >> 4};
add.u32 %sa, %base, {_SCALES}; add.u32 %sb, %base, {_SCALES + 4};
mov.u32 %k, 0; mov.u32 %parity, 0;
STEP:
{_stage("%acodes", "128", "0", "ROWS_A")}
{_stage("%bcodes", "%columns", "4096", "ROWS_B")}
@!%first bra STAGED;
{_stage_scales("%ascales", "128", _SCALES, "SCALES_A")}
{_stage_scales("%bscales", "%columns", _SCALES + 4, "SCALES_B")}
tcgen05.wait::st.sync.aligned;
STAGED:
fence.proxy.async.shared::cta; tcgen05.fence::before_thread_sync; bar.sync 0;
tcgen05.fence::after_thread_sync;
setp.ne.u32 %adds, %k, 0; mov.u32 %n, bar;
@%issues tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X
  [%base], %da, %db, %idesc, [%sa], [%sb], %adds;
@%issues tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%n];
WAIT:
mbarrier.try_wait.parity.shared.b64 %more, [bar], %parity; @!%more bra WAIT;
tcgen05.fence::after_thread_sync;
xor.b32 %parity, %parity, 1; add.u32 %k, %k, {STEP // 2};
setp.lt.u32 %p, %k, %depth; @%p bra STEP;
{_encode("%alargest", "%x")}
{_encode("%blargest", "%y")}
mul.rn.f32 %x, %x, %y; div.rn.f32 %x, 0f3F800000, %x;
shl.b32 %own, %warp, 21; add.u32 %own, %own, %base; mov.u32 %at, %own; mov.u32 %j, 0;
mov.u32 %n, %tid.x; mul.lo.u32 %n, %n, %columns; mul.wide.u32 %o, %n, 4; add.u64 %o, %o, %d;
READ:
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r}}, [%at]; tcgen05.wait::ld.sync.aligned;
mov.b32 %y, %r; mul.rn.f32 %y, %y, %x; st.global.f32 [%o], %y;
add.u64 %o, %o, 4; add.u32 %at, %at, 1; add.u32 %j, %j, 1;
setp.lt.u32 %p, %j, %columns; @%p bra READ;
tcgen05.fence::before_thread_sync; bar.sync 0;
@%first tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, 512;"""
    names = "d acodes ascales alargest bcodes bscales blargest count row format"
    return _kernel(names, registers, body)


def normalise() -> str:
    """Return the kernel of RMS norm with gains, a row of 64 numbers in each thread."""
    body = f"""
mul.wide.u32 %o, %i, {4 * MODEL}; add.u64 %numbers, %numbers, %o; add.u64 %found, %found, %o;
mov.f32 %sum, 0f00000000;"""
    body += " ".join(
        f"ld.global.f32 %x, [%numbers+{4 * n}]; mul.rn.f32 %y, %x, %x; add.rn.f32 %sum, %sum, %y;"
        for n in range(MODEL)
    )
    body += """
mul.rn.f32 %sum, %sum, 0f3C800000; add.rn.f32 %sum, %sum, 0f358637BD; sqrt.rn.f32 %sum, %sum;"""
    body += " ".join(
        f"ld.global.f32 %x, [%numbers+{4 * n}]; div.rn.f32 %x, %x, %sum;"
        f"ld.global.f32 %y, [%gains+{4 * n}]; mul.rn.f32 %x, %x, %y; st.global.f32 [%found+{4 * n}], %x;"
        for n in range(MODEL)
    )
    return _kernel("found numbers gains", ".reg .f32 %x, %y, %sum;", body)


EXPONENTIAL: Final = (0x3AAEC3FF, 0x3C1D955B, 0x3D635847, 0x3E75FDF0, 0x3F317218, 0x3F800000)
"""Coefficients of 2^x in binary32 for magnitudes to 1/2, that of the highest power first."""


def attend() -> str:
    """Return the kernel of causal attention in sequences of 32, a row of one head in each thread.

    ``numbers`` has rows of queries, keys and values; ``weights`` is room for 32 numbers a thread.
    """
    row, last = 4 * 3 * MODEL, len(EXPONENTIAL) - 1
    body = f"""
shr.u32 %t, %i, 1; and.b32 %j, %i, 1; mul.wide.u32 %o, %t, {row}; add.u64 %q0, %numbers, %o;
mul.wide.u32 %o, %j, {4 * HEAD}; add.u64 %q0, %q0, %o;
and.b32 %j, %t, 0xffffffe0; mul.wide.u32 %k0, %j, {row}; add.u64 %k0, %k0, %numbers;
add.u64 %k0, %k0, %o; add.u64 %k0, %k0, {4 * MODEL};
mul.wide.u32 %found0, %t, {4 * MODEL}; add.u64 %found, %found, %found0; add.u64 %found, %found, %o;
mul.wide.u32 %o, %i, {4 * SEQUENCE}; add.u64 %weights, %weights, %o;
and.b32 %count, %t, 31; add.u32 %count, %count, 1;
mov.u32 %j, 0; mov.f32 %m, 0fFF800000; mov.b64 %k, %k0; mov.b64 %o, %weights;
SCORE:
mov.f32 %sum, 0f00000000;"""
    body += " ".join(
        f"ld.global.f32 %x, [%q0+{4 * n}]; ld.global.f32 %y, [%k+{4 * n}];"
        "mul.rn.f32 %x, %x, %y; add.rn.f32 %sum, %sum, %x;"
        for n in range(HEAD)
    )
    body += f"""
mul.rn.f32 %sum, %sum, 0f3E3504F3; max.f32 %m, %m, %sum; st.global.f32 [%o], %sum;
add.u64 %o, %o, 4; add.u64 %k, %k, {row}; add.u32 %j, %j, 1;
setp.lt.u32 %p, %j, %count; @%p bra SCORE;
mov.u32 %j, 0; mov.f32 %sum, 0f00000000; mov.b64 %o, %weights;
POWER:
ld.global.f32 %x, [%o]; sub.rn.f32 %x, %x, %m; mul.rn.f32 %x, %x, 0f3FB8AA3B;
max.f32 %x, %x, 0fC2F00000; cvt.rni.f32.f32 %y, %x; sub.rn.f32 %x, %x, %y; cvt.rni.s32.f32 %t, %y;
mov.f32 %y, 0f{EXPONENTIAL[0]:08X};"""
    body += " ".join(
        f"mul.rn.f32 %y, %y, %x; add.rn.f32 %y, %y, 0f{EXPONENTIAL[n + 1]:08X};"
        for n in range(last)
    )
    body += """
add.s32 %t, %t, 127; shl.b32 %t, %t, 23; mov.b32 %x, %t; mul.rn.f32 %y, %y, %x;
add.rn.f32 %sum, %sum, %y; st.global.f32 [%o], %y; add.u64 %o, %o, 4; add.u32 %j, %j, 1;
setp.lt.u32 %p, %j, %count; @%p bra POWER;
mov.u32 %j, 0; mov.b64 %k, %k0; mov.b64 %o, %weights;"""
    body += " ".join(f"mov.f32 %a{n}, 0f00000000;" for n in range(HEAD))
    body += "SUM: ld.global.f32 %x, [%o];"
    body += " ".join(
        f"ld.global.f32 %y, [%k+{4 * (MODEL + n)}]; mul.rn.f32 %y, %x, %y; add.rn.f32 %a{n}, %a{n}, %y;"
        for n in range(HEAD)
    )
    body += f"""
add.u64 %o, %o, 4; add.u64 %k, %k, {row}; add.u32 %j, %j, 1; setp.lt.u32 %p, %j, %count;
@%p bra SUM;"""
    body += " ".join(
        f"div.rn.f32 %y, %a{n}, %sum; st.global.f32 [%found+{4 * n}], %y;" for n in range(HEAD)
    )
    registers = f""".reg .b32 %count; .reg .b64 %q0, %k0, %k, %found0;
.reg .f32 %x, %y, %m, %sum, %a<{HEAD}>;"""
    return _kernel("found numbers weights", registers, body)


def activate() -> str:
    """Return the kernel of the squared rectifier, a number in each thread."""
    body = """
mul.wide.u32 %o, %i, 4; add.u64 %numbers, %numbers, %o; add.u64 %found, %found, %o;
ld.global.f32 %x, [%numbers]; max.f32 %x, %x, 0f00000000; mul.rn.f32 %x, %x, %x;
st.global.f32 [%found], %x;"""
    return _kernel("found numbers", ".reg .f32 %x;", body)


def add() -> str:
    """Return the kernel of a sum, a number in each thread."""
    body = """
mul.wide.u32 %o, %i, 4; add.u64 %a, %a, %o; add.u64 %b, %b, %o; add.u64 %found, %found, %o;
ld.global.f32 %x, [%a]; ld.global.f32 %y, [%b]; add.rn.f32 %x, %x, %y; st.global.f32 [%found], %x;"""
    return _kernel("found a b", ".reg .f32 %x, %y;", body)
