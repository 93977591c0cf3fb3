"""PTX that the ISA allows but compilers hardly ever emit: both executors, compared with Python."""

import struct
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from support.execution.thread_words import BLOCK, module, run
from vgpu_sim.compiler import InvalidPtxError, PtxSyntaxError, UnsupportedPtxError

_M32, _M64 = (1 << 32) - 1, (1 << 64) - 1


@dataclass(frozen=True)
class _Case:
    """A kernel's parts, and the expected words of thread t."""

    variables: str
    body: str
    words: Callable[[int], list[int]]
    version: str = "9.4"
    sm: str = "90"


def _to_signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _f32(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def _bfind(value: int, bits: int, *, shift: bool) -> int:
    value &= (1 << bits) - 1
    if value >> (bits - 1):
        value ^= (1 << bits) - 1
    place = value.bit_length() - 1
    return (bits - 1 - place if shift else place) & _M32 if value else _M32


def _four(a: int, b: int) -> int:
    total = 0
    for place in range(0, 32, 8):
        both = _to_signed(a >> place, 8) + _to_signed(b >> place, 8)
        total |= (min(max(both, -128), 127) & 0xFF) << place
    return total


def _words_of_products(t: int) -> list[int]:
    def product(a: int, b: int) -> int:
        total = 0
        for place in range(64):
            total ^= (a << place) * (b >> place & 1)
        return total

    a = t * 0x9E3779B1
    b, a = a ^ _M64, (a << 30 | a) & _M64
    results = [product(a, b) & _M64 ^ 77, product(a, b) >> 64 ^ a, product(a, _M64) >> 64]
    return [word for result in results for word in (result & _M32, result >> 32)]


_CASES = {
    "vectors of bytes and halves in scalars": _Case(
        "",
        """.reg .b8 %b<4>; .reg .b16 %h<4>; .reg .b64 %w;
        mov.b32 {%h0, %h1}, %t; mov.b32 %r0, {%h1, %h0};
        mov.b64 %w, {%h0, %h1, %h0, 0x7fff}; mov.b64 {%r1, _}, %w; mov.b64 {_, %r2}, %w;
        mov.b32 {%b0, %b1, %b2, %b3}, 0x11223344; mov.b32 %r3, {%b3, %b2, %b1, %b0};
        mov.b16 %h2, {%b1, %b2}; mov.b32 %r4, {%h2, 5};
        mov.b16 {%b0, _}, %h2; cvt.s32.s8 %r5, %b0;""",
        lambda t: [t << 16, t, 0x7FFF0000 | t, 0x44332211, 0x52233, 0x33],
    ),
    "registers of vectors, whole, by letters and by colours": _Case(
        "",
        """.reg .v4 .b32 v; .reg .v2 .f64 d<2>; .reg .b32 x;
        mov.v4.u32 v, {%t, 1, 2, 3}; add.u32 v.y, v.x, v.w; add.u32 v.b, v.g, v.a;
        mov.b32 %r0, v.x; mov.b32 %r1, v.g; mov.b32 %r2, v.z; mov.b32 %r3, v.w;
        cvt.rn.f64.u32 d1.x, %t; mov.f64 d1.y, 0d4008000000000000;
        fma.rn.f64 d0.r, d1.r, d1.g, 0.5; cvt.rmi.u32.f64 %r4, d0.x;""",
        lambda t: [t, t + 3, t + 6, 3, 3 * t],
    ),
    "names that other languages would take for something else": _Case(
        """.global .u32 bra = 7; .const .u32 _9 = 9, $$ = 11;
        .func (.reg .u32 ret) add() { mov.u32 ret, 5; ret; }""",
        """.reg .u32 %0, %1, mov, %_, _a$, ld, %tid_x, x1, pred; .reg .pred add_;
        mov.u32 %0, %t; mov.u32 mov, %0; add.u32 %1, mov, 1; ld.global.u32 ld, [bra];
        ld.const.u32 %_, [_9]; ld.const.u32 _a$, [$$]; call (%tid_x), add, ();
        setp.gt.u32 add_, mov, 40; @add_ bra exit; mov.u32 x1, 1; bra.uni $end;
        exit: mov.u32 x1, 2; $end: mov.u32 pred, %tid_x;
        mov.u32 %r0, mov; mov.u32 %r1, %1; mov.u32 %r2, ld; mov.u32 %r3, %_; mov.u32 %r4, _a$;
        mov.u32 %r5, pred; mov.u32 %r6, x1;""",
        lambda t: [t, t + 1, 7, 9, 11, 5, 2 if t > 40 else 1],
    ),
    "scopes in scopes with names, types and labels of their own": _Case(
        ".shared .align 4 .b32 s[64]; .global .u32 x = 100;",
        """.reg .u32 x; .reg .u64 at; mov.u32 x, %t;
        { .reg .u64 x; .reg .f32 y; .shared .align 4 .b32 s[64]; mov.u64 x, s; cvt.rn.f32.u32 y, %t;
          { .reg .u32 x, y; mov.u32 x, 3; mov.u32 y, 0;
            L: add.u32 y, y, %t; sub.u32 x, x, 1; { .reg .pred y; setp.ne.u32 y, x, 0; @y bra L; }
            mov.u32 %r0, y; }
          mad.wide.u32 x, %t, 4, x; { .reg .u32 z; cvt.rzi.u32.f32 z, y; st.shared.u32 [x], z; }
          ld.shared.u32 %r1, [x]; }
        { L: { } { { } } }
        cvta.shared.u64 at, s; cvta.to.shared.u64 at, at; mad.wide.u32 at, %t, 4, at;
        st.shared.u32 [at], 77; ld.shared.u32 %r2, [at]; mov.u32 %r3, x;""",
        lambda t: [3 * t, t, 77, t],
    ),
    "declarations and labels where no one expects them": _Case(
        "",
        """.reg .pred %q; mov.u32 %r0, 0; A: B: C: .reg .u32 n; mov.u32 n, 3;
        D: .loc 1 1 0 E: add.u32 %r0, %r0, %t; .pragma "nounroll"; sub.u32 n, n, 1;
        setp.ne.u32 %q, n, 0; @%q bra D; bra.uni F; mov.u32 %r0, 99; G: bra H; F: bra.uni G;
        mov.u32 %r0, 98; H: mov.u32 %r1, n; @%q bra I; I: mov.u32 %r2, %t; @!%q bra J;
        trap; J: { bra K; } mov.u32 %r2, 97; K:""",
        lambda t: [3 * t, 0, t],
    ),
    "two predicates at once, combined with a third": _Case(
        "",
        """.reg .pred %a, %b, %c, %d, %e; setp.gt.u32 %c, %t, 31;
        setp.lt.and.s32 %a|%b, %t, 40, !%c; setp.ge.or.u32 _|%d, %t, 20, %c;
        setp.eq.xor.u32 %e|_, %t, 33, %c;
        selp.u32 %r0, 1, 0, %a; selp.u32 %r1, 1, 0, %b; selp.u32 %r2, 1, 0, %d; selp.u32 %r3, 1, 0, %e;
        setp.ltu.f32 %a|%b, 0f7FC00000, 0f3F800000; selp.b32 %r4, -1, 0, %a; selp.b32 %r5, -1, 0, %b;
        not.pred %a, %c; and.pred %a, %a, 1; xor.pred %a, %a, %d; selp.u32 %r6, 2, 3, %a;""",
        lambda t: [
            int(t < 40 and t <= 31),
            int(t >= 40 and t <= 31),
            int(t < 20 or t > 31),
            int((t == 33) != (t > 31)),
            _M32,
            0,
            2 if (t <= 31) != (t < 20 or t > 31) else 3,
        ],
    ),
    "choices by sign": _Case(
        "",
        """.reg .f32 %f; .reg .s32 %s; .reg .b64 %a; .reg .f64 %g; sub.s32 %s, %t, 20;
        slct.u32.s32 %r0, 1, 2, %s; slct.s32.f32 %r1, 1, 2, 0f80000000;
        slct.s32.f32 %r2, 1, 2, 0f7FFFFFFF; slct.ftz.b32.f32 %r3, 1, 2, 0f80000001;
        slct.b32.f32 %r4, 1, 2, 0f80000001; slct.b64.s32 %a, 0x500000000, 6, %s;
        mov.b64 {%r5, %r6}, %a; slct.f64.s32 %g, 0d4000000000000000, 1.0, %s;
        cvt.rzi.u32.f64 %r7, %g;""",
        lambda t: (
            [1 if t >= 20 else 2, 1, 2, 1, 2, *((0, 5) if t >= 20 else (6, 0)), 2 if t >= 20 else 1]
        ),
    ),
    "numbers of every notation": _Case(
        """.const .f32 f[6] = {1.0, -2.5e-1, 0f7F800000, 0F80000000, 3.e2, 0d3FF8000000000000};
        .const .s8 b[8] = {-1, 0177, 0x7f, -0x80, 0b101, 1 ? 2 : 3, (.s64) 4, ~0};
        .const .u64 w[3] = {0xFFFFFFFFFFFFFFFFU, 1 << 40 | 0x3, -1 >> 1};
        .const .f64 d[3] = {1.5, -1e3, 0D4010000000000000};""",
        """.reg .b32 %i, %n<4>; .reg .b64 %a, %c; .reg .f32 %f; .reg .f64 %d; .reg .s32 %s;
        and.b32 %i, %t, 7; cvt.u64.u32 %c, %i; mov.u64 %a, b; add.u64 %a, %a, %c;
        ld.const.s8 %r0, [%a]; rem.u32 %i, %t, 6; mov.u64 %a, f; mad.wide.u32 %a, %i, 4, %a;
        ld.const.b32 %r1, [%a]; rem.u32 %i, %t, 3; mov.u64 %a, w; mad.wide.u32 %a, %i, 8, %a;
        ld.const.v2.u32 {%r2, %r3}, [%a]; mov.u64 %a, d; mad.wide.u32 %a, %i, 8, %a;
        ld.const.f64 %d, [%a]; cvt.rn.f32.f64 %f, %d; mov.b32 %r4, %f;
        add.u32 %r5, %t, 010 + 0b11 * WARP_SZ - (7 % 4) ; mov.b32 %r6, 0fBFC00000;
        mov.s32 %r7, 5 > 3 && !0 ? -3 : 0x10;""",
        lambda t: [
            [_M32, 127, 127, -128 & _M32, 5, 2, 4, _M32][t % 8],
            [_f32(1), _f32(-0.25), 0x7F800000, 0x80000000, _f32(300), _f32(1.5)][t % 6],
            *divmod([_M64, 1 << 40 | 3, _M64][t % 3], 1 << 32)[::-1],
            _f32([1.5, -1000, 4][t % 3]),
            t + 8 + 96 - 3,
            _f32(-1.5),
            -3 & _M32,
        ],
    ),
    "addresses with signs, indices and sums": _Case(
        """.global .align 8 .u32 a[8] = {10, 11, 12, 13, 14, 15, 16, 17};
        .global .u64 p[3] = {a + 8, generic(a) + 12, a}; .global .u16 m[2][3] = {{1, 2, 3}, {4}};
        .shared .align 16 .b8 s[520];""",
        """.reg .u64 %a, %b; .reg .u32 %c; mov.u64 %a, a + 16; ld.global.u32 %r0, [%a + -8];
        ld.global.u32 %r1, [%a+4+-4]; ld.global.u32 %r2, [a + 4*2]; ld.global.u32 %r3, [a+3*4];
        ld.global.u64 %b, [p + 8]; ld.global.u32 %r4, [%b]; ld.u32 %r5, [%b+-4];
        mov.u64 %b, a+(2-1)*4; ld.global.u32 %r6, [%b+0x0]; ld.global.u16 %r7, [m+6];
        mov.u32 %c, s + 16; mad.lo.u32 %c, %t, 8, %c; st.shared.v2.b32 [%c+-8], {%t, 3};
        ld.shared.b64 %a, [%c+-8];
        mov.b64 {%c, _}, %a; add.u32 %r7, %r7, %c;""",
        lambda t: [12, 14, 12, 13, 13, 12, 11, 4 + t],
    ),
    "elements of arrays by their numbers": _Case(
        """.global .align 8 .u32 a[8] = {10, 11, 12, 13, 14, 15, 16, 17};
        .const .u16 m[4][5] = {{1, 2, 3, 4, 5}, {6, 7}}; .global .v2 .u16 v[2] = {{1, 2}, {3, 4}};
        .shared .align 8 .f32 s[64];""",
        """.reg .u64 %i; .reg .u32 n; .local .u32 l[4]; mov.u64 %i, a[3]; ld.global.u32 %r0, [%i];
        ld.global.u32 %r1, a[7]; ld.const.u16 %r2, m[6]; ld.global.u16 %r3, v[3]; rem.u32 n, %t, 6;
        ld.global.u32 %r4, a[n]; ld.global.u32 %r5, a[n+2]; cvt.rn.f32.u32 %r6, %t;
        st.shared.b32 s[%t], %r6; mov.u32 n, s[%t]; ld.shared.b32 %r6, [n]; and.b32 n, %t, 3;
        st.local.u32 l[n], %t; cvt.s64.s32 %i, n; ld.local.u32 %r7, l[%i];""",
        lambda t: [13, 17, 7, 4, 10 + t % 6, 12 + t % 6, _f32(t), t],
    ),
    "a name beside those that begin so and end in numbers": _Case(
        "",
        """.reg .u32 %q<3>, %q, %q_0, %q3, q<2>; mov.u32 %q, %t; mov.u32 %q0, 1; mov.u32 %q_0, 2;
        mov.u32 %q2, 3; mov.u32 %q3, 4; mov.u32 q1, 5; { .reg .u32 %q<1>; mov.u32 %q0, 9; }
        mov.u32 %r0, %q; mov.u32 %r1, %q0; mov.u32 %r2, %q_0; add.u32 %r3, %q2, %q3;
        mov.u32 %r4, q1;""",
        lambda t: [t, 1, 2, 7, 5],
    ),
    "fractions without a digit before the point": _Case(
        ".const .f32 blur[3] = {.05, -.1, .5e1};",
        """ld.const.b32 %r0, [blur]; ld.const.b32 %r1, [blur+4]; ld.const.b32 %r2, [blur+8];
        .reg .f32 %f; mov.f32 %f, .25; mov.b32 %r3, %f; add.f32 %f, %f, -.5; mov.b32 %r4, %f;""",
        lambda t: [_f32(x) for x in (0.05, -0.1, 5.0, 0.25, -0.25)],
    ),
    "wide products of halves and words": _Case(
        "",
        """.reg .b16 %h, %g; .reg .s32 %s; .reg .b64 %w, %v; cvt.u16.u32 %h, %t; sub.u16 %g, %h, 40;
        mul.wide.s16 %r0, %g, -300; mul.wide.u16 %r1, %g, 0xFFFF; mad.wide.s16 %r2, %g, %h, -7;
        mad.wide.u16 %r3, %g, %h, 0x80000000; sub.s32 %s, %t, 40;
        mad.wide.s32 %w, %s, 0x7FFFFFFF, -1; mov.b64 {%r4, %r5}, %w;
        mul.hi.s64 %v, %w, %w; mul.hi.u64 %w, %w, -1; mov.b64 {%r6, _}, %v; mov.b64 {_, %r7}, %w;""",
        lambda t: [
            (t - 40) * -300 & _M32,
            ((t - 40) & 0xFFFF) * 0xFFFF & _M32,
            (t - 40) * t - 7 & _M32,
            ((t - 40) & 0xFFFF) * t + (1 << 31) & _M32,
            *((t - 40) * (2**31 - 1) - 1 >> shift & _M32 for shift in (0, 32)),
            ((t - 40) * (2**31 - 1) - 1) ** 2 >> 64 & _M32,
            (((t - 40) * (2**31 - 1) - 1) & _M64) * _M64 >> 96 & _M32,
        ],
    ),
    "fields and places of bits": _Case(
        "",
        """.reg .s32 %s; .reg .b64 %w; sub.s32 %s, %t, 40; bfind.shiftamt.s32 %r0, %s;
        bfind.u32 %r1, %t; cvt.s64.s32 %w, %s; bfind.shiftamt.s64 %r2, %w; bfind.s64 %r3, %w;
        clz.b64 %r4, %w; popc.b64 %r5, %w; shf.l.clamp.b32 %r6, %t, 0x80000001, 33;
        shl.b32 %r7, %t, -1; shr.s32 %s, %s, 0x80000000; add.u32 %r7, %r7, %s;""",
        lambda t: [
            _bfind(t - 40, 32, shift=True),
            _bfind(t, 32, shift=False),
            _bfind(t - 40, 64, shift=True),
            _bfind(t - 40, 64, shift=False),
            64 - ((t - 40) & _M64).bit_length(),
            ((t - 40) & _M64).bit_count(),
            t,
            _M32 if t < 40 else 0,
        ],
    ),
    "video instructions": _Case(
        "",
        """.reg .s32 %s, %c; sub.s32 %s, %t, 40; shl.b32 %r8, %t, 8;
        vadd.s32.u32.s32.sat %r0, 0xFFFFFFFF, %s; vadd.u32.s32.s32 %r1.h1, %s.b0, %t.h0, 0x12345678;
        vabsdiff.u32.s32.s32.add %r2, %s.b0, %r8.b1, 1000; vset.s32.s32.lt %r3, %s.h0, 0;
        vmad.s32.s32.s32.po.shr7 %r4, %s, %s, 100; mov.b32 %r6, 0x7F80017E;
        vadd4.s32.s32.s32.sat %r5, %s, %r6, %t; mov.b32 %r6, 0x28282828;
        mov.b32 %c, 5; vset4.u32.u32.ge.add %r6, %t, %r6, %c; vshr.u32.u32.u32.clamp %r7, %t, 2;""",
        lambda t: [
            min(max(_M32 + t - 40, -(2**31)), 2**31 - 1) & _M32,
            (_to_signed(t - 40, 8) + t & 0xFFFF) << 16 | 0x5678,
            abs(t - 40 - t) + 1000,
            int(t < 40),
            (t - 40) ** 2 + 101 >> 7,
            _four(t - 40, 0x7F80017E),
            int(t >= 40) + 5,
            t >> 2,
        ],
    ),
    "indexed branches and calls among named targets": _Case(
        """.func (.reg .u32 r) one(.reg .u32 a) { add.u32 r, a, 100; ret; }
        .func (.reg .u32 r) two(.reg .u32 a) { mul.lo.u32 r, a, 3; ret; }""",
        """.reg .u32 %i; .reg .u64 %f; .reg .pred %q; and.b32 %i, %t, 3; mov.u32 %r0, 0;
        @%q bra Z; T: .branchtargets W, X, Y, X; brx.idx %i, T;
        W: mov.u32 %r0, 1; bra Z; Y: mov.u32 %r0, 2; X: add.u32 %r0, %r0, 10; Z:
        and.b32 %i, %t, 1; setp.eq.u32 %q, %i, 0; mov.u64 %f, one; @!%q mov.u64 %f, two;
        C: .calltargets one, two; call (%r1), %f, (%t), C;
        P: .callprototype (.reg .u32 _) _ (.reg .u32 _);
        mov.u32 %r2, 0; @%q call.uni (%r2), %f, (7), P;""",
        lambda t: [
            [1, 10, 12, 10][t % 4],
            3 * t if t % 2 else t + 100,
            0 if t % 2 else 107,
        ],
    ),
    "functions with arrays, without results and before they are defined": _Case(
        """.func (.param .align 8 .b8 out[16]) pack(.param .b8 a[3], .param .align 4 .b32 b);
        .visible .func nothing(.reg .u32 a, .reg .pred p);
        .func (.param .align 8 .b8 out[16]) again(.param .b8 a[3], .param .align 4 .b32 b);
        .alias again, pack;
        .func (.param .align 8 .b8 out[16]) pack(.param .b8 first[3], .param .align 4 .b32 b)
        { .reg .u32 %a, %b; .reg .u64 %w; ld.param.u8 %a, [first+1]; ld.param.s8 %b, [first+2];
          st.param.v2.b32 [out], {%a, %b}; ld.param.b32 %a, [b]; cvt.u64.u32 %w, %a;
          st.param.b64 [out+8], %w; }
        .visible .func nothing(.reg .u32 a, .reg .pred p) { @p mov.u32 a, 5; }""",
        """.reg .pred %q; .reg .u32 %a; setp.gt.u32 %q, %t, 9; mov.u32 %a, %t;
        { .param .b8 x[3]; .param .align 4 .b32 y; .param .align 8 .b8 z[16];
          st.param.b8 [x+1], %t; st.param.b8 [x+2+0], 0xF0; st.param.b32 [y], %t;
          call.uni (z), again, (x, y); ld.param.b32 %r0, [z]; ld.param.b32 %r1, [z+4];
          ld.param.v2.b32 {%r2, %r3}, [z+8]; }
        call nothing, (%a, %q); mov.u32 %r4, %a;""",
        lambda t: [t, 0xFFFFFFF0, t, 0, t],
    ),
    "words cut and widened on the way": _Case(
        ".global .align 8 .b8 g[512];",
        """.reg .b64 %a, %w; .reg .b16 %h; .reg .u8 %c; .reg .s32 %s; mov.u64 %a, g;
        mad.wide.u32 %a, %t, 8, %a; sub.s32 %s, %t, 40; cvt.s64.s32 %w, %s;
        st.global.u8 [%a], %w; st.global.s16 [%a+2], %s; st.b32 [%a+4], %w;
        ld.global.s8 %w, [%a]; mov.b64 {%r0, %r1}, %w; ld.global.u16 %r2, [%a+2];
        ld.s16 %r3, [%a+2]; ld.global.u8 %c, [%a]; cvt.u32.u8 %r4, %c; cvt.s8.s32 %r5, %s;
        cvt.sat.u8.s32 %r6, %s; ld.global.u32 %w, [%a+4]; mov.b64 {_, %r7}, %w;""",
        lambda t: [
            _to_signed(t - 40, 8) & _M32,
            _M32 if t < 40 else 0,
            t - 40 & 0xFFFF,
            _to_signed(t - 40, 16) & _M32,
            t - 40 & 0xFF,
            _to_signed(t - 40, 8) & _M32,
            min(max(t - 40, 0), 255),
            0,
        ],
    ),
    "special registers in odd places": _Case(
        "",
        """.reg .v4 .u32 v; .reg .b16 %h; .reg .b64 %w; mov.v4.u32 v, %tid; mov.u32 %r0, v.r;
        mov.u16 %h, %tid.x; cvt.u32.u16 %r1, %h; cvt.u64.u32 %w, %ntid.r; mov.b64 {%r2, _}, %w;
        mov.v4.u32 {_, _, _, %r3}, %ntid; mov.u32 %r4, %lanemask_ge; mov.u32 %r5, %warpid;
        mov.u32 %r6, WARP_SZ; mov.u32 %r7, %laneid;""",
        lambda t: [t, t, BLOCK, 0, _M32 << t % 32 & _M32, t // 32, 32, t % 32],
    ),
    "a text with other line ends, tabs, comments in comments, and debuggers' sections": _Case(
        '.file 1 "a // /* c"\r\n.section .debug_x { L: .b8 1, 2 .b32 L + 4 }\n',
        "mov.u32\r\n%r0\t,%t ;/* // */ .loc 1 2 3 // @%p trap;\n/* /* ; */"
        "mov.u32 %r1,/**/8;/***/.loc\t1 5 7\nmov.u32 %r2, 3;",
        lambda t: [t, 8, 3],
    ),
    "guards on everything": _Case(
        ".shared .u32 g[64]; .func (.reg .u32 r) f(.reg .u32 a) { mov.u32 r, a; }",
        """.reg .pred %q, %s; .reg .u64 %a; and.b32 %r8, %t, 3; setp.eq.u32 %q, %r8, 1;
        mov.u64 %a, g; mad.wide.u32 %a, %t, 4, %a; @%q st.shared.u32 [%a], 5;
        @!%q atom.shared.add.u32 %r0, [%a], 9; @%q ld.shared.u32 %r0, [%a]; @%q setp.ne.u32 %s, %t, 5; @%s mov.u32 %r1, 4; @!%s mov.u32 %r1, 6;
        mov.u32 %r2, 1; @%q selp.u32 %r2, 7, 8, %s; @%q call (%r3), f, (11); @!%q mov.b32 %r3, 12;
        @%q bra.uni N; N:""",
        lambda t: [
            5 if t % 4 == 1 else 0,
            4 if t % 4 == 1 and t != 5 else 6,
            (1 if t % 4 != 1 else 7 if t != 5 else 8),
            11 if t % 4 == 1 else 12,
        ],
    ),
    "carryless products": _Case(
        "",
        """.reg .u64 %a, %b, %c; mul.wide.u32 %a, %t, 0x9E3779B1; not.b64 %b, %a; shl.b64 %c, %a, 30;
        or.b64 %a, %c, %a; clmad.lo.u64 %c, %a, %b, 77; mov.b64 {%r0, %r1}, %c;
        clmad.hi.u64 %c, %a, %b, %a; mov.b64 {%r2, %r3}, %c; clmad.hi.u64 %a, %a, -1, 0;
        mov.b64 {%r4, %r5}, %a;""",
        _words_of_products,
    ),
}


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("ld.global.u32 %r0, a;", InvalidPtxError, "in brackets"),
        ("ld.global.u32 %r0, [a[1]];", InvalidPtxError, "not an address"),
        ("ld.global.u32 %r0, one[1];", InvalidPtxError, "'one' is not an array"),
        ("ld.global.u32 %r0, a[%p];", InvalidPtxError, "a register of 32 or 64 bits"),
        ("ld.global.u32 %r0, a[b];", InvalidPtxError, "'b' is not declared"),
        ("mov.u64 %rd0, one[1];", InvalidPtxError, "'one' is not an array"),
        ("atom.global.add.u32 %r0, a[1], 1;", InvalidPtxError, "in brackets"),
        (".reg .u32 x<3>, x1;", InvalidPtxError, "'x1' is declared twice"),
        (".reg .u32 x1, x<3>;", InvalidPtxError, "'x' is declared twice"),
        (".reg .u32 x<3>, x<1>;", InvalidPtxError, "'x' is declared twice"),
        ("mov.u32 %r0, %tid.q;", InvalidPtxError, "no component 'q'"),
        ("mov.f32 %r0, .5.5;", PtxSyntaxError, ".5.5"),
        ("ld.global.v2.u32 {%r0, %r0}, [a];", UnsupportedPtxError, "one register for two"),
        (
            ".reg .f32 f, g; atom.global.add.v2.f32 {f, f}, [%rd0], {f, g};",
            UnsupportedPtxError,
            "one register for two",
        ),
        ("setp.eq.u32 %p|%p, %r0, 1;", UnsupportedPtxError, "one predicate for both"),
    ],
)
def test_invalid_spellings_are_rejected(body: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        module(".global .u32 a[4], one;", body, version="8.1", sm="90")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", _CASES)
def test_rare_spellings_are_accepted(name: str) -> None:
    case = _CASES[name]
    words = len(case.words(0))
    made = module(case.variables, case.body, words, case.version, case.sm)
    assert run(made, words) == [case.words(t) for t in range(BLOCK)]
