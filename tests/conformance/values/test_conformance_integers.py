"""Integer instructions with operands known at compile time, for which native code is simplified."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from support.execution.both_backends import compare
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.exec.jit import Plan

_THREADS = 64
_PLANS = (Plan(16, 1), Plan(8, 2, tier=0), Plan(1, 4))
_MODES = ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16")


def _permutations() -> Iterator[str]:
    for selector in (0x3210, 0x0123, 0x7531, 0xFEDC, 0x5410, 0x4B83, 0xBA98, 0x10000):
        yield f"prmt.b32 %d, %a, %b, {selector};"
    for mode in _MODES[1:]:
        for n in range(5):
            yield f"prmt.b32{mode} %d, %a, %b, {n};"
        yield f"prmt.b32{mode} %d, %a, %b, %c;"


def _tables() -> Iterator[str]:
    for table in range(256):
        yield f"lop3.b32 %d, %a, %b, %c, {table};"


def _fields() -> Iterator[str]:
    for position, length in (
        (0, 8),
        (5, 3),
        (31, 1),
        (30, 9),
        (32, 4),
        (0, 32),
        (4, 0),
        (255, 255),
    ):
        yield f"bfe.u32 %d, %a, {position}, {length};"
        yield f"bfe.s32 %d, %a, {position}, {length};"
        yield f"bfi.b32 %d, %a, %b, {position}, {length};"
        yield f"bmsk.clamp.b32 %d, {position}, {length};"
        yield f"bmsk.wrap.b32 %d, {position}, {length};"
        yield f"szext.clamp.s32 %d, %a, {length};"
        yield f"szext.wrap.s32 %d, %a, {length};"
        yield f"shf.l.wrap.b32 %d, %a, %b, {position};"
        yield f"shf.r.clamp.b32 %d, %a, %b, {position};"


def _of_known_lanes() -> Iterator[str]:
    """Yield operands that are known lane by lane: thread indices and values derived from them."""
    for operand in ("%t", "%known"):
        yield f"bfe.u32 %d, {operand}, 3, 2;"
        yield f"bfe.s32 %d, {operand}, {operand}, 5;"
        yield f"bfi.b32 %d, {operand}, 0x1234567, {operand}, 4;"
        yield f"bmsk.clamp.b32 %d, {operand}, 7;"
        yield f"bmsk.wrap.b32 %d, {operand}, {operand};"
        yield f"szext.clamp.s32 %d, 0x9ABCDEF, {operand};"
        yield f"szext.wrap.u32 %d, 0x9ABCDEF, {operand};"
        yield f"bfind.s32 %d, {operand};"
        yield f"fns.b32 %d, {operand}, 2, 1;"
        yield f"fns.b32 %d, {operand}, 33, -2;"
        yield f"fns.b32 %d, -1, {operand}, -3;"
        yield f"popc.b32 %d, {operand};"
        yield f"clz.b32 %d, {operand};"
        yield f"brev.b32 %d, {operand};"
        yield f"shf.l.wrap.b32 %d, {operand}, 0x81, {operand};"
        yield f"shf.l.clamp.b32 %d, {operand}, 0x81, {operand};"
        yield f"shf.r.wrap.b32 %d, 0x70000001, {operand}, {operand};"
        yield f"shf.r.clamp.b32 %d, 0x70000001, {operand}, {operand};"
        yield f"prmt.b32 %d, {operand}, 0x80A0C0E0, {operand};"
        yield f"prmt.b32.ecl %d, {operand}, 0x80A0C0E0, {operand};"
        yield f"lop3.b32 %d, {operand}, 0x0F0F0F0F, {operand}, 0xCA;"


_GROUPS = {
    "permutations": _permutations,
    "tables": _tables,
    "fields": _fields,
    "known lanes": _of_known_lanes,
}
_REGISTERS = ".reg .b32 %a, %b, %c, %d, %t, %known; .reg .b64 %p, %q;"


def _program(instructions: list[str]) -> str:
    lines = [
        "mov.u32 %t, %tid.x; mul.lo.u32 %known, %t, 0x9E3779B1;",
        "ld.param.u64 %p, [in]; mad.wide.u32 %p, %t, 4, %p;",
        *(f"ld.global.b32 %{n}, [%p+{4 * _THREADS * i}];" for i, n in enumerate("abc")),
        "ld.param.u64 %q, [out]; mad.wide.u32 %q, %t, 4, %q;",
    ]
    for place, instruction in enumerate(instructions):
        lines += [instruction, f"st.global.b32 [%q+{4 * _THREADS * place}], %d;"]
    parameters = ".param .u64 in, .param .u64 out"
    return kernel("\n".join(lines), parameters, registers=_REGISTERS)


@pytest.mark.parametrize("group", _GROUPS)
def test_known_operands(group: str) -> None:
    instructions = list(_GROUPS[group]())
    module = compile_verified(_program(instructions))
    dice = random.Random(group)
    edges = [0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 31, 32, 0x00FF00FF, 0x80017FFE]
    words = [dice.choice([*edges, dice.getrandbits(32)]) for _ in range(3 * _THREADS)]
    given = np.array(words, "<u4").tobytes()
    out = bytes(4 * _THREADS * len(instructions))
    compare(module, [given, out], (1, 1, 1), (_THREADS, 1, 1), _PLANS)


# Operands, and the result that an H100 80GB HBM3 with driver 580.159 returned on 2026-11-27.
_WIDE_FIELDS = (
    ("bfe.u64", (0x8000000000000000, 0, 0x80000000), 0x8000000000000000),
    ("bfe.u64", (0xBFF0000000000000, 0x7F800001, 0x807FFFFF), 0),
    ("bfe.u64", (0x7FF0000000000001, 0x21, 0xFF800000), 0x3FF80000),
    ("bfe.u64", (0xF06E1907A2CEA2AF, 0x7C3C8715, 0x16939314), 0),
    ("bfi.b64", (0, 0x8000000000000000, 0, 0x80000000), 0),
    ("bfi.b64", (1, 0x3FF0000000000000, 0xBF800000, 1), 0x3FF0000000000000),
    ("bfi.b64", (0xBFF0000000000000, 0x7FF0000000000000, 1, 0x80000000), 0x7FE0000000000000),
    ("bfi.b64", (0x3F187C4919FB83CA, 0x3F87D7A182649CD9, 0xC436003C, 0x39AF3D8C),
     0x3F87D7A182649CD9),
)  # fmt: skip


@pytest.mark.parametrize("known", [False, True], ids=["loaded", "known"])
def test_fields_of_64_bits_may_begin_or_end_beyond_255(known: bool) -> None:
    lines, given = ["ld.param.u64 %p, [in]; ld.param.u64 %q, [out];"], list[int]()
    for place, (name, operands, _) in enumerate(_WIDE_FIELDS):
        wide = len(operands) - 2
        texts = [f"%w{n}" for n in range(wide)] + ["%a", "%b"]
        for text, value in zip(texts, operands, strict=True):
            kind = "b64" if text[1] == "w" else "b32"
            source = f"mov.{kind} {text}, {value:#x};"
            if not known:
                source = f"ld.global.{kind} {text}, [%p+{8 * len(given)}];"
            lines.append(source)
            given.append(value)
        lines.append(f"{name} %w0, {', '.join(texts)}; st.global.b64 [%q+{8 * place}], %w0;")
    code = kernel(
        "\n".join(lines),
        ".param .u64 in, .param .u64 out",
        registers=".reg .b32 %a, %b; .reg .b64 %p, %q, %w<2>;",
    )
    buffers = [np.array(given, "<u8").tobytes(), bytes(8 * len(_WIDE_FIELDS))]
    found = compare(compile_verified(code), buffers, (1, 1, 1), (_THREADS, 1, 1), _PLANS)
    wanted = np.array([result for *_, result in _WIDE_FIELDS], "<u8").tobytes()
    assert found[1] == wanted
