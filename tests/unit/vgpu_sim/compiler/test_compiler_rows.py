"""Every row of the binding, every type and modifier: PTX in, numbers out, against exact arithmetic.

Each row of ``table.FORMS`` is spelled out in all its types, with each optional modifier once, run
on the interpreter over many operands and compared. A row without a checker fails.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from support.execution.binding_rows import COUNT, Words, forms, patterns, run, spellings
from support.oracles import float_forms
from support.oracles.number_reference import as_integer, bits_of
from support.oracles.scalar_ptx import integers, video
from vgpu_sim.compiler.lower.forms import Form
from vgpu_sim.compiler.lower.table import FORMS
from vgpu_sim.isa import Family

MEMORY_OPCODES = {"ld", "ldu", "st"}
HINTS = {"prefetch", "prefetchu", "applypriority", "discard", "createpolicy"}
ATOMIC_OPCODES = {"atom", "red", "fence", "membar", "mbarrier", "cp"}
CONTROL_OPCODES = {"bra", "ret", "exit", "trap", "nanosleep", "griddepcontrol", "setmaxnreg"}


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
            return -1 if b == 0 else a - b * math.trunc(Fraction(a, b))
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


def _is_plain(form: Form) -> bool:
    """Return whether an integer row is plain arithmetic; the others are in test_compiler_integers
    and test_compiler_video.
    """
    names = {slot.name for slot in form.slots}
    return not names & {"cc", "sat", "relu"} and "s16x2" not in form.types


# test_approximations, test_halves, test_float_comparisons
ELSEWHERE = {"rsqrt", "ex2", "lg2", "sin", "cos", "tanh", "copysign", "set", "slct", "testp"}


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


def test_no_row_is_left_out() -> None:
    checked = (
        INTEGER_OPCODES | float_forms.OPCODES | {"setp", "cvt", "mov", "selp", "cvta", "isspacep"}
    )
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
        | {"wgmma"}  # test_conformance_warpgroups
        | {"clusterlaunchcontrol"}  # test_conformance_cancelled_launches
        | {"tcgen05"}  # test_conformance_tensor_memory
        | {"mapa", "getctarank"}  # test_conformance_clusters
        | {"tex", "tld4", "txq", "suq", "istypep", "suld", "sust", "sured"}  # conformance/textures
        | {"tensormap"}  # ptx/test_bulk_copy_forms
        | video.OPCODES
        | HINTS  # test_compiler_copies
    )
    assert {form.opcode for form in FORMS} == checked | elsewhere
