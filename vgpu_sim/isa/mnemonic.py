"""Mnemonics: an opcode and its modifiers as dotted words, and back.

``LD.GLOBAL.V2.F32``, ``SETP.LT.AND.S32``, ``FADD.RN.FTZ.F32``, ``CVT.RZI.S32.F32``: the opcode,
modifiers, the type, the source type. Words that say the default are left out, but for the type of
an opcode that has one.
"""

from typing import Any, Final

from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.table import TABLE
from vgpu_sim.isa.types import BoolOp, Compare, DataType, MulMode, Rounding, Space

_VECTORS: Final = {"V2": 2, "V4": 4}
_FLAGS: Final = {
    "VOLATILE": "volatile",
    "READONLY": "read_only",
    "FTZ": "ftz",
    "SAT": "saturate",
    "UNI": "uniform",
}


def _words() -> dict[str, tuple[str, Any]]:
    """Map each modifier word to the field and value that it stands for."""
    words: dict[str, tuple[str, Any]] = {}
    for name, kind in (
        ("compare", Compare),
        ("combine", BoolOp),
        ("mode", MulMode),
        ("space", Space),
        ("rounding", Rounding),
    ):
        # Value 0 of the others is their default, which has no word.
        members = [m for m in kind if kind is Compare or m.value != 0]
        words |= {member.name: (name, member) for member in members}
    words |= {word: ("vector", count) for word, count in _VECTORS.items()}
    words |= {word: (flag, True) for word, flag in _FLAGS.items()}
    return words


_WORDS: Final = _words()


def render(instruction: Instruction) -> str:
    """Return the mnemonic of an instruction."""
    spec = TABLE[instruction.op]
    parts = [instruction.op.name]
    if instruction.compare is not None:
        parts.append(instruction.compare.name)
    parts += [
        member.name
        for member in (instruction.combine, instruction.mode, instruction.space)
        if member.value != 0
    ]
    parts += [word for word in ("VOLATILE", "READONLY") if getattr(instruction, _FLAGS[word])]
    parts += [word for word, count in _VECTORS.items() if instruction.vector == count]
    if instruction.rounding is not Rounding.NONE:
        parts.append(instruction.rounding.name)
    parts += [word for word in ("FTZ", "SAT", "UNI") if getattr(instruction, _FLAGS[word])]
    if spec.types:
        parts.append(instruction.type.name)
    if instruction.source_type is not None:
        parts.append(instruction.source_type.name)
    return ".".join(parts)


def parse(text: str) -> dict[str, Any]:
    """Return the fields of ``Instruction`` that a mnemonic says.

    Raises:
        ValueError: naming the word that is unknown, doubled or missing.
    """
    name, *words = text.split(".")
    if name not in Op.__members__:
        raise ValueError(f"unknown opcode {name!r}")
    fields: dict[str, Any] = {"op": Op[name]}
    for word in words:
        if word in DataType.__members__:
            field, value = "type", DataType[word]
            if field in fields:
                field = "source_type"
        elif word in _WORDS:
            field, value = _WORDS[word]
        else:
            raise ValueError(f"unknown modifier {word!r}")
        if field in fields:
            raise ValueError(f"modifier {word!r} contradicts one before it")
        fields[field] = value
    if TABLE[Op[name]].types and "type" not in fields:
        raise ValueError(f"{name} needs a type")
    return fields
