"""Forms broken in one named way. The assembler decides whether that makes them illegal."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from support.tools.legality.forms import (
    LATEST,
    TARGETS,
    Form,
    missing,
    register_type,
    replace_operand,
)
from vgpu_sim.compiler.legality.signatures import Wanted
from vgpu_sim.compiler.ptx.grammar import requirements

Broken = tuple[Form, str, str]
"""A form, its instruction's text, and the text before it in the kernel."""


def _line(form: Form) -> Broken:
    return form, form.text, ""


def _typed(form: Form) -> Iterator[tuple[int, Wanted]]:
    for number, wanted in enumerate(form.wanted):
        if wanted.type is not None and not wanted.count:
            yield number, wanted


def too_few_operands(form: Form) -> Iterator[Broken]:
    if form.operands:
        yield _line(replace(form, operands=form.operands[:-1]))


def too_many_operands(form: Form) -> Iterator[Broken]:
    yield _line(replace(form, operands=(*form.operands, "%b32_7")))


def wrong_kind(form: Form) -> Iterator[Broken]:
    """Yield the form with an integer register for a floating-point type, and vice versa."""
    for number, wanted in _typed(form):
        type_ = wanted.type
        assert type_ is not None
        other = {"integer": "f", "float": "u", "held": "u", "packed": "u"}.get(type_.kind)
        if other is not None and (other == "u" or type_.bits in (16, 32, 64)):
            yield _line(replace_operand(form, number, f"%{other}{type_.bits}_{number}"))


def wrong_width(form: Form) -> Iterator[Broken]:
    for number, wanted in _typed(form):
        type_ = wanted.type
        assert type_ is not None
        if type_.kind != "pred" and 16 <= type_.bits <= 64:
            bits = {16: 32, 32: 64, 64: 32}[type_.bits]
            yield _line(replace_operand(form, number, f"%b{bits}_{number}"))
            narrow = {16: 8, 32: 16, 64: 16}[type_.bits]
            yield _line(replace_operand(form, number, f"%b{narrow}_{number}"))


def predicate_for_number(form: Form) -> Iterator[Broken]:
    for number, wanted in _typed(form):
        is_predicate = wanted.type is not None and wanted.type.kind == "pred"
        yield _line(
            replace_operand(form, number, f"%b32_{number}" if is_predicate else f"%pred_{number}")
        )


def undeclared_register(form: Form) -> Iterator[Broken]:
    for number, wanted in enumerate(form.wanted):
        if wanted.what in ("type", "int", "name") and not wanted.count:
            yield _line(replace_operand(form, number, "%undeclared_0"))
        elif wanted.what.startswith("["):
            yield _line(replace_operand(form, number, "[%undeclared_0]"))


def constant_destination(form: Form) -> Iterator[Broken]:
    for number, wanted in _typed(form):
        if wanted.written:
            yield _line(replace_operand(form, number, "1"))


def unwanted_destination(form: Form) -> Iterator[Broken]:
    for number, wanted in _typed(form):
        if wanted.written:
            yield _line(replace_operand(form, number, "_"))


def wrong_constant(form: Form) -> Iterator[Broken]:
    """Yield it with a floating-point constant for an integer, or an integer for a floating-point
    type.
    """
    for number, wanted in _typed(form):
        assert wanted.type is not None
        if not wanted.written:
            yield _line(
                replace_operand(form, number, "1" if wanted.type.kind == "float" else "1.5")
            )


def constant_out_of_range(form: Form) -> Iterator[Broken]:
    for number, wanted in enumerate(form.wanted):
        if wanted.limits:
            yield _line(replace_operand(form, number, "77"))


def register_for_constant(form: Form) -> Iterator[Broken]:
    for number, wanted in enumerate(form.wanted):
        if wanted.what == "imm":
            yield _line(replace_operand(form, number, f"%u32_{number}"))


def special_register(form: Form) -> Iterator[Broken]:
    for number, _ in _typed(form):
        yield _line(replace_operand(form, number, "%tid.x"))


def variable_for_register(form: Form) -> Iterator[Broken]:
    for number, _ in _typed(form):
        yield _line(replace_operand(form, number, "global_KERNEL"))


def address_without_brackets(form: Form) -> Iterator[Broken]:
    for number, wanted in enumerate(form.wanted):
        if wanted.what.startswith("["):
            yield _line(replace_operand(form, number, form.operands[number].strip("[]")))
        elif wanted.what == "type" and not wanted.count and not wanted.pair:
            yield _line(replace_operand(form, number, f"[{form.operands[number]}]"))


def address_in_float(form: Form) -> Iterator[Broken]:
    for number, wanted in enumerate(form.wanted):
        if wanted.what.startswith("["):
            yield _line(replace_operand(form, number, "[%f64_8]"))


def wrong_state_space(form: Form) -> Iterator[Broken]:
    """Yield the form with a variable of another space than the instruction's."""
    for number, wanted in enumerate(form.wanted):
        if wanted.what.startswith("["):
            for name in ("const_KERNEL", "local_local", "param_var", "shared_local"):
                if name not in form.operands[number]:
                    yield _line(replace_operand(form, number, f"[{name}]"))


def wrong_vector_length(form: Form) -> Iterator[Broken]:
    for number, wanted in enumerate(form.wanted):
        if wanted.count and wanted.type is not None:
            register = register_type(wanted.type)
            parts = ", ".join(f"%{register}_{n}" for n in range(wanted.count - 1))
            yield _line(replace_operand(form, number, f"{{{parts}}}"))
            yield _line(replace_operand(form, number, f"%{register}_1"))
        elif wanted.type is not None and wanted.what == "type":
            register = register_type(wanted.type)
            yield _line(replace_operand(form, number, f"{{%{register}_1, %{register}_2}}"))


def pair_of_predicates(form: Form) -> Iterator[Broken]:
    for number, wanted in _typed(form):
        if wanted.pair:
            yield _line(replace_operand(form, number, form.operands[number].partition("|")[0]))
            yield _line(
                replace_operand(form, number, form.operands[number].partition("|")[0] + "|%b32_1")
            )
        elif wanted.written:
            yield _line(replace_operand(form, number, form.operands[number] + "|%pred_1"))


def modifier_left_out(form: Form) -> Iterator[Broken]:
    for number in range(len(form.modifiers)):
        yield _line(_respelled(form, form.modifiers[:number] + form.modifiers[number + 1 :]))


def modifier_twice(form: Form) -> Iterator[Broken]:
    for number in range(len(form.modifiers)):
        again = form.modifiers[: number + 1] + form.modifiers[number:]
        yield _line(_respelled(form, again))


def modifiers_in_other_order(form: Form) -> Iterator[Broken]:
    for number in range(len(form.modifiers) - 1):
        words = list(form.modifiers)
        words[number], words[number + 1] = words[number + 1], words[number]
        if words[number] != words[number + 1]:
            yield _line(_respelled(form, tuple(words)))


def foreign_modifier(form: Form) -> Iterator[Broken]:
    for word in ("sat", "ftz", "wide", "rn", "uni", "v2", "global", "relu", "sync", "cc"):
        if word not in form.modifiers:
            yield _line(_respelled(form, (word, *form.modifiers)))


def wrong_type(form: Form) -> Iterator[Broken]:
    """Yield the form with each type replaced by another."""
    for number, word in enumerate(form.modifiers):
        if any(w.type is not None and w.type.name == word for w in form.wanted):
            for other in ("u8", "b16", "u32", "s64", "f16", "bf16x2", "f32", "b128", "pred"):
                if other != word:
                    words = (*form.modifiers[:number], other, *form.modifiers[number + 1 :])
                    yield _line(_respelled(form, words))


def unknown_word(form: Form) -> Iterator[Broken]:
    yield form, form.text.replace(form.opcode, form.opcode + "x", 1), ""
    yield _line(_respelled(form, (*form.modifiers, "x32")))


def target_too_old(form: Form) -> Iterator[Broken]:
    """Yield the form for the newest target that lacks it."""
    older = [name for name in TARGETS if missing(form.opcode, form.modifiers, name, LATEST)]
    plain = [name for name in older if name.isdigit() and int(name) < int(form.target.rstrip("af"))]
    for name in plain[-1:]:
        yield _line(replace(form, target=name))


def oldest_version(form: Form) -> Iterator[Broken]:
    """Yield the form in the first version that has form and target, which is legal, and in the
    previous one.
    """
    versions = [need.version for need in requirements.needs(form.opcode, form.modifiers)]
    least = max([TARGETS[form.target], *versions])
    yield _line(replace(form, version=least))
    before = _before(least)
    if before >= TARGETS[form.target]:
        yield _line(replace(form, version=before))


def no_semicolon(form: Form) -> Iterator[Broken]:
    yield form, form.text.removesuffix(";"), ""


def guard_is_no_predicate(form: Form) -> Iterator[Broken]:
    yield form, f"@%b32_7 {form.text}", ""
    yield form, f"@%undeclared_0 {form.text}", ""


def declared_twice(form: Form) -> Iterator[Broken]:
    yield form, form.text, " .reg .b32 %twice; .reg .f32 %twice;"
    yield form, form.text, " DONE: "


def _respelled(form: Form, modifiers: tuple[str, ...]) -> Form:
    return replace(form, modifiers=modifiers)


_LAST_MINOR = {4: 3, 5: 0, 6: 5, 7: 8, 8: 8}


def _before(version: tuple[int, int]) -> tuple[int, int]:
    major, minor = version
    return (major, minor - 1) if minor else (major - 1, _LAST_MINOR[major - 1])


BREAKS: tuple[Callable[[Form], Iterator[Broken]], ...] = (
    too_few_operands,
    too_many_operands,
    wrong_kind,
    wrong_width,
    predicate_for_number,
    undeclared_register,
    constant_destination,
    unwanted_destination,
    wrong_constant,
    constant_out_of_range,
    register_for_constant,
    special_register,
    variable_for_register,
    address_without_brackets,
    address_in_float,
    wrong_state_space,
    wrong_vector_length,
    pair_of_predicates,
    modifier_left_out,
    modifier_twice,
    modifiers_in_other_order,
    foreign_modifier,
    wrong_type,
    unknown_word,
    target_too_old,
    oldest_version,
    no_semicolon,
    guard_is_no_predicate,
    declared_twice,
)
