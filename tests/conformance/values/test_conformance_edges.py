"""Indices that are clamped or wrapped at an edge, and tiles that threads fill in linear order.

Groups away from the edge run code that assumes so; groups at an edge, sums that wrap around in
32 bits and padding lanes must produce the same results.
"""

import numpy as np
import pytest

from support.execution.both_backends import compare, compiler
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

_HEAD = ".version 7.8\n.target sm_80\n.address_size 64\n"
_PLANS = {(16, 1, True), (16, 2, True), (8, 2, True), (16, 2, False)}


def _plans(module: Module, block: tuple[int, int, int]) -> list[jit.Plan | None]:
    legal = compiler().legal_plans(module, block)
    return [None, *(p for p in legal if (p.width, p.vectors, p.versioned) in _PLANS)]


def _neighbours(left: str, right: str, *, kind: str = "s32") -> Module:
    """``out[i] = in[left] + 3 * in[right]`` for a row of ``n``; both selects are PTX on %x."""
    text = f"""{_HEAD}.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)
        {{ .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<12>;
        ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u32 %r9, [n];
        mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
        mad.lo.s32 %r1, %r1, %r2, %r3; setp.ge.u32 %p0, %r1, %r9; @%p0 bra END;
        add.s32 %r8, %r9, -1;
        {left} {right}
        mul.wide.{kind} %rd3, %r4, 4; add.s64 %rd3, %rd1, %rd3; ld.global.u32 %r6, [%rd3];
        mul.wide.{kind} %rd4, %r5, 4; add.s64 %rd4, %rd1, %rd4; ld.global.u32 %r7, [%rd4];
        mad.lo.u32 %r6, %r7, 3, %r6;
        mul.wide.u32 %rd5, %r1, 4; add.s64 %rd5, %rd2, %rd5; st.global.u32 [%rd5], %r6;
        END: ret; }}"""
    module = compile_ptx(text, capability=(8, 0))
    assert not module.refused
    return module


_WRAPS = (
    "setp.eq.s32 %p1, %r1, 0; add.s32 %r4, %r1, -1; selp.b32 %r4, %r8, %r4, %p1;",
    "setp.ne.s32 %p2, %r8, %r1; add.s32 %r5, %r1, 1; selp.b32 %r5, %r5, 0, %p2;",
)
_CLAMPS = (
    "add.s32 %r4, %r1, -3; setp.lt.s32 %p1, %r4, 0; selp.b32 %r4, 0, %r4, %p1;",
    "add.s32 %r5, %r1, 5; setp.gt.s32 %p2, %r9, %r5; selp.b32 %r5, %r5, %r8, %p2;",
)
_UNSIGNED = (
    "add.u32 %r4, %r1, -3; setp.ge.u32 %p1, %r4, %r9; selp.b32 %r4, 0, %r4, %p1;",
    "add.u32 %r5, %r1, 5; setp.le.u32 %p2, %r5, %r8; selp.b32 %r5, %r5, %r8, %p2;",
)


@pytest.mark.parametrize("n", [1, 16, 33, 200])
@pytest.mark.parametrize("how", ["wraps", "clamps", "unsigned"])
def test_neighbours_at_an_edge(how: str, n: int) -> None:
    choices = {"wraps": _WRAPS, "clamps": _CLAMPS, "unsigned": _UNSIGNED}[how]
    module = _neighbours(*choices, kind="u32" if how == "unsigned" else "s32")
    data = np.random.default_rng(n).integers(0, 1 << 32, n, np.uint32)
    block = (40 if n == 33 else 64, 1, 1)  # padding lanes are at no edge
    found = compare(
        module,
        [data.tobytes(), bytes(4 * n)],
        (-(-n // block[0]), 1, 1),
        block,
        _plans(module, block),
        [n],
    )
    at = np.arange(n)
    left, right = {
        "wraps": ((at - 1) % n, (at + 1) % n),
        "clamps": (np.maximum(at - 3, 0), np.minimum(at + 5, n - 1)),
        "unsigned": (np.where(at < 3, 0, at - 3), np.minimum(at + 5, n - 1)),
    }[how]
    assert (np.frombuffer(found[1], np.uint32) == data[left] + np.uint32(3) * data[right]).all()


def _tile(threads: int, wide: int, high: int) -> Module:
    """Return a kernel in which each thread sums pixels around its own.

    A block of 32 x ``threads / 32`` threads first reads ``wide x high`` pixels around its own, with
    clamped indices, in linear order.
    """
    cells = wide * high
    text = f"""{_HEAD}.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 w, .param .u32 h)
        {{ .reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<20>;
        .shared .align 4 .b8 tile[{4 * cells}];
        ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
        ld.param.u32 %r10, [w]; ld.param.u32 %r11, [h];
        mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mad.lo.s32 %r3, %r2, 32, %r1;
        mov.u32 %r4, %ctaid.x; shl.b32 %r4, %r4, 5; mov.u32 %r5, %ctaid.y;
        mul.lo.s32 %r5, %r5, {threads // 32};
        add.s32 %r6, %r4, -1; add.s32 %r7, %r5, -1; add.s32 %r12, %r10, -1; add.s32 %r13, %r11, -1;
        mov.u32 %r30, tile; setp.gt.s32 %p0, %r3, {cells - 1}; @%p0 bra MEET;
        mov.u32 %r20, %r3;
        TURN: div.s32 %r21, %r20, {wide}; rem.s32 %r22, %r20, {wide};
        add.s32 %r23, %r6, %r22; add.s32 %r24, %r7, %r21;
        setp.lt.s32 %p1, %r23, %r10; selp.b32 %r23, %r23, %r12, %p1;
        setp.lt.s32 %p2, %r23, 0; selp.b32 %r23, 0, %r23, %p2;
        setp.lt.s32 %p3, %r24, %r11; selp.b32 %r24, %r24, %r13, %p3;
        setp.lt.s32 %p4, %r24, 0; selp.b32 %r24, 0, %r24, %p4;
        mad.lo.s32 %r25, %r24, %r10, %r23; mul.wide.s32 %rd3, %r25, 4; add.s64 %rd3, %rd1, %rd3;
        ld.global.u32 %r26, [%rd3]; shl.b32 %r27, %r20, 2; add.s32 %r27, %r30, %r27;
        st.shared.u32 [%r27], %r26;
        setp.lt.s32 %p5, %r20, {cells - threads}; add.s32 %r20, %r20, {threads}; @%p5 bra TURN;
        MEET: bar.sync 0;
        add.s32 %r14, %r4, %r1; add.s32 %r15, %r5, %r2;
        setp.ge.s32 %p6, %r14, %r10; setp.ge.s32 %p7, %r15, %r11; or.pred %p6, %p6, %p7;
        @%p6 bra END;
        mad.lo.s32 %r31, %r2, {wide}, %r1; shl.b32 %r31, %r31, 2; add.s32 %r31, %r30, %r31;
        ld.shared.u32 %r32, [%r31]; ld.shared.u32 %r33, [%r31+8];
        ld.shared.u32 %r34, [%r31+{4 * wide + 4}]; ld.shared.u32 %r35, [%r31+{8 * wide}];
        mad.lo.u32 %r32, %r33, 3, %r32; mad.lo.u32 %r32, %r34, 5, %r32;
        mad.lo.u32 %r32, %r35, 7, %r32;
        mad.lo.s32 %r36, %r15, %r10, %r14; mul.wide.s32 %rd4, %r36, 4; add.s64 %rd4, %rd2, %rd4;
        st.global.u32 [%rd4], %r32;
        END: ret; }}"""
    module = compile_ptx(text, capability=(8, 0))
    assert not module.refused
    return module


@pytest.mark.parametrize(
    ("rows", "wide", "high"), [(8, 34, 10), (2, 34, 4), (4, 37, 6), (8, 35, 10), (1, 34, 3)]
)
def test_a_tile_filled_in_linear_order(rows: int, wide: int, high: int) -> None:
    module, block = _tile(32 * rows, wide, high), (32, rows, 1)
    for width, height in ((100, 3 * rows), (70, 2 * rows + 1), (5, 1), (128, 4 * rows)):
        pixels = np.random.default_rng(wide).integers(0, 1 << 32, (height, width), np.uint32)
        grid = (-(-width // 32), -(-height // rows), 1)
        found = compare(
            module,
            [pixels.tobytes(), bytes(pixels.nbytes)],
            grid,
            block,
            _plans(module, block),
            [width, height],
        )
        padded = np.pad(pixels, 1, mode="edge")
        wanted = padded[:-2, :-2] + np.uint32(3) * padded[:-2, 2:]
        wanted += np.uint32(5) * padded[1:-1, 1:-1] + np.uint32(7) * padded[2:, :-2]
        assert (np.frombuffer(found[1], np.uint32).reshape(pixels.shape) == wanted).all()


_FAR = f"""{_HEAD}.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 w, .param .u32 from)
    {{ .reg .b32 %r<12>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
    ld.param.u32 %r1, [w]; ld.param.u32 %r2, [from];
    mov.u32 %r3, %tid.x; shr.u32 %r4, %r3, 3; and.b32 %r5, %r3, 7;
    mad.lo.s32 %r6, %r4, %r1, %r5; add.s32 %r6, %r6, %r2;
    mul.wide.s32 %rd3, %r6, 4; add.s64 %rd3, %rd1, %rd3; ld.global.u32 %r7, [%rd3];
    mul.wide.u32 %rd4, %r3, 4; add.s64 %rd4, %rd2, %rd4; st.global.u32 [%rd4], %r7; ret; }}"""


@pytest.mark.parametrize(("width", "start"), [(9, 0), (1 << 31, 4), ((1 << 32) - 8, 60), (8, 0)])
def test_rows_whose_distance_wraps_around(width: int, start: int) -> None:
    module = compile_ptx(_FAR, capability=(8, 0))
    data = np.arange(1, 101, dtype=np.uint32)
    rows = 2 if width == 1 << 31 else 8
    if rows == 2:  # odd rows would be outside memory
        module = compile_ptx(
            _FAR.replace("shr.u32 %r4, %r3, 3;", "shr.u32 %r4, %r3, 3; shl.b32 %r4, %r4, 1;"),
            capability=(8, 0),
        )
    compare(
        module,
        [data.tobytes(), bytes(256)],
        (1, 1, 1),
        (64, 1, 1),
        _plans(module, (64, 1, 1)),
        [width, start],
    )


def test_a_select_whose_comparison_is_in_another_block() -> None:
    """The comparison's operands are not needed elsewhere, and unavailable at the select."""
    text = f"""{_HEAD}.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)
        {{ .reg .pred %p<6>; .reg .b32 %r<16>; .reg .b64 %rd<12>;
        ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u32 %r9, [n];
        mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
        mad.lo.s32 %r1, %r1, %r2, %r3; mov.u32 %r7, 17; mul.wide.u32 %rd5, %r1, 4;
        setp.gt.u32 %p0, %r9, 5; @!%p0 bra JOIN;
        add.s32 %r4, %r1, -3; setp.lt.s32 %p1, %r4, 0; add.s32 %r5, %r1, -2;
        add.s64 %rd3, %rd1, %rd5; ld.global.u32 %r6, [%rd3];
        setp.gt.u32 %p2, %r6, 100; @%p2 bra MEET;
        mul.lo.u32 %r7, %r6, %r6; xor.b32 %r7, %r7, %r1; mul.lo.u32 %r7, %r7, 5;
        add.u32 %r7, %r7, %r6; xor.b32 %r7, %r7, 77; mul.lo.u32 %r7, %r7, %r6;
        add.u32 %r7, %r7, 3; xor.b32 %r7, %r7, %r9; mul.lo.u32 %r7, %r7, 9;
        MEET: selp.b32 %r5, 0, %r5, %p1;
        mul.wide.s32 %rd4, %r5, 4; add.s64 %rd4, %rd1, %rd4; ld.global.u32 %r8, [%rd4];
        add.u32 %r7, %r7, %r8;
        JOIN: add.s64 %rd6, %rd2, %rd5; st.global.u32 [%rd6], %r7; ret; }}"""
    module = compile_ptx(text, capability=(8, 0))
    assert not module.refused
    data = np.random.default_rng(9).integers(0, 200, 256, np.uint32)
    for n in (4, 9):
        buffers = [data.tobytes(), bytes(data.nbytes)]
        plans = _plans(module, (64, 1, 1))
        compare(module, buffers, (4, 1, 1), (64, 1, 1), plans, [n])


@pytest.mark.parametrize("kind", ["u32", "s32"])
@pytest.mark.parametrize(
    ("apart", "bound"), [(3 << 28, 14 << 28), (5 << 29, 6 << 28), (1 << 31, 9)]
)
def test_lanes_that_wrap_around_more_than_once(apart: int, bound: int, kind: str) -> None:
    """The first and last values of a group are in order, but those between wrap around."""
    compared = "ne" if bound == 9 else "lt"
    text = f"""{_HEAD}.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 from,
        .param .u32 bound) {{ .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
        ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
        ld.param.u32 %r1, [from]; ld.param.u32 %r2, [bound];
        mov.u32 %r3, %tid.x; mul.lo.u32 %r4, %r3, {apart}; add.u32 %r4, %r4, %r1;
        setp.{compared}.{kind} %p1, %r4, %r2; selp.b32 %r4, %r4, 5, %p1;
        shr.u32 %r5, %r4, 24; mul.wide.u32 %rd3, %r5, 4; add.s64 %rd3, %rd1, %rd3;
        ld.global.u32 %r6, [%rd3]; add.u32 %r6, %r6, %r4;
        mul.wide.u32 %rd4, %r3, 4; add.s64 %rd4, %rd2, %rd4; st.global.u32 [%rd4], %r6; ret; }}"""
    module = compile_ptx(text, capability=(8, 0))
    data = np.random.default_rng(3).integers(0, 1 << 32, 256, np.uint32)
    for start in (0, 7, 1 << 28, 9 + (1 << 31)):
        arguments = [start, bound + start if compared == "ne" else bound]
        for threads in (32, 64):
            block = (threads, 1, 1)
            buffers = [data.tobytes(), bytes(4 * threads)]
            found = compare(module, buffers, (1, 1, 1), block, _plans(module, block), arguments)
            numbers = (np.arange(threads, dtype=np.uint64) * apart + start).astype(np.uint32)
            sort = np.int32 if kind == "s32" else np.uint32
            limit = np.array([arguments[1]], np.uint32).view(sort)
            holds = np.not_equal if compared == "ne" else np.less
            numbers = np.where(holds(numbers.view(sort), limit), numbers, np.uint32(5))
            assert (np.frombuffer(found[1], np.uint32) == data[numbers >> 24] + numbers).all()


_UP = "shl.b32 %r4, %r1, 16; shl.b32 %r4, %r4, 16; shl.b32 %r5, %r3, 28; add.u32 %r4, %r4, %r5;"
_BEYOND_THE_SIGN = {
    "compared and more": """shl.b32 %r4, %r3, 28; setp.ne.u32 %p2, %r1, 77;
        setp.lt.and.s32 %p1, %r4, 0, %p2;""",
    "compared": f"{_UP} setp.lt.s32 %p1, %r4, 0;",
    "branched upon": f"""{_UP} mov.u32 %r8, 5; setp.ge.s32 %p1, %r4, 0; @%p1 bra MEET;
        mad.lo.u32 %r8, %r1, 3, 9; MEET: setp.eq.u32 %p1, %r8, 5;""",
    "widened": f"""{_UP} cvt.s64.s32 %rd4, %r4; shr.s64 %rd4, %rd4, 8; cvt.u32.u64 %r4, %rd4;
        setp.lt.s32 %p1, %r4, 0;""",
    "shifted": f"{_UP} shr.s32 %r4, %r4, 5; setp.lt.s32 %p1, %r4, 0;",
    "of 16 bits": """cvt.u16.u32 %rs1, %r1; shl.b16 %rs1, %rs1, 8; shl.b16 %rs1, %rs1, 8;
        cvt.u16.u32 %rs2, %r3; shl.b16 %rs2, %rs2, 12; add.u16 %rs1, %rs1, %rs2;
        cvt.s32.s16 %r4, %rs1; setp.lt.s16 %p1, %rs1, 0;""",
}


@pytest.mark.parametrize("how", _BEYOND_THE_SIGN)
def test_lanes_beyond_the_sign_of_an_aligned_base(how: str) -> None:
    text = f"""{_HEAD}.visible .entry k(.param .u64 out, .param .u32 n)
        {{ .reg .pred %p<3>; .reg .b16 %rs<3>; .reg .b32 %r<9>; .reg .b64 %rd<5>;
        ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n]; mov.u32 %r3, %tid.x; mov.u32 %r8, 1;
        {_BEYOND_THE_SIGN[how]}
        selp.b32 %r6, %r4, 5, %p1; xor.b32 %r6, %r6, %r8; add.u32 %r6, %r6, %r4;
        mul.wide.u32 %rd2, %r3, 4; add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r6; ret; }}"""
    module, block = compile_ptx(text, capability=(8, 0)), (32, 1, 1)
    (found,) = compare(module, [bytes(128)], (1, 1, 1), block, _plans(module, block), [1])
    if how == "compared":
        number = np.arange(32, dtype=np.uint32) << np.uint32(28)
        below = np.where(number.view(np.int32) < 0, number, np.uint32(5)) ^ np.uint32(1)
        assert (np.frombuffer(found, np.uint32) == below + number).all()
