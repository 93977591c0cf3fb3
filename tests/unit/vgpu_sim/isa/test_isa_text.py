"""Assembler and disassembler: exact round trip, and errors with line and column."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings

from support.kernels.isa_programs import modules
from vgpu_sim.cli.ptx import isa as cli
from vgpu_sim.isa import Literal, Module, Op, Register, Symbol, container, encoding
from vgpu_sim.isa.asm import assemble
from vgpu_sim.isa.disasm import disassemble
from vgpu_sim.isa.errors import AssemblyError

GOLDEN = Path(__file__).parents[3] / "golden" / "isa"

_HEAD = """.isa 1
.variable table space GLOBAL align 8 size 16 offset 0 init "0102"
.function f
    .registers r0-r0 32
    .registers r1-r1 64
    .predicates 1
{
"""


def _body(*lines: str) -> str:
    return _HEAD + "\n".join([*lines, "    RET", "}", ""])


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(modules())
def test_text_gives_back_the_module(module: Module) -> None:
    text = disassemble(module)
    assert assemble(text) == module
    assert disassemble(assemble(text)) == text


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.isa")), ids=lambda path: path.stem)
def test_golden_texts_are_canonical(path: Path) -> None:
    text = path.read_text()
    assert disassemble(assemble(text)) == text
    assert container.decode(container.encode(assemble(text))) == assemble(text)


def test_there_are_golden_texts() -> None:
    assert len(list(GOLDEN.glob("*.isa"))) >= 4


def test_literals_symbols_labels_and_comments() -> None:
    module = assemble(
        _body(
            "// a comment",
            "start:",
            "    MOV.B32 r0, -1 // another",
            "    MOV.B64 r1, &(table-4) // ptx:12",
            "    MOV.B64 r1, &table",
            "@!p0 BRA.UNI start",
        )
    )
    code = module.functions[0].code
    assert code[0].srcs == (Literal(2**64 - 1),)
    assert code[1].srcs == (Symbol("table", -4),)
    assert code[2].srcs == (Symbol("table"),)
    assert (code[3].target, code[3].uniform) == (0, True)
    assert module.functions[0].lines == (0, 12, 0, 0, 0)
    assert module.variables[0].initial == b"\x01\x02"


def test_an_address_keeps_addend_and_displacement_apart() -> None:
    code = assemble(_body("    LD.GLOBAL.B32 r0, [&(table+4)-8]")).functions[0].code
    assert (code[0].srcs, code[0].displacement) == ((Symbol("table", 4),), -8)
    assert code[0].dsts == (Register(0),)


@pytest.mark.parametrize(
    ("line", "column", "reason"),
    [
        ("    MOVE.B32 r0, 1", 5, "unknown opcode 'MOVE'"),
        ("    MOV.B33 r0, 1", 5, "unknown modifier 'B33' of MOV"),
        ("    MOV r0, 1", 5, "MOV needs a type"),
        ("    ADD.FTZ.S32 r0, r0, r0", 5, "unknown modifier 'FTZ' of ADD"),
        ("    FADD.FTZ.F64 r1, r1, r1", 5, "FADD.F64 does not take FTZ"),
        ("    FADD.RN.RZ.F32 r0, r0, r0", 5, "modifier 'RZ' contradicts"),
        ("    MOV.B32 r0; 1", 15, "unexpected ';'"),
        ("    MOV.B32 r0, 1 2", 19, "unexpected '2'"),
        ("    MOV.B32 r0,", 16, "expected a number, found 'end of line'"),
        ("    MOV.B32 q0, 1", 13, "'q0' is not a register or predicate"),
        ("    MOV.B32 r0, 0x10000000000000000", 17, "does not fit 64 bits"),
        ("    MOV.B32 r0, _", 17, "a source operand must not be absent"),
        ("@r0 MOV.B32 r0, 1", 2, "'r0' is not a predicate"),
        ("    BRA nowhere", 9, "label 'nowhere' is not defined"),
        ("    S2R.B32 r0, CLOCK", 17, "unknown special register 'CLOCK'"),
        ("    LD.GLOBAL.B32 r0, r1", 23, "expected '['"),
        ("    LD.GLOBAL.V2.B32 {r0, 5}, [r1]", 27, "expected a register or predicate"),
        ("    ADD.S32 r0, r0, r7", 5, "r7 does not exist"),
        ("    ADD.S64 r1, r1, r0", 5, "r0 has 32 bits where 64 are needed"),
        ("    MOV.B64 r1, &none", 5, "none is not a variable"),
        ("    .shared 4", 5, "expected a label or an opcode"),
    ],
)
def test_errors_have_line_and_column(line: str, column: int, reason: str) -> None:
    with pytest.raises(AssemblyError) as caught:
        assemble(_body("    NOP", line))
    assert (caught.value.line, caught.value.column) == (9, column)
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "does not begin with .isa"),
        (".isa 2", 1, "only version 1"),
        (".isa 1\n.refused kernel k", 2, "refused for 0 reasons"),
        (".isa 1\n.refused kernel k" + 257 * '\n.reason 1 1 "m"', 2, "refused for 257 reasons"),
        (".isa 1\n.refused label k", 2, "expected 'variable'"),
        ('.isa 1\n.reason 1 1 "m"', 2, "unknown directive .reason"),
        (".isa 1\n.function f\n{\n    RET\n", 5, "not closed"),
        (".isa 1\n.function f\n}", 3, "has no body"),
        (".isa 1\n.function f\n{\n}", 2, "0 words of code"),
        (".isa 1\n.function f\n.registers r1-r2 32\n", 3, "a range from r0 on"),
        (".isa 1\n.function f\n.registers r0-r99999 32\n", 3, "more than 32768 registers"),
        (".isa 1\n.function f\n.registers r0-r1 33\n{\n RET\n}", 2, "16, 32 or 64 bits"),
        (".isa 1\n.wrong", 2, "unknown directive .wrong"),
        (".isa 1\n.variable v space GLOBAL align 3 size 1 offset 0", 2, "alignment 3"),
        ('.isa 1\n.variable v space GLOBAL align 1 size 1 offset 0 init "0g"', 2, "hexadecimal"),
        ('.isa 1\n.function "bad\\q"', 2, "malformed string"),
        (_body("a:", "a:"), 9, "label 'a' is defined twice"),
        (".isa 1\n.shared " + "9" * 5000, 2, "unknown directive .shared"),
        (".isa 1\n.ptx " + "9" * 5000 + " 0", 2, "the number is too large"),
    ],
)
def test_errors_of_the_frame_have_a_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(AssemblyError) as caught:
        assemble(text)
    assert caught.value.line == line
    assert reason in caught.value.reason


def test_the_command_line_makes_the_round_trip(tmp_path: Path) -> None:
    source, binary = tmp_path / "f.isa", tmp_path / "f.bin"
    source.write_text(_body("    MOV.B32 r0, 1"))
    runner = CliRunner()
    made = runner.invoke(cli.command, ["asm", str(source), "-o", str(binary)])
    assert made.exit_code == 0, made.output
    shown = runner.invoke(cli.command, ["disasm", str(binary)])
    assert shown.exit_code == 0
    assert assemble(shown.output) == assemble(source.read_text())


def test_the_command_line_says_where_an_error_is(tmp_path: Path) -> None:
    source, binary = tmp_path / "f.isa", tmp_path / "f.bin"
    source.write_text(_body("    MOV.B32 r0"))
    made = CliRunner().invoke(cli.command, ["asm", str(source), "-o", str(binary)])
    assert made.exit_code == 2
    assert f"{source}:8:5: MOV: number of sources is 0, not 1" in made.output
    assert not binary.exists()
    binary.write_bytes(b"garbage")
    shown = CliRunner().invoke(cli.command, ["disasm", str(binary)])
    assert shown.exit_code == 2
    assert "magic number is missing" in shown.output


def test_every_opcode_is_in_the_golden_text_and_keeps_its_encoding() -> None:
    """Encodings are part of the binary format: old files must read the same for ever."""
    (function,) = assemble((GOLDEN / "every_opcode.isa").read_text()).functions
    assert {instruction.op for instruction in function.code} == set(Op)
    words = bytes.fromhex((GOLDEN / "every_opcode.words").read_text())
    assert encoding.encode(function).words == words
