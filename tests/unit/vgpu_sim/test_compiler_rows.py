"""Every row of the binding, every type and modifier: PTX in, numbers out, against exact arithmetic.

Each row of ``table.FORMS`` is spelled out in all its types, with each optional modifier once, run
on the interpreter over many operands and compared. A row without a checker fails.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import number_reference as reference
import numpy as np
import pytest
from binding_rows import COUNT, Words, forms, patterns, rounded, run, same, spellings
from number_reference import as_float, as_integer, bits_of, float_pattern
from scalar_ptx import integers, video

from vgpu_sim.compiler.lower import one_word
from vgpu_sim.compiler.lower.forms import Form
from vgpu_sim.compiler.lower.table import FORMS
from vgpu_sim.isa import Family

MEMORY_OPCODES = {"ld", "ldu", "st"}
HINTS = {"prefetch", "prefetchu", "applypriority", "discard", "createpolicy"}
ATOMIC_OPCODES = {"atom", "red", "fence", "membar", "mbarrier", "cp"}
CONTROL_OPCODES = {"bra", "ret", "exit", "trap", "nanosleep", "griddepcontrol"}


def _integer(words: Words, opcode: str, type_: str, operands: list[int]) -> int:
    a, b, c = (*operands, 0, 0)[:3]
    bits = bits_of(type_)
    match opcode:
        case "mul" | "mad":
            half = words.get("half", "")
            return (a * b >> bits if half == "hi" else a * b) + c
        case "div":
            return -1 if b == 0 else math.trunc(Fraction(a, b))
        case "rem":
            return a if b == 0 else a - b * math.trunc(Fraction(a, b))
        case "shl":
            return a << b if b < bits else 0
        case "shr":
            return a >> min(b, bits)
    simple: dict[str, Callable[[], int]] = {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "neg": lambda: -a,
        "abs": lambda: abs(a),
        "min": lambda: min(a, b),
        "max": lambda: max(a, b),
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "not": lambda: ~a,
    }
    return simple[opcode]()


INTEGER_OPCODES = {
    "add",
    "sub",
    "mul",
    "mad",
    "neg",
    "abs",
    "min",
    "max",
    "div",
    "rem",
    "shl",
    "shr",
    "and",
    "or",
    "xor",
    "not",
}


FLOAT_OPCODES = {
    "add",
    "sub",
    "mul",
    "fma",
    "mad",
    "neg",
    "abs",
    "min",
    "max",
    "div",
    "rcp",
    "sqrt",
}


def _is_plain(form: Form) -> bool:
    """Return whether an integer row has no more than its arithmetic: test_compiler_integers, _video."""
    names = {slot.name for slot in form.slots}
    return not names & {"cc", "sat", "relu"} and "s16x2" not in form.types


def _is_float(form: Form) -> bool:
    return form.pattern.endswith((".f32", ".f64")) and form.opcode in FLOAT_OPCODES


# test_approximations, test_halves, test_float_comparisons
ELSEWHERE = {"rsqrt", "ex2", "lg2", "sin", "cos", "tanh", "copysign", "set", "slct", "testp"}
COARSE = "rcp.approx.ftz.f64"


@pytest.mark.parametrize(
    "form",
    forms(
        lambda form: (
            form.op.family is Family.INTEGER and form.opcode in INTEGER_OPCODES and _is_plain(form)
        )
    ),
)
def test_integer(form: Form) -> None:
    for spelling, words in spellings(form):
        type_ = words["type"]
        if type_ == "pred":
            continue
        wide = bits_of(type_) * (2 if "wide" in words else 1)
        result = f"{type_[0]}{wide}"
        kinds = [type_] * (form.operand_count - 1)
        if form.opcode in ("shl", "shr"):
            kinds[1] = "u32"
        if form.opcode == "mad":
            kinds[2] = result
        operands = [(kind, patterns(kind)) for kind in kinds]
        text = f"{spelling} {', '.join(['%d', '%a', '%b', '%c'][: form.operand_count])};"
        got = run(text, result, operands)
        for lane in range(COUNT):
            numbers = [as_integer(values[lane], kind) for kind, values in operands]
            wanted = _integer(words, form.opcode, type_, numbers) & ((1 << wide) - 1)
            assert got[lane] == wanted, (spelling, numbers)


@pytest.mark.parametrize("opcode", ["and", "or", "xor", "not"])
def test_predicate_logic(opcode: str) -> None:
    a, b = [lane & 1 for lane in range(COUNT)], [lane >> 1 & 1 for lane in range(COUNT)]
    second = "" if opcode == "not" else ", %q"
    setup = "setp.ne.u32 %p, %a, 0; setp.ne.u32 %q, %b, 0;"
    text = f"{setup} {opcode}.pred %r, %p{second}; selp.u32 %d, 1, 0, %r;"
    got = run(text, "u32", [("u32", a), ("u32", b)])
    assert got == [_integer({}, opcode, "u32", [x, y]) & 1 for x, y in zip(a, b, strict=True)]


def _extremum(a: float, b: float, largest: bool) -> float:
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    if a == b == 0:  # -0 is below +0
        negative = math.copysign(1, a) < 0 or math.copysign(1, b) < 0
        both = math.copysign(1, a) < 0 and math.copysign(1, b) < 0
        return -0.0 if (both if largest else negative) else 0.0
    return max(a, b) if largest else min(a, b)


def _float(words: Words, opcode: str, type_: str, x: list[float]) -> float:
    """Compute what rounds to nearest with numpy, what is directed or fused exactly."""
    number = reference.FORMATS[type_].dtype.type
    mode = words.get("rnd", "rn")
    match opcode:
        case "neg":
            return -x[0]
        case "abs":
            return math.copysign(x[0], 1)
        case "min" | "max":
            return _extremum(x[0], x[1], opcode == "max")
        case "fma" | "mad":
            return rounded(Fraction(x[0]) * Fraction(x[1]) + Fraction(x[2]), type_, mode)
    if mode == "rn":
        native: dict[str, Callable[[], float]] = {
            "add": lambda: number(x[0]) + number(x[1]),
            "sub": lambda: number(x[0]) - number(x[1]),
            "mul": lambda: number(x[0]) * number(x[1]),
            "div": lambda: number(x[0]) / number(x[1]),
            "rcp": lambda: number(1) / number(x[0]),
            "sqrt": lambda: np.sqrt(number(x[0])),
        }
        with np.errstate(all="ignore"):
            return float(native[opcode]())
    exact: dict[str, Callable[[], Fraction]] = {
        "add": lambda: Fraction(x[0]) + Fraction(x[1]),
        "sub": lambda: Fraction(x[0]) - Fraction(x[1]),
        "mul": lambda: Fraction(x[0]) * Fraction(x[1]),
        "div": lambda: Fraction(x[0]) / Fraction(x[1]),
        "rcp": lambda: 1 / Fraction(x[0]),
    }
    return rounded(exact[opcode](), type_, mode)


@pytest.mark.parametrize(
    "form",
    forms(lambda form: _is_float(form) and form.lower is one_word.lower and form.pattern != COARSE),
)
def test_float(form: Form) -> None:
    type_ = form.pattern[-3:]
    for spelling, words in spellings(form):
        directed = words.get("rnd", "rn") != "rn"
        finite = directed or form.opcode in ("fma", "mad")
        operands = [(type_, patterns(type_, finite)) for _ in range(form.operand_count - 1)]
        text = f"{spelling} {', '.join(['%d', '%a', '%b', '%c'][: form.operand_count])};"
        got = run(text, type_, operands)
        for lane in range(COUNT):
            lanes = [values[lane] for _, values in operands]
            if "ftz" in words:
                lanes = [reference.flush(pattern) for pattern in lanes]
            numbers = [as_float(pattern, type_) for pattern in lanes]
            if form.opcode == "sqrt" and directed:
                if numbers[0] > 0:
                    value, result = Fraction(numbers[0]), as_float(got[lane], type_)
                    assert reference.square_root_is(value, result, type_, words["rnd"]), spelling
                continue
            wanted = _float(words, form.opcode, type_, numbers)
            if "sat" in words:
                wanted = reference.saturate(wanted)
            if "ftz" in words and not math.isnan(wanted):
                wanted = as_float(reference.flush(float_pattern(wanted, type_)), type_)
            assert same(got[lane], wanted, type_), (spelling, numbers, hex(got[lane]), wanted)


def test_no_row_is_left_out() -> None:
    checked = INTEGER_OPCODES | FLOAT_OPCODES | {"setp", "cvt", "mov", "selp", "cvta", "isspacep"}
    elsewhere = (
        MEMORY_OPCODES  # test_compiler_memory
        | CONTROL_OPCODES  # test_compiler_control
        | ATOMIC_OPCODES  # test_compiler_atomic
        | ELSEWHERE
        | integers.OPCODES  # test_compiler_integers
        | integers.CARRIED
        | {"bar", "barrier"}  # test_compiler_shared
        | {"call", "brx", "brkpt", "alloca", "stacksave", "stackrestore"}  # conformance_calls
        | {"shfl", "vote", "match", "redux", "activemask", "elect"}  # test_interp_warp
        | {"mma", "wmma", "ldmatrix", "stmatrix", "movmatrix"}  # test_compiler_matrix
        | video.OPCODES
        | HINTS  # test_compiler_copies
    )
    assert {form.opcode for form in FORMS} == checked | elsewhere
