"""Every form of every instruction: all modifiers that the instruction set allows."""

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from support.kept import kernels
from support.kept.store import Store, digest_of, key_of
from support.kernels import kernel_builder
from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.isa import DataType, Instruction, Op, Operand, Predicate, Register
from vgpu_sim.isa.errors import InvalidFunction
from vgpu_sim.isa.layout import Modifier
from vgpu_sim.isa.rules import destination_roles, operand_bits, source_roles
from vgpu_sim.isa.table import TABLE

_STORE = Store("forms")  # which forms are legal, by the sources of the instruction set


@functools.cache
def forms(op: Op) -> tuple[Instruction, ...]:
    """Return the legal forms of ``op``, without operands; numbers have their defaults."""
    key = key_of(kernels.sources(), _own_source(), op.name.encode())
    marks = _STORE.get(key)
    if marks is None:
        marks = bytes(_legal(form) for form in _all_forms(op))
        _STORE.put(key, marks)
    return tuple(itertools.compress(_all_forms(op), marks))


def _all_forms(op: Op) -> Iterator[Instruction]:
    modifiers = _coded_modifiers(op)
    names = [modifier.name for modifier in modifiers]
    for type_ in TABLE[op].types or (DataType.B32,):
        for values in itertools.product(*(modifier.codes for modifier in modifiers)):
            yield Instruction(op, type_, **dict(zip(names, values, strict=True)))


def _coded_modifiers(op: Op) -> list[Modifier]:
    return [modifier for modifier in TABLE[op].modifiers if modifier.codes]


@functools.cache
def _own_source() -> bytes:
    return digest_of(Path(__file__).parent, [Path(__file__), Path(kernel_builder.__file__)])


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
    if any(modifier.error(form) for modifier in _coded_modifiers(form.op)):
        return False
    builder = KernelBuilder(8, 8)
    emit(builder, form, [_place(builder, bits) for bits in source_bits(form)])
    try:
        builder.module()
    except InvalidFunction:
        return False
    return True


def _place(builder: KernelBuilder, bits: int) -> Register | Predicate:
    return builder.predicate() if bits == 1 else builder.register(max(bits, 16))
