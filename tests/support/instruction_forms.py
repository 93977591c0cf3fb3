"""Every form of every instruction: all modifiers that the instruction set lets it have."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kernel_builder import KernelBuilder

from vgpu_sim.isa import (
    BoolOp,
    Compare,
    DataType,
    Instruction,
    MulMode,
    Op,
    Operand,
    Predicate,
    Register,
    Rounding,
    Space,
    SpecialRegister,
)
from vgpu_sim.isa.errors import InvalidFunction
from vgpu_sim.isa.rules import destination_roles, operand_bits, source_roles
from vgpu_sim.isa.table import TABLE

_BOTH = (False, True)


def forms(op: Op) -> Iterator[Instruction]:
    """The legal forms of ``op``, without operands."""
    spec = TABLE[op]
    access, compares = bool(spec.spaces), op is Op.SETP
    choices = {
        "type": spec.types or (DataType.B32,),
        "source_type": spec.source_types or (None,),
        "mode": spec.modes or (MulMode.NONE,),
        "rounding": tuple(Rounding) if spec.roundings or spec.source_types else (Rounding.NONE,),
        "ftz": _BOTH if spec.ftz else (False,),
        "saturate": _BOTH if spec.saturate else (False,),
        "compare": tuple(Compare) if compares else (None,),
        "combine": tuple(BoolOp) if compares else (BoolOp.NONE,),
        "sreg": tuple(SpecialRegister) if op is Op.S2R else (None,),
        "space": spec.spaces or (Space.GENERIC,),
        "vector": (1, 2, 4) if access else (1,),
        "volatile": _BOTH if access else (False,),
        "read_only": _BOTH if access else (False,),
        "uniform": _BOTH if op is Op.BRA else (False,),
    }
    for values in itertools.product(*choices.values()):
        form = Instruction(op, **dict(zip(choices, values, strict=True)))  # type: ignore[arg-type]
        too_wide = form.mode is MulMode.WIDE and form.type.bits == 64
        if not too_wide and _legal(form):
            yield form


def source_bits(form: Instruction) -> list[int]:
    """The width of each source; 1 means a predicate."""
    return [operand_bits(role, form) for role in source_roles(form, TABLE[form.op])]


def destination_bits(form: Instruction) -> list[int]:
    """The width of each destination; 1 means a predicate."""
    return [operand_bits(role, form) for role in destination_roles(form, TABLE[form.op])]


def emit(
    builder: KernelBuilder, form: Instruction, sources: Sequence[Operand]
) -> list[Register | Predicate]:
    """Append ``form`` with new destinations, which it returns. A branch goes to the next word."""
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
