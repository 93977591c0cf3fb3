"""The scalar evaluator: its arithmetic against rational numbers, its machine on small texts."""

import itertools
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from support.oracles import ieee_oracle
from support.oracles.ieee_oracle import F32, F64, Format
from support.oracles.scalar_ptx import halves, ieee, machine, numbers, text

_PAIRS = [(ieee.F32, F32), (ieee.F64, F64)]
_BINARY = {"FADD": ieee.add, "FSUB": ieee.subtract, "FMUL": ieee.multiply, "FDIV": ieee.divide}


@pytest.mark.parametrize(("ours", "oracle"), _PAIRS, ids=["f32", "f64"])
@pytest.mark.parametrize("name", _BINARY)
def test_two_operands(name: str, ours: ieee.Format, oracle: Format) -> None:
    corners = oracle.corners()[:: 1 if oracle is F32 else 3]
    for a, b in itertools.product(corners, corners):
        for mode in ("rn", "rz", "rm", "rp"):
            want = ieee_oracle.operate(name, (a, b), oracle, mode.upper())
            assert _BINARY[name](ours, a, b, mode) == want, (hex(a), hex(b), mode)


@pytest.mark.parametrize(("ours", "oracle"), _PAIRS, ids=["f32", "f64"])
def test_fused_multiply_add_and_roots(ours: ieee.Format, oracle: Format) -> None:
    corners = oracle.corners()
    for mode in ("rn", "rz", "rm", "rp"):
        for a, b, c in itertools.product(corners[::5], corners[1::4], corners[2::5]):
            want = ieee_oracle.operate("FMA", (a, b, c), oracle, mode.upper())
            assert ieee.fma(ours, a, b, c, mode) == want, (hex(a), hex(b), hex(c), mode)
        for a in corners:
            want = ieee_oracle.operate("FSQRT", (a,), oracle, mode.upper())
            assert ieee.square_root(ours, a, mode) == want, (hex(a), mode)


@pytest.mark.parametrize(
    ("words", "operands", "result"),
    [
        ("div.s32", (0x80000000, 0xFFFFFFFF), 0x80000000),
        ("div.u32", (7, 0), 0xFFFFFFFF),
        ("rem.s32", (0xFFFFFFF9, 2), 0xFFFFFFFF),
        ("rem.s64", (5, 0), (1 << 64) - 1),
        ("shr.s16", (0x8000, 40), 0xFFFF),
        ("shl.b32", (1, 32), 0),
        ("mul.hi.s64", ((1 << 64) - 1, 3), (1 << 64) - 1),
        ("mad.wide.s16", (0xFFFF, 2, 1), 0xFFFFFFFF),
        ("min.f32", (0x7FC00001, 0x3F800000), 0x3F800000),
        ("max.f32", (0x80000000, 0), 0),
        ("min.ftz.f32", (0x80000001, 0x00000001), 0x80000000),
        ("add.sat.f32", (0x7F800000, 0xFF800000), 0),
        ("cvt.rni.s8.f32", (0x42FF0000,), 0x7F),
        ("cvt.rzi.u64.f32", (0x7FC00000,), 1 << 63),
        ("cvt.rzi.s32.f32", (0x7FC00000,), 0),
        ("cvt.rp.f32.u64", ((1 << 63) + 1,), 0x5F000001),
        ("cvt.sat.u8.s32", (0xFFFFFFFF,), 0),
        ("cvt.rn.f16.f32", (0x477FF000,), 0x7C00),
        ("cvt.rmi.f32.f32", (0xBF000000,), 0xBF800000),
        ("cvt.rn.ftz.f32.f64", (0x3810000000000000 - 1,), 0x00800000),
    ],
)
def test_what_the_instruction_set_decides(
    words: str, operands: tuple[int, ...], result: int
) -> None:
    assert numbers.function(tuple(words.split("."))).compute(*operands) == result


@pytest.mark.parametrize(
    ("words", "operands", "result"),
    [
        ("fma.rn.f16", (0x3C01, 0x3C01, 0x0001), 0x3C02),
        ("fma.rn.relu.bf16", (0x3F80, 0xBF80, 0x0000), 0),
        ("add.rn.bf16x2", (0x3F80_3F80, 0x3B80_3F80), 0x3F80_4000),
        ("add.rp.f32x2", (0x3F80_0000_3F80_0000, 0x0000_0001_0000_0000), 0x3F80_0001_3F80_0000),
        ("min.NaN.f16", (0x7C01, 0x3C00), 0x7FFF),
        ("max.xorsign.abs.f32", (0xC000_0000, 0x3F80_0000), 0xC000_0000),
        ("add.rz.f32.f16", (0x3C00, 0x3380_0000), 0x3F80_0000),
        ("cvt.rn.satfinite.e4m3x2.f32", (0x43E0_0000, 0xBF80_0000), 0x7EB8),
        ("cvt.rn.satfinite.e4m3x2.f32", (0x4500_0000, 0x7FC0_0000), 0x7E7F),
        ("cvt.rn.satfinite.e2m3x2.f32", (0x3E00_0000, 0x3D80_0000), 0x0100),
        ("cvt.rn.f16x2.e5m2x2", (0x3C7C,), 0x3C00_7C00),
        ("cvt.rna.tf32.f32", (0x3F80_1000,), 0x3F80_2000),
        ("cvt.rz.bf16x2.f32", (0x3F80_FFFF, 0x7F7F_FFFF), 0x3F80_7F7F),
        ("copysign.f32", (0x8000_0000, 0x3F80_0000), 0xBF80_0000),
        ("slct.ftz.b32.f32", (1, 2, 0x8000_0001), 1),
        ("testp.subnormal.f64", (1,), 1),
    ],
)
def test_small_and_packed_floats(words: str, operands: tuple[int, ...], result: int) -> None:
    found = halves.function(tuple(words.split(".")))
    assert found is not None
    assert found.compute(*operands) == result


_HEAD = (
    ".version 8.5\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 o)\n{\n"
    ".reg .b64 %a; .reg .b32 %r<4>, %i; .reg .pred %p;\nld.param.u64 %a, [o];\n"
)


def _run(body: str, *, share_bytes: int, threads: int = 4, aligned: bool = True) -> bytes:
    region = machine.Region(1 << 20, bytearray(64), share_bytes)
    read = text.read(f"{_HEAD}{body}\n}}")
    runner = machine.Machine(
        read, [region], struct.pack("<Q", 1 << 20), aligned=aligned, max_steps=100
    )
    runner.run((1, 1, 1), (threads, 1, 1))
    return bytes(region.data)


_OWN = "mov.u32 %i, %tid.x; mad.wide.u32 %a, %i, 16, %a;"


def test_branches_loops_guards_and_vectors() -> None:
    body = f"""{_OWN}
        mov.u32 %r0, %tid.x;
    AGAIN: add.u32 %r1, %r1, 10;
        setp.eq.u32 %p, %r0, 0;
        @%p bra OUT;
        sub.u32 %r0, %r0, 1;
        bra AGAIN;
    OUT: @!%p exit;
        setp.lt.u32 %p, %i, 2;
        @%p mov.u32 %r2, -1;
        st.global.v4.b32 [%a], {{%r0, %r1, %r2, %r3}};"""
    words = struct.unpack("<16I", _run(body, share_bytes=16))
    assert words == (0, 10, 0xFFFFFFFF, 0, 0, 20, 0xFFFFFFFF, 0, 0, 30, 0, 0, 0, 40, 0, 0)


def test_a_narrow_load_extends_by_its_sign() -> None:
    body = f"{_OWN} mov.u32 %r0, 0x80ff; st.u16 [%a], %r0; ld.s8 %r1, [%a+1]; st.b32 [%a+4], %r1;"
    assert _run(body, share_bytes=16, threads=1)[:8].hex() == "ff80000080ffffff"


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (f"{_OWN} st.b32 [%a+16], %r0;", machine.Race),
        ("ld.b32 %r0, [%a]; st.b32 [%a], %r0;", machine.Race),
        ("L: bra L;", machine.Endless),
    ],
)
def test_what_has_no_result(body: str, what: type[Exception]) -> None:
    with pytest.raises(what):
        _run(body, share_bytes=16)


def test_a_fault_says_all_that_applies_in_any_thread() -> None:
    with pytest.raises(machine.Fault) as found:
        _run("mov.u32 %i, %tid.x; setp.eq.u32 %p, %i, 2; @%p trap;", share_bytes=16)
    assert found.value.codes == {719}
    absent = f"{_OWN} setp.eq.u32 %p, %i, 3; @%p ld.b32 %r0, [%a+4096];"
    odd = " ld.b32 %r0, [%a+1];"
    with pytest.raises(machine.Fault) as found:
        _run(absent, share_bytes=16)
    assert found.value.codes == {700}
    with pytest.raises(
        machine.Fault
    ) as found:  # thread 3 ends at the first, the others at the last
        _run(absent + odd, share_bytes=16)
    assert found.value.codes == {700, 716}
    _run(_OWN + odd, share_bytes=16, aligned=False)


@pytest.mark.parametrize("line", ["ld.parm.u32 %r0, [o];", "foo.u32 %r0;", "add.u32 %r0, %a, 1;"])
def test_what_it_does_not_know_it_does_not_guess(line: str) -> None:
    with pytest.raises(text.SyntaxFault):
        _run(line, share_bytes=16)


def test_it_shares_no_code_with_the_product() -> None:
    program = "import sys, support.oracles.scalar_ptx.machine; print([m for m in sys.modules if m in sys.argv])"
    said = subprocess.run(
        [sys.executable, "-c", program, "vgpu_sim", "numpy", "support.oracles.scalar_ptx"],
        env=os.environ | {"PYTHONPATH": str(Path(ieee.__file__).parents[3])},
        capture_output=True,
        check=True,
        text=True,
    )
    assert said.stdout == "['support.oracles.scalar_ptx']\n"


_MEET = """
.version 8.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
 .reg .b64 %o;
 .reg .b32 %t, %a, %b, %x;
 .shared .align 4 .b8 pad[8];
 .shared .b32 tile[8];
 ld.param.u64 %o, [out];
 mov.u32 %t, %tid.x;
 mov.u32 %a, tile;
 mad.lo.u32 %a, %t, 4, %a;
 st.shared.u32 [%a], %t;
 BARRIER
 xor.b32 %b, %a, 4;
 ld.shared.u32 %x, [%b];
 LATER
 mad.wide.u32 %o, %t, 4, %o;
 st.global.u32 [%o], %x;
 ret;
}
"""


def _meet(barrier: str, later: str = "") -> bytes:
    kernel = text.read(_MEET.replace("BARRIER", barrier).replace("LATER", later))
    region = machine.Region(4096, bytearray(32), share_bytes=4)
    machine.Machine(kernel, [region], struct.pack("<Q", 4096)).run((1, 1, 1), (8, 1, 1))
    return bytes(region.data)


def test_threads_see_across_a_barrier_what_others_stored() -> None:
    assert _meet("bar.sync 0;") == struct.pack("<8I", 1, 0, 3, 2, 5, 4, 7, 6)


@pytest.mark.parametrize(
    ("barrier", "later"), [("", ""), ("bar.sync 0;", "st.shared.u32 [%a], 1;")]
)
def test_what_depends_on_the_order_of_threads_is_a_race(barrier: str, later: str) -> None:
    with pytest.raises(machine.Race):
        _meet(barrier, later)


def test_shared_memory_has_bounds() -> None:
    with pytest.raises(machine.Fault):
        _meet("bar.sync 0;", "ld.shared.u32 %x, [tile+32];")
