"""Video instructions and packed integers against the manual's pseudocode, on the interpreter."""

import re

import numpy as np
import pytest

from support.execution.binding_rows import COUNT, forms, patterns, run, spellings
from support.execution.interpreted_ptx import compile_verified, kernel, run as run_kernel
from support.kernels.random_kernels import video as random_video
from support.kernels.random_kernels.dice import Dice
from support.kernels.random_kernels.program import GENERAL, Program
from support.oracles.scalar_ptx import video
from support.oracles.scalar_ptx.text import read
from vgpu_sim.compiler import PtxError
from vgpu_sim.compiler.lower.forms import Form
from vgpu_sim.compiler.lower.table import FORMS

_REGISTERS = GENERAL[32]


@pytest.mark.parametrize("form", forms(lambda form: "s16x2" in form.types))
def test_packed_integers(form: Form) -> None:
    for spelling, _ in spellings(form):
        what = video.packed_operation(tuple(spelling.split(".")))
        assert what is not None
        operands = [("u32", patterns("u32")) for _ in what.sources]
        names = ", ".join(["%a", "%b"][: len(operands)])
        got = run(f"{spelling} %d, {names};", "u32", operands)
        for lane in range(COUNT):
            numbers = [values[lane] for _, values in operands]
            assert got[lane] == what.compute(*numbers), (spelling, list(map(hex, numbers)))


def _machine_result(text: str, words: list[int]) -> int:
    """Evaluate one instruction whose operands are registers %r0..., or constants."""
    (statement,) = read(f".visible .entry k() {{ {text} }}").statements
    what = video.read(statement.words, statement.operands)
    numbers = [
        words[int(source[2:])] if isinstance(source, str) else source.value & 0xFFFFFFFF
        for source in what.sources
    ]
    return what.compute(*numbers)


def _text(seed: int, simd: bool) -> str:
    """Return a random instruction without special registers as operands."""
    while True:
        seed += 1_000_003
        program = Program(Dice(seed))
        make = random_video.simd_text if simd else random_video.scalar_text
        text = make(program)
        if not re.search(r"%[^r]", text):
            return text


@pytest.mark.parametrize("simd", [False, True], ids=["scalar", "simd"])
def test_random_video_instructions(simd: bool) -> None:
    texts = [_text(seed, simd) for seed in range(600)]
    words = [patterns("u32") for _ in range(_REGISTERS)]
    body = ["mov.u32 %i, %tid.x; ld.param.u64 %p, [p]; mad.wide.u32 %p, %i, 4, %p;"]
    for place, text in enumerate(texts):
        body += [f"ld.global.u32 %r{i}, [%p+{4 * COUNT * i}];" for i in range(_REGISTERS)]
        to = re.search(r"%r\d+", text)
        assert to is not None
        body += [text, f"st.global.u32 [%p+{4 * COUNT * (_REGISTERS + place)}], {to[0]};"]
    data = np.array([*words, *[[0] * COUNT] * len(texts)], "<u4").reshape(-1)
    registers = f".reg .b32 %i, %r<{_REGISTERS}>; .reg .b64 %p;"
    source = kernel("\n".join(body), ".param .u64 p", registers=registers)
    out = run_kernel(source, [data], block=(COUNT, 1, 1))[0].reshape(-1, COUNT)
    for place, text in enumerate(texts):
        for lane in range(COUNT):
            given = [values[lane] for values in words]
            wanted = _machine_result(text, given)
            got = int(out[_REGISTERS + place][lane])
            assert got == wanted, (text, [f"r{i}={v:#x}" for i, v in enumerate(given)])


@pytest.mark.parametrize(
    ("spelling", "given", "wanted"),
    [
        ("vadd.s32.s32.s32.max", (0x7FFFFFFF, 1, 0), 0),
        ("vadd.s32.u32.u32.min", (0xFFFFFFFF, 2, 5), 1),
        ("vsub.s32.s32.s32.min", (0x80000000, 1, 0), 0),
        ("vset.s32.s32.lt.max", (0, 1, 0xFFFFFFFF), 1),
        ("vset.u32.s32.lt.max", (0, 1, 0xFFFFFFFF), 0xFFFFFFFF),
        ("vset.s32.u32.ge.min", (0, 1, 0x80000000), 0x80000000),
        # These follow the code that ptxas V13.4.59 generates for sm_80, sm_90 and sm_120.
        ("vadd.u32.u32.u32.max", (0x7FFFFFFF, 1, 0xFFFFFFFF), 0x80000000),
        ("vadd.u32.u32.u32.min", (0x7FFFFFFF, 1, 0xFFFFFFFF), 0xFFFFFFFF),
        ("vadd.u32.u32.u32.min", (0xFFFFFFFF, 3, 5), 2),
        ("vsub.u32.u32.u32.max", (1, 2, 7), 0xFFFFFFFF),
        ("vmin.u32.s32.u32.min", (0x80000000, 1, 7), 7),
        ("vmax.u32.s32.s32.max", (0x80000000, 0xFFFFFFFE, 0xFFFFFFFF), 0xFFFFFFFE),
        ("vabsdiff.u32.u32.u32.max", (0, 0x80000000, 0xFFFFFFFF), 0xFFFFFFFF),
        ("vadd.s32.s32.s32.sat", (0x7FFFFFFF, 1, 0), 0x7FFFFFFF),
        ("vshl.u32.u32.u32.clamp", (3, 4, 0xFF), 48),
        ("vset.u32.u32.lt", (1, 2, 0xFF), 1),
    ],
)
def test_second_operations_are_an_h100s(
    spelling: str, given: tuple[int, int, int], wanted: int
) -> None:
    operands = [("u32", [value] * COUNT) for value in given]
    got = run(f"{spelling} %d, %a, %b, %c;", "u32", operands)
    assert set(got) == {wanted}


def test_random_instructions_reach_every_row() -> None:
    texts = [_text(seed, simd) for seed in range(3000) for simd in (False, True)]
    seen = {text.split(".")[0] for text in texts}
    assert seen == video.OPCODES == {f.opcode for f in FORMS if f.opcode[0] == "v"} - {"vote"}
    everything = "\n".join(texts)
    for part in (
        ".sat.min",
        ".po",
        ".shr15",
        ", -%r",
        ".wrap.add",
        "%r3.h1,",
        ".b20,",
        ".sat.shr7",
    ):
        assert part in everything, part


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("vadd.u32.u32.u32 %d.b0, %a, %b;", "combination of operand c"),
        ("vadd.u32.u32.u32.add %d, %a, %b;", "takes 4 operands"),
        ("vadd.u32.u32.u32.add %d.b0, %a, %b, %c;", "combination of operand c"),
        ("vadd.u32.u32.u32 %d, %a.b4, %b;", "'.b4' does not select a byte or half"),
        ("vadd.u32.u32.u32 %d, %a.h10, %b;", "'.h10' does not select a byte or half"),
        ("vadd.u64.u32.u32 %d, %a, %b;", "no modifier '.u64'"),
        ("vadd.u32.u32 %d, %a, %b;", "needs a further modifier"),
        ("vshl.u32.u32.s32.clamp %d, %a, %b;", "cannot stand after"),
        ("vshl.u32.u32.u32 %d, %a, %b;", "needs a further modifier"),
        ("vset.u32.u32.eq.sat %d, %a, %b;", "no modifier '.sat'"),
        ("vmad.u32.u32.u32.po %d, -%a, %b, %c;", "cannot have a negated operand"),
        ("vmad.u32.u32.u32 %d, -%a, %b, -%c;", "cannot negate both the product and c"),
        ("vmad.u32.u32.u32 %d.h0, %a, %b, %c;", "vmad must write all of d"),
        ("vmad.u32.u32.u32 %d, %a, %b, %c.b0;", "no component"),
        ("vadd.u32.u32.u32 %d, -%a, %b;", "a negated register"),
        ("vadd2.u32.u32.u32 %d, %a, %b;", "takes 4 operands"),
        ("vadd2.u32.u32.u32 %d.h01, %a, %b, %c;", "'.h01' is not a mask"),
        ("vadd2.u32.u32.u32 %d.b0, %a, %b, %c;", "'.b0' is not a mask"),
        ("vadd2.u32.u32.u32 %d, %a.h40, %b, %c;", "'.h40' does not select 2 parts"),
        ("vadd2.u32.u32.u32 %d, %a.h1, %b, %c;", "'.h1' does not select 2 parts"),
        ("vadd4.u32.u32.u32 %d.b11, %a, %b, %c;", "'.b11' is not a mask"),
        ("vadd4.u32.u32.u32 %d, %a.b321, %b, %c;", "'.b321' does not select 4 parts"),
        ("vadd4.u32.u32.u32.sat.add %d, %a, %b, %c;", "cannot stand after"),
        ("vavrg2.u32.u32.u32.min %d, %a, %b, %c;", "no modifier '.min'"),
        ("add.relu.s16x2 %d, %a, %b;", "no modifier '.relu'"),
        ("add.u16x4 %d, %a, %b;", "no modifier '.u16x4'"),
        ("mul.lo.u16x2 %d, %a, %b;", "'mul' has no modifier '.u16x2'"),
    ],
)
def test_invalid_ptx_is_refused(text: str, reason: str) -> None:
    with pytest.raises(PtxError, match=re.escape(reason)):
        compile_verified(kernel(text, registers=".reg .b32 %d, %a, %b, %c;"))
