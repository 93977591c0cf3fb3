"""Which instructions, modifiers and special registers PTX has: what is not here is no PTX.

The tables follow the syntax sections of PTX ISA 9.4. They say how an instruction may be spelled,
not what its operands are nor which target has it. Where PTX lists dozens of forms of one
instruction (matrices, bulk copies), one row here allows all of them and some that do not exist;
such are refused as not supported. No row refuses what PTX allows.
"""

from functools import cache, lru_cache

from vgpu_sim.compiler.ptx.grammar import rows
from vgpu_sim.compiler.ptx.grammar.matrix import MATRIX
from vgpu_sim.compiler.ptx.grammar.memory import MEMORY
from vgpu_sim.compiler.ptx.grammar.registers import SPECIAL_REGISTERS
from vgpu_sim.compiler.ptx.grammar.scalar import SCALAR

LATEST_VERSION = (9, 4)
"""The PTX ISA version that the tables are from; a newer file may have more."""

_MAX_CACHED_SPELLINGS = 4096  # a real file has a few hundred; tenants may write any number


@cache
def instructions() -> dict[str, tuple[rows.Row, ...]]:
    """Return the forms of every instruction, by opcode."""
    found: dict[str, tuple[rows.Row, ...]] = {}
    for table in (SCALAR, MEMORY, MATRIX):
        for opcode, forms in rows.read(table).items():
            found[opcode] = found.get(opcode, ()) + forms
    return found


@lru_cache(maxsize=_MAX_CACHED_SPELLINGS)
def first_error(opcode: str, modifiers: tuple[str, ...]) -> tuple[int, str] | None:
    """Hold a spelling such as ``ld``, ``(".global", ".u32")`` against the grammar.

    Return None when it is PTX, else what is wrong and where: the index of the modifier, -1 for the
    opcode, the number of modifiers when one is missing.
    """
    forms = instructions().get(opcode)
    if forms is None:
        return -1, f"{opcode!r} is not an instruction of PTX"
    words = tuple(modifier[1:] for modifier in modifiers)
    farthest = 0
    for form in forms:
        index = form.match(words)
        if index is None:
            return None
        farthest = max(farthest, index)
    before = opcode + "".join(modifiers[:farthest])
    if farthest == len(words):
        return farthest, f"{before!r} needs a further modifier"
    for index, word in enumerate(words):
        if not any(form.knows(word) for form in forms):
            return index, f"{opcode!r} has no modifier {modifiers[index]!r}"
    return farthest, f"{modifiers[farthest]!r} cannot stand after {before!r}"


def is_special(name: str) -> bool:
    """Return whether PTX defines a special register of that name (without component)."""
    return name in SPECIAL_REGISTERS


__all__ = ["LATEST_VERSION", "SPECIAL_REGISTERS", "first_error", "instructions", "is_special"]
