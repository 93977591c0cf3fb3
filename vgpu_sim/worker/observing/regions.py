"""Divides the memory that a kernel's instructions access into regions, so that an analysis can tell
which loads may read what a store writes.

Two pointers that the kernel gets in different parameters are taken to point to different buffers.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from vgpu_sim.isa import EFFECTS, Instruction, Op, Register, Space, Symbol

Region = Space | str | tuple[int, int]
"""Shared memory, a variable of the module, or what a parameter points to; a parameter has an offset
and an index in the vector that is loaded there. ``Space.GLOBAL``: an unknown address.
"""

Regions = Mapping[int, frozenset[Region]]
NO_REGIONS: Final[Regions] = MappingProxyType({})
_SHARED: Final = frozenset[Region]({Space.SHARED})
_UNKNOWN: Final = frozenset[Region]({Space.GLOBAL})
_POINTER_BITS: Final = 64


def regions_of_accesses(code: tuple[Instruction, ...], loop: Iterable[int]) -> Regions:
    """Return the regions that each instruction may access: in shared memory those of all
    instructions, and in global memory those of a loop. A loop that stores nothing in global memory
    has none there.
    """
    regions: dict[int, frozenset[Region]] = {
        word: _SHARED
        for word, instruction in enumerate(code)
        if instruction.space in (Space.SHARED, Space.GENERIC) and EFFECTS[instruction.op].accesses
    }
    accesses = [
        word
        for word in loop
        if code[word].space in (Space.GLOBAL, Space.GENERIC) and EFFECTS[code[word].op].accesses
    ]
    if not any(code[word].op is Op.ST for word in accesses):
        return regions
    bases = _bases_of_registers(code)
    targets = {word: _bases(code[word], bases, address_only=True) for word in accesses}
    every = _UNKNOWN.union(*targets.values())
    for word, target in targets.items():
        is_unknown = not target or Space.GLOBAL in target
        regions[word] = regions.get(word, frozenset()) | (every if is_unknown else target)
    return regions


def _bases_of_registers(code: tuple[Instruction, ...]) -> dict[Register, frozenset[Region]]:
    """Return for each register the regions to which it may point."""
    bases: dict[Register, frozenset[Region]] = {}
    grew = True
    while grew:
        grew = False
        for instruction in code:
            for index, register in enumerate(instruction.dsts):
                if not isinstance(register, Register):
                    continue
                regions = bases.get(register, frozenset())
                union = regions | _result(instruction, index, bases)
                if union != regions:
                    bases[register] = union
                    grew = True
    return bases


def _result(
    instruction: Instruction, index: int, bases: Mapping[Register, frozenset[Region]]
) -> frozenset[Region]:
    if not EFFECTS[instruction.op].reads:
        return _bases(instruction, bases)
    if instruction.op is not Op.LD or instruction.type.bits < _POINTER_BITS:
        return frozenset()
    if instruction.space is Space.PARAM:
        return frozenset({(instruction.displacement, index)})
    return _UNKNOWN


def _bases(
    instruction: Instruction,
    bases: Mapping[Register, frozenset[Region]],
    *,
    address_only: bool = False,
) -> frozenset[Region]:
    operands = instruction.srcs[:1] if address_only else instruction.srcs
    regions: set[Region] = set()
    for operand in operands:
        if isinstance(operand, Symbol):
            regions.add(operand.name)
        elif isinstance(operand, Register):
            regions |= bases.get(operand, frozenset())
    return frozenset(regions)
