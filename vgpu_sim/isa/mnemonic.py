"""Mnemonics: an opcode and its modifiers as dotted words.

``LD.GLOBAL.V2.F32``, ``SETP.LT.AND.S32``, ``FADD.RN.FTZ.F32``, ``CVT.RZI.S32.F32``: the opcode,
modifiers, the type, the source type. Default values are omitted, except the type of an opcode that
has one.
"""

from functools import cache
from typing import Any

from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.layout import DEFAULTS
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.table import TABLE
from vgpu_sim.isa.types import DataType


@cache
def _words(op: Op) -> dict[str, tuple[str, Any]]:
    """Map each word that may follow an opcode to its field and value."""
    return {
        word: (modifier.name, value)
        for modifier in TABLE[op].modifiers
        for value, word in modifier.words.items()
    }


def render(instruction: Instruction) -> str:
    """Return the mnemonic of an instruction."""
    spec = TABLE[instruction.op]
    parts = [instruction.op.name]
    for modifier in spec.modifiers:
        value = getattr(instruction, modifier.name)
        if modifier.words and value != DEFAULTS[modifier.name]:
            parts.append(modifier.words[value])
    if spec.types:
        parts.append(instruction.type.name)
    if instruction.source_type is not None:
        parts.append(instruction.source_type.name)
    return ".".join(parts)


def parse(text: str) -> dict[str, Any]:
    """Return the fields of ``Instruction`` that a mnemonic sets.

    Raises:
        ValueError: a word is unknown, repeated or missing.
    """
    name, *words = text.split(".")
    if name not in Op.__members__:
        raise ValueError(f"unknown opcode {name!r}")
    op = Op[name]
    fields: dict[str, Any] = {"op": op}
    for word in words:
        if word in DataType.__members__:
            field, value = "type", DataType[word]
            if field in fields:
                field = "source_type"
        elif word in _words(op):
            field, value = _words(op)[word]
        else:
            raise ValueError(f"unknown modifier {word!r} of {name}")
        if field in fields:
            raise ValueError(f"modifier {word!r} contradicts one before it")
        fields[field] = value
    if TABLE[op].types and "type" not in fields:
        raise ValueError(f"{name} needs a type")
    return fields
