"""Which spellings of instructions are PTX: existing ones are, and others are syntax errors.

``spellings.txt`` lists instructions as nvcc, Triton and libcu++ emit them, without operands.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from vgpu_sim import compiler
from vgpu_sim.compiler import InvalidPtxError, PtxSyntaxError, UnsupportedPtxError
from vgpu_sim.compiler.lower.special import SPECIAL_REGISTERS
from vgpu_sim.compiler.lower.table import FORMS
from vgpu_sim.compiler.ptx import grammar, parse
from vgpu_sim.compiler.ptx.grammar import rows, tables

GOLDEN = Path(__file__).parents[3] / "golden" / "ptx"
SPELLINGS = (GOLDEN / "spellings.txt").read_text().split()
HEAD = ".version 9.4\n.target sm_90\n.address_size 64\n"


def _split(spelling: str) -> tuple[str, tuple[str, ...]]:
    opcode, *words = spelling.split(".")
    return opcode, tuple("." + word for word in words)


def _kernel(statement: str, version: str = "9.4") -> str:
    head = HEAD.replace("9.4", version)
    return f"{head}.entry k(.param .u64 out)\n{{\n.reg .b64 %rd<4>;\n  {statement}\nret;\n}}"


def test_what_compilers_write_is_ptx() -> None:
    errors = {spelling: grammar.first_error(*_split(spelling)) for spelling in SPELLINGS}
    assert {spelling: error for spelling, error in errors.items() if error is not None} == {}


def _around(choices: list[list[str]], index: int, word: str) -> Iterator[list[str]]:
    """Yield spellings with ``word`` at position ``index``: short ones first, at most a thousand."""
    shortest = [sorted(one, key=len) for one in choices]
    shortest[index] = [word]
    for spelled in itertools.islice(itertools.product(*shortest), 1000):
        yield list(spelled)


def test_every_form_that_is_lowered_is_ptx() -> None:
    for form in FORMS:
        choices = [
            [*(f".{word}" for word in sorted(slot.words)), *([""] if slot.optional else [])]
            for slot in form.slots
        ]
        for index in range(len(choices)):  # a word of each slot must be valid in some spelling
            assert any(
                grammar.first_error(form.opcode, tuple(filter(None, spelled))) is None
                for word in choices[index]
                for spelled in _around(choices, index, word)
            ), form.pattern


def test_every_word_of_a_row_is_taken_where_it_stands() -> None:
    """Every word of the tables is reachable: no optional slot before it matches it instead."""
    for opcode, forms in grammar.instructions().items():
        for form in forms:
            slots = list(itertools.chain.from_iterable(form.groups))
            for chosen in slots:
                for word in sorted(chosen.words):
                    spelled = [
                        word if slot is chosen else min(slot.words or {slot.prefixes[0] + "x"})
                        for slot in slots
                        if slot is chosen or not slot.optional
                    ]
                    error = grammar.first_error(opcode, tuple("." + word for word in spelled))
                    assert error is None, (opcode, spelled, error)


@pytest.mark.parametrize(
    ("statement", "column", "message"),
    [
        ("frobnicate.u32 %rd1;", 3, "'frobnicate' is not an instruction of PTX"),
        ("ld.parm.u64 %rd1, [out];", 5, "'ld' has no modifier '.parm'"),
        ("@%p1 ld.global.u65 %rd1, [out];", 17, "'ld' has no modifier '.u65'"),
        ("add.s64.s64 %rd1, %rd1, %rd1;", 10, "'.s64' cannot stand after 'add.s64'"),
        ("ld.global %rd1, [out];", 5, "'ld.global' needs a further modifier"),
        ("add %rd1, %rd1, %rd1;", 3, "'add' needs a further modifier"),
        ("ret.u32;", 6, "'ret' has no modifier '.u32'"),
        ("@@ nonsense", 4, "expected a predicate, found '@'"),
        (".frobnicate 5;", 3, "unknown directive in a function, found '.frobnicate'"),
        (".reg .u65 %x;", 8, "unknown type or specifier, found '.u65'"),
    ],
)
def test_a_form_of_no_version_is_a_syntax_error_with_its_place(
    statement: str, column: int, message: str
) -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        parse(_kernel(statement))
    assert (caught.value.line, caught.value.column) == (7, column)
    assert caught.value.message == message


def test_old_debugging_lines_are_skipped() -> None:
    parse(_kernel("@@DWARF .byte 0x01, nonsense"))
    with pytest.raises(PtxSyntaxError, match="expected a declaration or a directive, found '@'"):
        parse(HEAD + "@@DWARFS\n")


def test_what_a_newer_version_may_have_is_not_supported() -> None:
    for statement in ("frobnicate.u32 %rd1;", "add.u65 %rd1, %rd1, %rd1;"):
        with pytest.raises(UnsupportedPtxError):
            compiler.compile_ptx(_kernel(statement, version="9.5"), capability=(9, 0))


def test_special_registers_have_their_own_components() -> None:
    with pytest.raises(InvalidPtxError, match="'%tid' has no component 'q'"):
        compiler.compile_ptx(_kernel("mov.u32 %rd1, %tid.q;"), capability=(9, 0))
    with pytest.raises(InvalidPtxError, match="'%tod' is not declared"):
        compiler.compile_ptx(_kernel("mov.u64 %rd1, %tod;"), capability=(9, 0))
    with pytest.raises(UnsupportedPtxError, match=r"special register '%perctamemorysize'"):
        compiler.compile_ptx(_kernel("cvt.u64.u32 %rd1, %perctamemorysize;"), capability=(9, 0))
    for spelling in SPECIAL_REGISTERS:
        name, _, component = spelling.partition(".")
        assert set(component) <= grammar.SPECIAL_REGISTERS[name]


def test_numbered_special_registers_end_where_the_manual_says() -> None:
    for name, count in (("%pm{}", 8), ("%pm{}_64", 8), ("%envreg{}", 32)):
        known = [grammar.is_special(name.format(index)) for index in range(count + 1)]
        assert known == [True] * count + [False]


WORDS = sorted({word for spelling in SPELLINGS for word in _split(spelling)[1]})


@given(
    st.sampled_from(SPELLINGS),
    st.integers(0, 20),
    st.from_regex(r"\.[a-z][a-z0-9_]{0,6}", fullmatch=True).filter(lambda word: word not in WORDS),
)
def test_an_invented_modifier_is_found_wherever_it_stands(
    spelling: str, place: int, invented: str
) -> None:
    opcode, modifiers = _split(spelling)
    place = min(place, len(modifiers))
    known = any(form.knows(invented[1:]) for form in grammar.instructions()[opcode])
    error = grammar.first_error(opcode, (*modifiers[:place], invented, *modifiers[place:]))
    assert known or error == (place, f"{opcode!r} has no modifier {invented!r}")


def test_a_table_with_a_mistake_is_refused() -> None:
    with pytest.raises(ValueError, match="no class of words"):
        rows.read("add $nothing")
    with pytest.raises(ValueError, match="is not closed"):
        rows.read("add [ ftz? f32")


def test_later_directives_are_known() -> None:
    module = parse(
        HEAD
        + """
        .file 1 "a.cu"
        .file 2 "a.ir"
        .entry k() .language "ptx", 5 .minperctamemory 64 {
          .loc 1 2 3
          .loc_intermediate 2 3 4
          ret;
        }
        .nv_intermediate_source_section {
          .code_block {
            .ir_name: "TileIR"
            .sourceFileName: 2
            .source_begin
              what(#ever) { "is written
            .source_end
          }
        }
        """
    )
    assert [d.name for d in module.functions[0].directives] == [".language", ".minperctamemory"]
    assert module.sections[0].name == ".nv_intermediate_source_section"


_SIMD = {"vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset"}
WITHOUT_OPERANDS = {"brx", "call", "ldmatrix", "mma", "mov", "stmatrix", "tcgen05", "wmma"}
WITHOUT_OPERANDS |= {f"{name}{lanes}" for name in _SIMD for lanes in (2, 4)}
"""Instructions whose operands are checked only by the lowering, or by ``legality.moves``."""


def test_every_instruction_that_is_lowered_has_a_row_with_its_operands() -> None:
    lowered = {form.opcode for form in FORMS}
    assert lowered <= grammar.instructions().keys()
    stated = tables.statements()
    silent = {one for one in lowered if not any(line.operands for line in stated.get(one, ()))}
    assert silent == WITHOUT_OPERANDS


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("bfe $word : =1 1 u32", [("=1 1 u32", "")]),
        ("dp4a $int32 : =s32 1 : 61 5.0", [("=s32 1", "61 5.0")]),
        ("tanh f32\n  bf16 : : 90 7.8", [("", "90 7.8")]),
        ("exit : -", [("-", "")]),
        ("lop3 b32\n        : =b32\n  and|or : imm : 70 8.2", [("=b32", ""), ("imm", "70 8.2")]),
        ("ret uni?", []),
    ],
)
def test_a_row_states_operands_and_needs(
    table: str, expected: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "TABLES", (table,))
    found = [one for stated in tables.statements.__wrapped__().values() for one in stated]
    assert [(one.operands, one.need) for one in found] == expected
    assert len(rows.read(table)) == 1


def test_operands_of_an_instruction_stand_in_one_of_its_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tables, "TABLES", ("add $int : =1 1 1\nadd cc $word : =1 1 1",))
    with pytest.raises(ValueError, match="several rows of add state its operands"):
        tables.statements.__wrapped__()
