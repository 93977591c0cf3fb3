"""Unsupported features cause a refusal of the kernels that use them, and of nothing else in a
module.
"""

import random
from collections.abc import Iterator

import pytest

from vgpu_sim.compiler import InvalidPtxError, UnsupportedPtxError, compile_ptx
from vgpu_sim.compiler.errors import PtxSyntaxError
from vgpu_sim.compiler.lower.forms import Match
from vgpu_sim.compiler.lower.table import FORMS_BY_OPCODE
from vgpu_sim.compiler.ptx import grammar
from vgpu_sim.compiler.ptx.grammar import rows
from vgpu_sim.isa import Module
from vgpu_sim.isa.verify import MAXIMUM_REASONS, check_module

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
LATER = "pmevent 1;"  # represents any unsupported feature


def _compile(text: str) -> Module:
    module = compile_ptx(HEAD + text, capability=(9, 0), partial=True)
    check_module(module)
    return module


def _refuse(text: str) -> dict[str, list[int]]:
    """Return the lines of the reasons for each refused kernel or variable; line 1 is the first of
    the text.
    """
    head = HEAD.count("\n")
    module = _compile(text)
    names = {function.name for function in module.functions}
    assert names.isdisjoint(one.name for one in module.refused)
    return {one.name: [reason.line - head for reason in one.reasons] for one in module.refused}


def test_an_instruction_refuses_its_kernel() -> None:
    text = f".entry a() {{ ret; }}\n.entry b() {{\n{LATER}\n{LATER}\nret; }}\n.entry c() {{ ret; }}"
    assert _refuse(text) == {"b": [3, 4]}
    assert [function.name for function in _compile(text).functions] == ["a", "c"]
    (one,) = _compile(text).refused
    assert one.is_kernel
    assert one.reasons[0].message == "instruction 'pmevent' is not supported yet"
    assert one.reasons[0].text == LATER


def test_a_variable_refuses_itself_and_those_that_name_it() -> None:
    text = (
        ".tex .u32 t;\n"
        ".entry names() { .reg .b64 %a;\nmov.u64 %a, t;\nret; }\n"
        ".entry other() { .reg .b32 t;\nmov.b32 t, 1;\nret; }\n"
    )
    assert _refuse(text) == {"t": [1], "names": [1, 3]}
    assert [one.name for one in _compile(text).refused if not one.is_kernel] == ["t"]


def test_a_list_of_targets_names_what_is_in_it() -> None:
    text = (
        ".func f();\n"
        ".func f() { ret; }\n"
        f".func g() {{\n{LATER}\nret; }}\n"
        ".entry a() {\nlist: .calltargets f, g;\nret; }\n"
        ".entry b() { ret; }\n"
    )
    refused = _refuse(text)
    assert "a" in refused
    assert "b" not in refused
    assert "g" not in refused, "programs can request only kernels and variables"


def test_unsupported_code_that_no_kernel_uses_refuses_none() -> None:
    text = f".func f() {{\n{LATER}\nret; }}\n.entry a() {{ ret; }}\n"
    assert _refuse(text) == {}
    with pytest.raises(UnsupportedPtxError):
        compile_ptx(HEAD + text, capability=(9, 0))


@pytest.mark.parametrize("wrong", ["mov.b32 %nowhere, 1;", "bra nowhere;", "ld.param.u32 %r, [p];"])
def test_what_is_not_ptx_refuses_the_file(wrong: str) -> None:
    text = f".entry a() {{ ret; }}\n.entry b() {{ .reg .b32 %r;\n{LATER}\n{wrong}\nret; }}\n"
    with pytest.raises(InvalidPtxError) as caught:
        _compile(text)
    assert [one.line for one in caught.value.diagnostics] == [HEAD.count("\n") + 4]


def test_reasons_are_bounded_and_the_rest_is_counted() -> None:
    text = ".entry a() {\n" + (MAXIMUM_REASONS + 10) * f"{LATER}\n" + "ret; }\n"
    (one,) = _compile(text).refused
    assert len(one.reasons) == MAXIMUM_REASONS
    assert one.reasons[-1].message == "and 11 more reasons"


def test_long_chains_cost_their_length() -> None:
    """A tenant may write long chains to occupy a compiler: quadratic time would be a minute
    here.
    """
    chain = "".join(f".global .u64 v{i} = v{i - 1};\n" for i in range(1, 20_000))
    text = f".tex .u32 v0;\n{chain}.entry a() {{ ret; }}\n"
    refused = _refuse(text)
    assert len(refused) == 20_000
    assert set(map(tuple, refused.values())) == {(1,)}


def test_a_kernel_lists_missing_features_of_several_functions() -> None:
    functions = "".join(f".tex .u32 t{i};\n" for i in range(3))
    uses = "".join(f"mov.u64 %a, t{i};\n" for i in range(3))
    text = f"{functions}.entry a() {{ .reg .b64 %a;\n{uses}ret; }}"
    assert _refuse(text)["a"] == [1, 2, 3, 5, 6, 7]


def test_a_variable_that_is_refused_takes_no_room_of_its_bank() -> None:
    """With it .const would have 72,768 bytes, more than its 65,536."""
    text = (
        ".shared .align 4 .b8 s[4];\n.const .align 8 .u64 refused[4096] = {s};\n"
        ".const .align 4 .b8 kept[40000];\n.entry k() { ret; }\n"
    )
    assert _refuse(text) == {"refused": [2]}
    assert [one.name for one in _compile(text).variables] == ["kept"]


def _recognise(opcode: str, modifiers: tuple[str, ...]) -> list[tuple[str, dict[str, str]]]:
    """Return the forms that match a spelling as the compiler selects them, with their words."""
    arranged = grammar.arrange_modifiers(opcode, modifiers)
    assert arranged is not None
    forms = FORMS_BY_OPCODE.get(opcode, ())
    matches = [(form, form.match(arranged)) for form in forms]
    found = [(form.pattern, match.words) for form, match in matches if isinstance(match, Match)]
    if not found:
        others = [(form, form.match_rearranged(arranged)) for form in forms]
        found = [(form.pattern, match.words) for form, match in others if match]
    return [(pattern, dict(words)) for pattern, words in found]


def _spellings(row: rows.Row, dice: random.Random) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Yield spellings of a row, each in its own order and in one that the row permits, too."""
    for _ in range(12):
        groups = [
            [
                f".{dice.choice(sorted(slot.words))}"
                for slot in group
                if slot.words and (not slot.optional or dice.random() < 0.6)
            ]
            for group in row.groups
        ]
        plain = tuple(word for group in groups for word in group)
        mixed = tuple(word for group in groups for word in dice.sample(group, len(group)))
        if row.find_mismatch(tuple(word[1:] for word in mixed)) is None:
            yield plain, mixed


@pytest.mark.parametrize("opcode", sorted(grammar.instructions()))
def test_an_order_of_modifiers_that_ptx_permits_means_what_any_other_does(opcode: str) -> None:
    dice = random.Random(opcode)
    for row in grammar.instructions()[opcode]:
        for plain, mixed in _spellings(row, dice):
            assert _recognise(opcode, mixed) == _recognise(opcode, plain)


def test_words_of_single_operands_keep_their_order() -> None:
    (form,) = (
        one
        for one in FORMS_BY_OPCODE["mma"]
        if one.pattern.startswith("mma.sync.aligned.m8n8k4.row.col.f64")
    )
    words = ".sync.aligned.m8n8k4.{}.{}.rz.f64.f64.f64.f64"
    assert form.match_rearranged(tuple(f".{w}" for w in words.format("row", "col")[1:].split(".")))
    assert not form.match_rearranged(
        tuple(f".{w}" for w in words.format("col", "row")[1:].split("."))
    )


def test_multiplications_begin_with_their_half() -> None:
    for line in ("mad.sat.hi.s32 %r, %r, %r, %r;", "madc.cc.lo.u32 %r, %r, %r, %r;"):
        with pytest.raises(PtxSyntaxError, match="cannot stand after"):
            _compile(f".entry a() {{ .reg .b32 %r; {line} ret; }}")
