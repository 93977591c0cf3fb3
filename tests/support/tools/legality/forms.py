"""Forms of instructions as in the compiler's own grammar, with operands that they accept."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from support.tools.legality.assembler import Kernel
from vgpu_sim.compiler.legality.signatures import Wanted, signatures
from vgpu_sim.compiler.legality.types import Type
from vgpu_sim.compiler.ptx.grammar import first_error, requirements, rows
from vgpu_sim.compiler.ptx.grammar.tables import TABLES

_MOST_OF_A_ROW = 24
_SEED = 20

# Targets that the assembler supports, each with the first PTX version that has it.
TARGETS = {
    "50": (4, 0),
    "53": (4, 2),
    "60": (5, 0),
    "61": (5, 0),
    "70": (6, 0),
    "72": (6, 1),
    "75": (6, 3),
    "80": (7, 0),
    "86": (7, 1),
    "89": (7, 8),
    "90": (7, 8),
    "90a": (8, 0),
    "100": (8, 6),
    "100a": (8, 6),
    "107a": (9, 2),
    "110a": (9, 0),
    "120a": (8, 7),
}
LATEST = (9, 4)


@dataclass(frozen=True, slots=True)
class Form:
    """An instruction with modifiers, and the operands of one of its signatures."""

    family: str
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[str, ...]
    wanted: tuple[Wanted, ...]
    target: str
    version: tuple[int, int]

    @property
    def spelling(self) -> str:
        return ".".join((self.opcode, *self.modifiers))

    @property
    def text(self) -> str:
        return f"{self.spelling} {', '.join(self.operands)};".replace(" ;", ";")


def kernel(form: Form, text: str | None = None, before: str = "") -> Kernel:
    """Return a kernel with one instruction: the form's own, or ``text``."""
    line = text if text is not None else form.text
    return Kernel(form.target, form.version, _wrapped(line, before))


def _wrapped(line: str, before: str) -> str:
    types = sorted({word[1:].rsplit("_", 1)[0] for word in _names(line) if word != "%undeclared_0"})
    registers = "".join(f" .reg .{type_} %{type_}_<9>;" for type_ in types)
    variables = ""
    for space in ("global", "const"):
        if f"{space}_KERNEL" in line:
            variables += f".{space} .align 128 .b8 {space}_KERNEL[256];\n"
    inside = "".join(
        f" .{space} .align 128 .b8 {space}_local[256];"
        for space in ("shared", "local", "param")
        if f"{space}_local" in line
    )
    return (
        f"{variables}.visible .entry KERNEL(.param .u64 param_var)\n{{\n{registers}{inside}{before}\n"
        f"{line}\nDONE:\nret;\n}}\n"
    )


def _names(line: str) -> Iterator[str]:
    for word in line.replace("|", " ").replace("!", " ").replace("-", " ").split():
        for part in word.strip("[]{}(),;").split(","):
            name = part.strip("[]{}(),;").split(".")[0].split("+")[0]
            if name.startswith("%") and "_" in name and name[-1].isdigit():
                yield name


def all_forms() -> Iterator[Form]:
    """Yield the forms of every row of the grammar whose operands the compiler defines."""
    for family, opcode, row in _rows():
        for modifiers in _spellings(row, opcode):
            form = valid(family, opcode, modifiers)
            if form is not None:
                yield form


def valid(family: str, opcode: str, modifiers: tuple[str, ...]) -> Form | None:
    """Return the form with operands that its first signature accepts; None if none is known."""
    dotted = tuple(f".{word}" for word in modifiers)
    lists = signatures(opcode, modifiers)
    if "param::func" in modifiers and opcode == "ld":
        return None  # reads a call's result, which a single instruction does not have
    if first_error(opcode, dotted) is not None or not lists:
        return None
    if any(one.what in ("rest", "any") or one.what == "[*]" for one in lists[0]):
        return None
    target = least_target(opcode, modifiers)
    if target is None:
        return None
    operands = tuple(operand(one, number, modifiers) for number, one in enumerate(lists[0]))
    return Form(family, opcode, modifiers, operands, lists[0], target, LATEST)


def alternatives(form: Form) -> Iterator[Form]:
    """Yield the same form with the operands of its other signatures."""
    for wanted in signatures(form.opcode, form.modifiers)[1:]:
        if any(one.what == "any" for one in wanted):
            continue
        operands = tuple(operand(one, n, form.modifiers) for n, one in enumerate(wanted))
        yield replace(form, operands=operands, wanted=wanted)
    for number, one in enumerate(form.wanted):
        for other in _others(one, number):
            yield replace_operand(form, number, other)


def replace_operand(form: Form, number: int, text: str) -> Form:
    """Return the form with one operand replaced."""
    operands = (*form.operands[:number], text, *form.operands[number + 1 :])
    return replace(form, operands=operands)


def least_target(opcode: str, modifiers: tuple[str, ...]) -> str | None:
    """Return the first of ``TARGETS`` that has the form in the latest version."""
    for name in ("75", "80", "86", "89", "90", "90a", "100", "100a", "107a", "110a", "120a"):
        if not missing(opcode, modifiers, name, LATEST):
            return name
    return None


def missing(opcode: str, modifiers: tuple[str, ...], name: str, version: tuple[int, int]) -> str:
    """Return the requirement of a form that a target and version lack, according to the
    compiler.
    """
    own = requirements.Target(int(name.rstrip("af")), name.lstrip("0123456789"))
    needs = requirements.needs(opcode, modifiers)
    return next((said for need in needs if (said := need.error(own, version))), "")


def operand(wanted: Wanted, number: int, modifiers: tuple[str, ...]) -> str:
    """Return the simplest operand that is accepted: a register where possible."""
    if wanted.what.startswith("["):
        return f"[{_address(wanted.what[1:-1], modifiers, stored=number == 0)}]"
    if wanted.what == "imm":
        return str(_allowed(wanted.limits))
    if wanted.what == "_":
        return "_"
    if wanted.what == "label":
        return "DONE"
    if wanted.what in ("int", "name"):
        wide = "u32" if "u32" in modifiers else "u64"
        return f"%{wide}_{number}"
    assert wanted.type is not None
    register = register_type(wanted.type)
    if wanted.count:
        parts = ", ".join(f"%{register}_{(number + n) % 9}" for n in range(wanted.count))
        return f"{{{parts}}}"
    pair = f"|%pred_{number + 1}" if wanted.pair else ""
    return f"%{register}_{number}{pair}"


def register_type(type_: Type) -> str:
    """Return the type of a register that holds values of a type."""
    return f"b{type_.bits}" if type_.kind == "held" else type_.name


def _allowed(limits: str) -> int:
    if limits.startswith("%"):
        return int(limits[1:])
    return int(limits.partition("%")[0].replace("..", ",").split(",")[-1]) if limits else 1


def _address(space: str, modifiers: tuple[str, ...], *, stored: bool) -> str:
    bare = [space, *(word.partition("::")[0] for word in modifiers)]
    for word in bare:
        if word in ("global", "const"):
            return f"{word}_KERNEL"
        if word in ("shared", "local"):
            return f"{word}_local"
        if word == "param":
            return "param_local" if stored or "param::func" in modifiers else "param_var"
    return "%u64_8"


def _others(wanted: Wanted, number: int) -> Iterator[str]:
    type_ = wanted.type
    if type_ is None or wanted.count or wanted.pair:
        return
    if type_.kind == "pred":
        if not wanted.written:
            yield f"!%pred_{number}"
            yield "1"
        return
    if type_.kind in ("integer", "float", "packed"):
        yield f"%b{type_.bits}_{number}"
    if type_.kind == "integer" and type_.bits > 8:
        yield f"%{'s' if type_.name[0] == 'u' else 'u'}{type_.bits}_{number}"
    if type_.kind == "bits" and type_.bits in (32, 64):
        yield f"%f{type_.bits}_{number}"
    if wanted.wider and type_.bits < 64 and type_.kind in ("integer", "bits"):
        yield f"%b64_{number}"
    if not wanted.written and not wanted.register:
        if type_.kind == "float" and type_.bits > 16:
            yield "1.5"
        if type_.kind in ("integer", "bits") and not wanted.limits and type_.bits <= 64:
            yield "3"
    if wanted.sink:
        yield "_"


def _rows() -> Iterator[tuple[str, str, rows.Row]]:
    for table in TABLES:
        family = ""
        for line in table.replace("\n        ", " ").splitlines():
            if line.startswith("# 9.7"):
                family = line.removeprefix("# ").partition(";")[0].partition(":")[0]
            for opcode, found in rows.read(line).items():
                yield from ((family, opcode, row) for row in found)


def _spellings(row: rows.Row, name: str) -> Iterator[tuple[str, ...]]:
    slots = [slot for group in row.groups for slot in group]
    choices = [[*sorted(slot.words), *([""] if slot.optional else [])] for slot in slots]
    total = 1
    for words in choices:
        total *= max(len(words), 1)
    if any(not words for words in choices):
        return  # only `sp::*`
    if total <= _MOST_OF_A_ROW:
        chosen = set(itertools.product(*choices))
    else:
        draw = random.Random(f"{_SEED} {name} {choices}")
        chosen = {tuple(draw.choice(words) for words in choices) for _ in range(_MOST_OF_A_ROW)}
    for words in sorted(chosen):
        yield tuple(word for word in words if word)
