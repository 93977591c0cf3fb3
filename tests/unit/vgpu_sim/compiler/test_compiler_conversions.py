"""Comparisons, conversions and moves of the binding, against exact arithmetic."""

import math
from collections.abc import Callable

import pytest

from support.execution.binding_rows import COUNT, RANDOM, forms, patterns, run, spellings
from support.execution.interpreted_ptx import BASE, compile_verified, kernel
from support.oracles import number_reference as reference
from support.oracles.number_reference import as_float, as_integer
from vgpu_sim.compiler.lower.forms import Form
from vgpu_sim.hal.compute import address_map
from vgpu_sim.isa import Instruction


def _takes(comparison: str, type_: str) -> bool:
    """Return whether a type has a comparison (PTX ISA, "setp")."""
    if comparison in ("eq", "ne"):
        return True
    if comparison in ("lo", "ls", "hi", "hs"):
        return type_[0] == "u"
    if comparison in ("lt", "le", "gt", "ge"):
        return type_[0] != "b"
    return type_[0] == "f"


ORDER: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lo": lambda a, b: a < b,
    "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b,
}


def _compare(comparison: str, a: float, b: float) -> bool:
    unordered = math.isnan(a) or math.isnan(b)
    if comparison in ("num", "nan"):
        return unordered == (comparison == "nan")
    if comparison.endswith("u"):
        return unordered or ORDER[comparison[:-1]](a, b)
    return not unordered and ORDER[comparison](a, b)


COMBINE: dict[str, Callable[[bool, bool], bool]] = {
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
}


@pytest.mark.parametrize("form", forms(lambda form: form.opcode == "setp" and "f32" in form.types))
def test_setp(form: Form) -> None:
    for spelling, words in spellings(form):
        type_, comparison = words["type"], words["cmp"]
        if type_.endswith("f16"):
            continue  # test_float_comparisons
        if not _takes(comparison, type_) or ("ftz" in words and type_ != "f32"):
            continue
        a, b = patterns(type_), patterns(type_)
        b = [x if lane % 3 == 0 else y for lane, (x, y) in enumerate(zip(a, b, strict=True))]
        third = [RANDOM.getrandbits(1) for _ in range(COUNT)]
        negated = "bool" in words and RANDOM.random() < 0.5
        combining = f", {'!' if negated else ''}%r" if "bool" in words else ""
        text = (
            f"setp.ne.u32 %r, %c, 0; {spelling} %p|%q, %a, %b{combining};"
            "selp.u32 %d, 1, 0, %p; selp.u32 %one, 2, 0, %q; or.b32 %d, %d, %one;"
        )
        got = run(text, "u32", [(type_, a), (type_, b), ("u32", third)])
        for lane in range(COUNT):
            first, second = a[lane], b[lane]
            if "ftz" in words:
                first, second = reference.flush(first), reference.flush(second)
            read = as_float if type_[0] == "f" else as_integer
            outcome = _compare(comparison, read(first, type_), read(second, type_))
            p, q = outcome, not outcome
            if "bool" in words:
                with_ = (third[lane] == 1) != negated
                p, q = COMBINE[words["bool"]](p, with_), COMBINE[words["bool"]](q, with_)
            assert got[lane] == p + 2 * q, (spelling, negated, first, second)


@pytest.mark.parametrize("to", ["u8", "s16", "u32", "s64"])
@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
def test_saturation_adds_nothing_where_conversions_clamp_anyway(to: str, source: str) -> None:
    """PTX ISA, "cvt": for float to integer .sat is the default, so one instruction is enough."""

    def code(spelling: str) -> tuple[Instruction, ...]:
        registers = f".reg .b64 %d; .reg .b{source[1:]} %a;"
        text = kernel(f"{spelling} %d, %a;", registers=registers)
        return compile_verified(text).functions[0].code

    assert code(f"cvt.rzi.sat.{to}.{source}") == code(f"cvt.rzi.{to}.{source}")


@pytest.mark.parametrize(
    "form",
    forms(
        lambda form: (
            form.opcode in ("mov", "selp")
            and not any(word in form.pattern for word in ("v4", "elements", "b128"))
        )
    ),
)
def test_patterns_are_copied_unchanged(form: Form) -> None:
    for spelling, words in spellings(form):
        type_ = words["type"]
        if type_ == "pred":
            continue
        a, b = patterns(type_), patterns(type_)
        chooser = [RANDOM.getrandbits(1) for _ in range(COUNT)]
        setup = "setp.ne.u32 %p, %c, 0;"
        rest = "%a" if form.opcode == "mov" else "%a, %b, %p"
        operands = [(type_, a), (type_, b), ("u32", chooser)]
        got = run(f"{setup} {spelling} %d, {rest};", type_, operands)
        for lane in range(COUNT):
            wanted = a[lane] if form.opcode == "mov" or chooser[lane] else b[lane]
            assert got[lane] == wanted, spelling


# The window of shared memory of the GPU whose memory the interpreter uses.
_WINDOW = BASE - address_map.MODULE_OFFSET + address_map.SHARED_OFFSET
_WINDOWS = {"shared": _WINDOW, "local": _WINDOW + (64 << 30)}


@pytest.mark.parametrize("form", forms(lambda form: form.opcode == "cvta"))
def test_cvta_moves_shared_and_local_addresses_alone(form: Form) -> None:
    for spelling, words in spellings(form):
        offset = _WINDOWS.get(words["window"].partition("::")[0], 0)
        offset = -offset if "to" in words else offset
        values = patterns("u64")
        wanted = [(value + offset) % (1 << 64) for value in values]
        assert run(f"{spelling} %d, %a;", "u64", [("u64", values)]) == wanted


@pytest.mark.parametrize("form", forms(lambda form: form.opcode == "isspacep"))
def test_isspacep(form: Form) -> None:
    edges = [w + e for w in _WINDOWS.values() for e in (-1, 0, (1 << 32) - 1, 1 << 32)]
    values = (edges + patterns("u64"))[:COUNT]
    spaces = [
        next((s for s, w in _WINDOWS.items() if w <= value < w + (1 << 32)), "global")
        for value in values
    ]
    for spelling, words in spellings(form):
        wanted = [int(space == words["inside"].partition("::")[0]) for space in spaces]
        instruction = f"{spelling} %p, %a; selp.u32 %d, 1, 0, %p;"
        assert run(instruction, "u32", [("u64", values)]) == wanted
