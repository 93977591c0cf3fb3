"""Renders modules as text that ``asm`` parses back identically. ``asm`` describes the syntax."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Final

from vgpu_sim.isa import mnemonic
from vgpu_sim.isa.instruction import (
    Destination,
    Instruction,
    Literal,
    Operand,
    Predicate,
    Register,
    Symbol,
)
from vgpu_sim.isa.module import (
    Function,
    Module,
    Parameter,
    PhysicalAllocation,
    Refused,
    Relocation,
    Variable,
)
from vgpu_sim.isa.rules import operands_in
from vgpu_sim.isa.spec import Role
from vgpu_sim.isa.table import TABLE
from vgpu_sim.isa.types import Space

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)
_DECIMAL_BELOW = 1 << 16
_COMMENT_COLUMN = 64


def disassemble(module: Module) -> str:
    """Return a module as assembly text that ends with a newline.

    The module must be valid (see ``verify``).
    """
    return "".join(line + "\n" for line in _module(module))


def render_instruction(instruction: Instruction) -> str:
    """Return the assembly text of one instruction, with its guard.

    Branch targets are written ``L<word>``.
    """
    guard = ""
    if instruction.guard is not None:
        sign = "!" if instruction.guard.negated else ""
        guard = f"@{sign}p{instruction.guard.predicate.index}"
    operands = ", ".join(_operands(instruction))
    return f"{guard:<5} {mnemonic.render(instruction):<20} {operands}".rstrip()


def _module(module: Module) -> Iterator[str]:
    yield ".isa 1"
    yield ".capability {} {}".format(*module.required_capability)
    yield ".ptx {} {}".format(*module.ptx_version)
    for variable in module.variables:
        yield _variable(variable)
        yield from map(_relocation, variable.relocations)
    for function in module.functions:
        yield ""
        yield from _function(function)
    for refused in module.refused:
        yield ""
        yield from _render_refused(refused)
    if module.source:
        yield ""
        for line in module.source.splitlines(keepends=True):
            yield f".source {json.dumps(line)}"


def _render_refused(refused: Refused) -> Iterator[str]:
    yield f".refused {'kernel' if refused.is_kernel else 'variable'} {_name(refused.name)}"
    for reason in refused.reasons:
        place = f"    .reason {reason.line} {reason.column} {json.dumps(reason.message)}"
        yield f"{place} {json.dumps(reason.text)}" if reason.text else place


def _relocation(relocation: Relocation) -> str:
    place = f"    .address {relocation.offset} size {relocation.size}"
    part = f" shift {relocation.shift} bits {relocation.bits}"
    return f"{place}{part} of {_name(relocation.name)} addend {relocation.addend}"


def _variable(variable: Variable) -> str:
    text = (
        f".variable {_name(variable.name)} space {variable.space.name} align {variable.align}"
        f" size {variable.size} offset {variable.offset}"
    )
    return f'{text} init "{variable.initial.hex()}"' if variable.initial else text


def _marks(function: Function) -> Iterator[str]:
    if function.counts_clusters:
        yield "    .counts_clusters"
    if function.tensor_memory:
        yield "    .tensor_memory"
    if function.parameter_image:
        yield f"    .parameter_image {_name(function.parameter_image)}"


def _function(function: Function) -> Iterator[str]:
    yield f".function {_name(function.name)}"
    for parameter in function.parameters:
        yield f"    {_parameter(parameter)}"
    if function.parameter_bytes:
        yield f"    .parameter_bytes {function.parameter_bytes}"
    first = 0
    for bits, group in itertools.groupby(function.register_bits):
        last = first + len(list(group)) - 1
        yield f"    .registers r{first}-r{last} {bits}"
        first = last + 1
    for directive, count in (
        ("predicates", function.predicate_count),
        ("shared", function.shared_bytes),
        ("local", function.local_bytes),
        ("maximum_cluster", function.maximum_cluster),
    ):
        if count:
            yield f"    .{directive} {count}"
    for directive, block in (
        ("required_block", function.required_block),
        ("maximum_block", function.maximum_block),
        ("required_cluster", function.required_cluster),
    ):
        if block is not None:
            yield "    .{} {} {} {}".format(directive, *block)
    yield from _marks(function)
    if function.physical != PhysicalAllocation():
        physical = function.physical
        slots = "".join(f" {slot}" for slot in physical.slots)
        peak, spill = physical.peak_registers, physical.spill_bytes
        yield f"    .physical peak {peak} spill {spill} slots{slots}"
    yield "{"
    targets = {i.target for i in function.code if i.target is not None}
    for word, (instruction, line) in enumerate(zip(function.code, function.lines, strict=True)):
        if word in targets:
            yield f"L{word}:"
        text = render_instruction(instruction)
        yield f"{text:<{_COMMENT_COLUMN}} // ptx:{line}" if line else text
    yield "}"


def _parameter(parameter: Parameter) -> str:
    text = (
        f".parameter {_name(parameter.name)} offset {parameter.offset} size {parameter.size}"
        f" align {parameter.align}"
    )
    if parameter.pointer_space is None:
        return text
    return f"{text} pointer {parameter.pointer_space.name}"


def _operands(instruction: Instruction) -> Iterator[str]:
    spec = TABLE[instruction.op]
    if spec.has("target"):
        yield f"L{instruction.target}"
    if Role.DATA in spec.dsts or Role.TOTALS in spec.dsts:
        yield _vector(instruction.dsts)
    elif spec.dsts:
        last = instruction.dsts[-1]
        destinations = instruction.dsts[:-1] if last is None else instruction.dsts
        yield "|".join(_operand(destination) for destination in destinations)
    if instruction.sreg is not None:
        yield instruction.sreg.name
    sources = instruction.srcs
    for role in spec.srcs:
        count = operands_in(role, instruction)
        if role is Role.ADDRESS:
            yield _address(instruction)
        elif count:
            yield _vector(sources[:count])
        sources = sources[count:]


def _vector(operands: tuple[Operand | Destination, ...]) -> str:
    texts = [_operand(operand) for operand in operands]
    return texts[0] if len(texts) == 1 else "{" + ", ".join(texts) + "}"


def _address(instruction: Instruction) -> str:
    displacement = instruction.displacement
    if instruction.space is Space.PARAM:
        return f"[{displacement}]"
    return f"[{_operand(instruction.srcs[0])}{f'{displacement:+}' if displacement else ''}]"


def _operand(operand: Operand | None) -> str:
    match operand:
        case None:
            return "_"
        case Register(index):
            return f"r{index}"
        case Predicate(index):
            return f"p{index}"
        case Literal(bits):
            if bits >= (1 << 64) - _DECIMAL_BELOW:
                return str(bits - (1 << 64))
            return str(bits) if bits < _DECIMAL_BELOW else f"{bits:#x}"
        case Symbol(name, 0):
            return f"&{_name(name)}"
        case Symbol(name, addend):
            return f"&({_name(name)}{addend:+})"


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name)
