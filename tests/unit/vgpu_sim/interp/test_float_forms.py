"""Every form of floating-point arithmetic and of conversions between single registers.

All combinations of modifiers, on corner cases and random patterns, compared with the manual's
definitions on rational numbers (``float_forms``). ``conformance`` compares the JIT with the
interpreter.
"""

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest

from support.execution.ptx_lanes import Patterns, evaluate
from support.oracles import float_forms
from support.oracles.float_forms import convert_number, evaluate_form, format_of, is_float, numbers
from vgpu_sim.compiler.lower.families import convert
from vgpu_sim.compiler.lower.forms import Form
from vgpu_sim.compiler.lower.table import FORMS
from vgpu_sim.compiler.ptx import grammar

_COUNT = 256
_OUTSIDE = 0x7FFF  # the NaN that tensor copies store for elements outside
_NAMES = ("%a", "%b", "%c")
_COARSE = "rcp.approx.ftz.f64"  # test_approximations


def _spellings(form: Form) -> Iterator[tuple[str, ...]]:
    """Yield opcode and modifiers, for every combination of the optional ones."""
    choices = [(*sorted(s.words), "") if s.optional else sorted(s.words) for s in form.slots]
    for chosen in itertools.product(*choices):
        words = tuple(word for word in chosen if word)
        dotted = tuple(f".{word}" for word in words)
        # some combinations are not PTX
        if grammar.arrange_modifiers(form.opcode, dotted) is not None:
            yield (form.opcode, *words)


def _rows(*, mixed: bool) -> list[object]:
    found = []
    for form in FORMS:
        if form.opcode not in float_forms.OPCODES or form.pattern == _COARSE:
            continue
        types = {spelled[-1] for spelled in _spellings(form)}
        if types <= float_forms.TYPES and mixed == (".f32.atype" in form.pattern):
            found.append(pytest.param(form, id=form.pattern))
    return found


def _columns(dice: random.Random, types: list[str], elements: int) -> list[list[int]]:
    return [numbers(dice, format_of(type_), elements) for type_ in types]


def _pack(column: list[int], type_: str) -> Patterns:
    array = np.array(column, dtype=f"<u{format_of(type_).bits // 8}")
    return array.view(f"<u{array.itemsize * 2}") if type_.endswith("x2") else array


@pytest.mark.parametrize("form", _rows(mixed=False))
def test_arithmetic(form: Form) -> None:
    dice = random.Random(form.pattern)
    for words in _spellings(form):
        spelling, type_ = ".".join(words), words[-1]
        format_ = format_of(type_)
        elements = _COUNT * (2 if type_.endswith("x2") else 1)
        columns = _columns(dice, [type_] * (form.operand_count - 1), elements)
        arrays = [_pack(column, type_) for column in columns]
        text = f"{spelling} %d, {', '.join(_NAMES[: len(columns)])};"
        got = evaluate(text, arrays[0].itemsize * 8, *arrays)
        for place, result in enumerate(got.view(f"<u{format_.bits // 8}")):
            operands = [column[place] for column in columns]
            wanted = evaluate_form(spelling, format_, operands)
            if "oob" in words and _OUTSIDE in operands:
                wanted = 0
            assert int(result) == wanted, (spelling, [hex(o) for o in operands], hex(wanted))


@pytest.mark.parametrize("form", _rows(mixed=True))
def test_arithmetic_of_small_numbers_and_a_single(form: Form) -> None:
    dice, single = random.Random(form.pattern), format_of("f32")
    for words in _spellings(form):
        spelling, small = ".".join(words), words[-1]
        kinds = [small] * (form.operand_count - 2) + ["f32"]
        columns = _columns(dice, kinds, _COUNT)
        arrays = [_pack(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        text = f"{spelling} %d, {', '.join(_NAMES[: len(columns)])};"
        for place, result in enumerate(evaluate(text, 32, *arrays)):
            operands = [
                column[place]
                if kind == "f32"
                else float_forms.widen(column[place], format_of(kind))
                for column, kind in zip(columns, kinds, strict=True)
            ]
            wanted = evaluate_form(spelling, single, operands)
            assert int(result) == wanted, (spelling, [hex(o) for o in operands], hex(wanted))


def _integers(dice: random.Random, type_: str) -> list[int]:
    """Return patterns of all lengths, including ones half-way between floats."""
    bits = int(type_[1:])
    edges = [0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
    found = []
    for _ in range(_COUNT):
        value = dice.getrandbits(dice.randint(1, bits))
        if dice.random() < 0.3 and bits > 12:  # few leading bits, and half an ulp
            value = (dice.getrandbits(12) << 12 | 0x800) << dice.randrange(bits) >> 12
        value = dice.choice(edges) if dice.random() < 0.2 else value
        found.append((-value if dice.random() < 0.3 else value) & ((1 << bits) - 1))
    return found


def _near_integers(dice: random.Random, type_: str) -> list[int]:
    """Return floats, many of them near the range limits of integers, and half-way between two."""
    format_, found = format_of(type_), numbers(dice, format_of(type_), _COUNT)
    for place in range(0, _COUNT, 2):
        whole = dice.choice([0, 1, 2, 3, 127, 128, 255, 256, 32767, 32768, 65535, 2**31, 2**32])
        whole = dice.choice([whole, 2**63, 2**64, dice.getrandbits(dice.randint(1, 65))])
        value = whole + dice.choice([0, 0.25, 0.5, 0.75, -0.5])
        found[place] = float_forms.nearest(-value if dice.random() < 0.5 else value, format_)
    return found


def _in_registers_as_wide(spelling: str, to: str, source: str) -> str:
    """Return a conversion of %a to %d; for bfloat16 neither register may be wider than its type."""
    if source == "bf16" and not is_float(to):
        widen = f"cvt.{to[0]}64.{to} %d, %exact;"
        return f"{{ .reg .{to} %exact; {spelling} %exact, %a; {widen} }}"
    if to == "bf16" and source.endswith("8"):
        narrow = f"cvt.{source}.{source[0]}16 %exact, %a;"
        return f"{{ .reg .{source} %exact; {narrow} {spelling} %d, %exact; }}"
    return f"{spelling} %d, %a;"


@pytest.mark.parametrize(
    "form", [pytest.param(f, id=f.pattern) for f in FORMS if f.lower is convert.cvt]
)
def test_conversions(form: Form) -> None:
    dice, seen = random.Random(form.pattern), set()
    for words in _spellings(form):
        spelling, (to, source) = ".".join(words), words[-2:]
        seen.add((to, source))
        given = (_near_integers if is_float(source) else _integers)(dice, source)
        # A wider register makes the extension visible.
        bits = format_of(to).bits if is_float(to) else 64
        array = np.array(given, dtype=f"<u{int(source.lstrip('bfsu')) // 8}")
        body = _in_registers_as_wide(spelling, to, source)
        for pattern, result in zip(given, evaluate(body, bits, array), strict=True):
            wanted = convert_number(spelling, to, source, pattern)
            assert int(result) == wanted, (spelling, hex(pattern), hex(result), hex(wanted))
    assert len(seen) > 30


def test_nothing_is_left_out() -> None:
    """Each row of these opcodes is either checked here or has integer types."""
    checked = {row.id for row in (*_rows(mixed=False), *_rows(mixed=True))}  # type: ignore[attr-defined]
    rest = {
        form.pattern
        for form in FORMS
        if form.opcode in float_forms.OPCODES and form.pattern not in checked
    }
    assert {spelled[-1] for f in FORMS if f.pattern in rest for spelled in _spellings(f)} <= {
        *("u16", "u32", "u64", "s16", "s32", "s64", "u16x2", "s16x2", "u8x4", "s8x4", "f64")
    }
    assert _COARSE in rest
