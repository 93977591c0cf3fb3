"""Every row of the binding for integers beyond plain arithmetic, against the manual's pseudocode.

Like ``test_compiler_rows``: each row in all its types and modifiers, over many operands, on the
interpreter; the oracle computes bit by bit on Python's integers (``scalar_ptx.integers``).
"""

import re

import numpy as np
import pytest

from support.execution.binding_rows import COUNT, forms, patterns, run, spellings
from support.execution.interpreted_ptx import compile_verified, kernel, run as run_kernel
from support.oracles.number_reference import bits_of
from support.oracles.scalar_ptx import integers
from vgpu_sim.compiler import PtxError
from vgpu_sim.compiler.lower.forms import Form

_NAMES = ("%a", "%b", "%c", "%e")


def _is_checked(form: Form) -> bool:
    """Return whether the oracle supports the row; it does not support plain arithmetic."""
    if form.opcode == "lop3" or form.pattern.endswith(("f32", "f64")):
        return False
    spelled = next(spellings(form), None)
    return spelled is not None and integers.function(tuple(spelled[0].split("."))) is not None


@pytest.mark.parametrize("form", forms(_is_checked))
def test_integers(form: Form) -> None:
    for spelling, _ in spellings(form):
        what = integers.function(tuple(spelling.split(".")))
        assert what is not None
        operands = [(f"u{bits}", patterns(f"u{bits}")) for bits in what.sources]
        names = ", ".join(_NAMES[: len(operands)])
        got = run(f"{spelling} %d, {names};", f"u{what.bits}", operands)
        for lane in range(COUNT):
            numbers = [values[lane] for _, values in operands]
            assert got[lane] == what.compute(*numbers), (spelling, list(map(hex, numbers)))


def test_lop3_by_every_table() -> None:
    operands = [("u32", patterns("u32")) for _ in range(3)]
    what = integers.function(("lop3", "b32"))
    assert what is not None
    for table in range(256):
        got = run(f"lop3.b32 %d, %a, %b, %c, {table};", "u32", operands)
        for lane in range(COUNT):
            numbers = [values[lane] for _, values in operands]
            assert got[lane] == what.compute(*numbers, table), (table, list(map(hex, numbers)))


@pytest.mark.parametrize("combine", ["and", "or"])
def test_lop3_with_a_predicate(combine: str) -> None:
    a = [lane & 3 for lane in range(COUNT)]
    b = [lane >> 1 & 1 for lane in range(COUNT)]
    setup = "setp.ne.u32 %q, %b, 0;"
    for first, minus in (("%d", ""), ("_", ""), ("%d", "!")):
        text = f"lop3.{combine}.b32 {first}|%p, %a, 2, 0, 0xC0, {minus}%q; selp.u32 %d, 1, 0, %p;"
        got = run(text, "u32", [("u32", a), ("u32", b)], setup)
        for lane in range(COUNT):
            some, chosen = a[lane] & 2 != 0, bool(b[lane]) != bool(minus)
            assert got[lane] == (some and chosen if combine == "and" else some or chosen)


def test_lop3_without_a_destination_has_no_effect() -> None:
    values = list(range(COUNT))
    got = run("mov.u32 %d, 7; lop3.b32 _, %a, %a, %a, 0xFF;", "u32", [("u32", values)])
    assert set(got) == {7}


_LIMBS = 4


def _number(limbs: list[int], bits: int) -> int:
    return sum(limb << bits * place for place, limb in enumerate(limbs))


def _chain(lines: list[str], bits: int, outputs: int) -> list[tuple[list[int], list[int], int]]:
    """Run ``lines`` on two numbers of limbs %a0..., %b0...; return both and the result %d0... per
    thread.
    """
    size = bits // 8
    a, b = ([patterns(f"u{bits}") for _ in range(_LIMBS)] for _ in "ab")
    names = [f"%{name}{place}" for name in "ab" for place in range(_LIMBS)]
    names += [f"%d{place}" for place in range(outputs)]
    body = ["mov.u32 %i, %tid.x; ld.param.u64 %p, [p]; mad.wide.u32 %p, %i, " + f"{size}, %p;"]
    at = {name: COUNT * size * place for place, name in enumerate(names)}
    body += [f"ld.global.u{bits} {n}, [%p+{at[n]}];" for n in names if n[1] in "ab"]
    body += [f"mov.u{bits} {n}, 0;" for n in names if n[1] == "d"]
    body += lines
    body += [f"st.global.u{bits} [%p+{at[n]}], {n};" for n in names if n[1] == "d"]
    registers = f".reg .b{bits} {', '.join(names)}; .reg .b32 %i; .reg .b64 %p; .reg .pred %q;"
    data = np.array([*a, *b, *[[0] * COUNT] * outputs], f"<u{size}").reshape(-1)
    source = kernel("\n".join(body), ".param .u64 p", registers=registers)
    out = run_kernel(source, [data], block=(COUNT, 1, 1))[0].reshape(-1, COUNT)
    return [
        (
            [limb[lane] for limb in a],
            [limb[lane] for limb in b],
            _number([int(out[2 * _LIMBS + place][lane]) for place in range(outputs)], bits),
        )
        for lane in range(COUNT)
    ]


@pytest.mark.parametrize("type_", ["u32", "s32", "u64", "s64"])
def test_wide_sums_and_differences(type_: str) -> None:
    bits = bits_of(type_)
    for opcode, sign in (("add", 1), ("sub", -1)):
        lines = [f"{opcode}.cc.{type_} %d0, %a0, %b0;"]
        lines += [f"{opcode}c.cc.{type_} %d{i}, %a{i}, %b{i};" for i in range(1, _LIMBS)]
        lines += [f"{opcode}c.{type_} %d{_LIMBS}, 0, 0;"]
        for a, b, got in _chain(lines, bits, _LIMBS + 1):
            exact = _number(a, bits) + sign * _number(b, bits)
            assert got == exact % (1 << bits * (_LIMBS + 1)), (opcode, a, b)


@pytest.mark.parametrize("bits", [32, 64])
def test_wide_products(bits: int) -> None:
    """The chains that compilers emit: low halves of a row, then its high halves."""
    kind, lines = f"u{bits}", []
    for row in range(_LIMBS):
        for half, above in (("lo", 0), ("hi", 1)):
            for place in range(_LIMBS):
                opcode = f"mad{'c' if place else ''}.{half}.cc.{kind}"
                to = f"%d{row + place + above}"
                lines.append(f"{opcode} {to}, %a{place}, %b{row}, {to};")
            for rest in range(row + _LIMBS + above, 2 * _LIMBS):
                lines.append(f"addc.cc.{kind} %d{rest}, %d{rest}, 0;")
    for a, b, got in _chain(lines, bits, 2 * _LIMBS):
        assert got == _number(a, bits) * _number(b, bits), (a, b)


def test_the_flag_keeps_what_the_guard_skips_and_what_has_no_cc() -> None:
    lines = [
        "setp.ne.u32 %q, %b0, 0;",
        "add.cc.u32 %d1, 0xFFFFFFFF, 1;",  # the flag is set
        "@%q sub.cc.u32 %d1, 2, 5;",  # a borrow: where it is executed, the adder's carry is cleared
        "addc.u32 %d0, 0, 0;",  # does not change the flag
        "mad.lo.u32 %d1, %a0, %a0, %a0;",
        "addc.u32 %d1, 0, 0;",
        "madc.lo.u32 %d2, 3, 5, 7;",
    ]
    for _, b, got in _chain(lines, 32, 3):
        flag = int(b[0] == 0)
        assert got == flag | flag << 32 | 22 + flag << 64


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lop3.b32 %d, %a, %a, %a, 256;", "a constant from 0 to 255"),
        ("lop3.b32 %d, %a, %a, %a, %a;", "a constant from 0 to 255"),
        ("lop3.and.b32 %d, %a, %a, %a, 3, %p;", "needs the destination pair d|p"),
        ("lop3.xor.b32 %d|%p, %a, %a, %a, 3, %p;", "no modifier '.xor'"),
        ("lop3.b64 %d, %a, %a, %a, 3;", "no modifier '.b64'"),
        ("popc.b64 %w, %w;", "'%w' has 64 bits"),
        ("popc.b32 %w, %a;", "'%w' has 64 bits"),
        ("clz.u32 %d, %a;", "no modifier '.u32'"),
        ("bfind.b32 %d, %a;", "no modifier '.b32'"),
        ("bfe.b32 %d, %a, 1, 2;", "no modifier '.b32'"),
        ("bfe.u64 %w, %w, %w, 2;", "'%w' has 64 bits"),
        ("bfi.u32 %d, %a, %a, 1, 2;", "no modifier '.u32'"),
        ("brev.b16 %h, %h;", "no modifier '.b16'"),
        ("shf.l.b32 %d, %a, %a, 3;", "cannot stand after"),
        ("shf.l.wrap.b64 %w, %w, %w, 3;", "no modifier '.b64'"),
        ("bmsk.b32 %d, %a, %a;", "cannot stand after"),
        ("prmt.b32.f4f %d, %a, %a, %a;", "no modifier '.f4f'"),
        ("fns.b32 %d, %a, %a;", "takes 4 operands"),
        ("add.cc.u16 %h, %h, %h;", "cannot stand after"),
        ("addc.b32 %d, %a, %a;", "no modifier '.b32'"),
        ("mad.wide.cc.u32 %w, %a, %a, %w;", "cannot stand after"),
        ("mad.lo.sat.s32 %d, %a, %a, %a;", "cannot stand after"),
        ("add.sat.u64 %w, %w, %w;", "cannot stand after"),
        ("mul24.lo.u16 %h, %h, %h;", "no modifier '.u16'"),
        ("mad24.lo.sat.s32 %d, %a, %a, %a;", "cannot stand after"),
        ("sad.b32 %d, %a, %a, %a;", "no modifier '.b32'"),
        ("dp4a.b32.u32 %d, %a, %a, %a;", "no modifier '.b32'"),
        ("dp2a.u32.u32 %d, %a, %a, %a;", "cannot stand after"),
        ("cnot.u32 %d, %a;", "no modifier '.u32'"),
    ],
)
def test_invalid_ptx_is_refused(text: str, reason: str) -> None:
    registers = ".reg .b16 %h; .reg .b32 %d, %a; .reg .b64 %w; .reg .pred %p;"
    with pytest.raises(PtxError, match=re.escape(reason)):
        compile_verified(kernel(text, registers=registers))
