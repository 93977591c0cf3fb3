"""Every form of every instruction: all modifiers that the instruction set allows."""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace

from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.isa import DataType, Instruction, Op, Operand, Predicate, Register
from vgpu_sim.isa.errors import InvalidFunction
from vgpu_sim.isa.rules import destination_roles, operand_bits, source_roles
from vgpu_sim.isa.table import TABLE


@functools.cache
def forms(op: Op) -> tuple[Instruction, ...]:
    """Return the legal forms of ``op``, without operands; numbers have their defaults."""
    spec = TABLE[op]
    modifiers = [modifier for modifier in spec.modifiers if modifier.codes]
    found = []
    for type_ in spec.types or (DataType.B32,):
        for values in itertools.product(*(modifier.codes for modifier in modifiers)):
            names = (modifier.name for modifier in modifiers)
            form = Instruction(op, type_, **dict(zip(names, values, strict=True)))
            if not any(m.error(form) for m in modifiers) and _legal(form):
                found.append(form)
    return tuple(found)


def source_bits(form: Instruction) -> list[int]:
    """Return the width of each source; 1 means a predicate."""
    return [operand_bits(role, form) for role in source_roles(form, TABLE[form.op])]


def destination_bits(form: Instruction) -> list[int]:
    """Return the width of each destination; 1 means a predicate."""
    return [operand_bits(role, form) for role in destination_roles(form, TABLE[form.op])]


def emit(
    builder: KernelBuilder, form: Instruction, sources: Sequence[Operand]
) -> list[Register | Predicate]:
    """Append ``form`` with new destinations, and return these. A branch goes to the next
    instruction.
    """
    if form.op is Op.BRA:
        label = builder.label()
        builder.code.append((form, label))
        builder.place(label)
        return []
    results = [_place(builder, bits) for bits in destination_bits(form)]
    builder.add(replace(form, dsts=tuple(results), srcs=tuple(sources)))
    return results


def _legal(form: Instruction) -> bool:
    builder = KernelBuilder(8, 8)
    emit(builder, form, [_place(builder, bits) for bits in source_bits(form)])
    try:
        builder.module()
    except InvalidFunction:
        return False
    return True


def _place(builder: KernelBuilder, bits: int) -> Register | Predicate:
    return builder.predicate() if bits == 1 else builder.register(max(bits, 16))
