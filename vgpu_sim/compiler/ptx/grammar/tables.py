"""The tables of all instructions, and the notation of what an instruction takes and needs.

A row is an instruction (or several, with ``|``), its modifiers as ``rows`` describes them, after a
colon its operands, and after a further one the ``.target`` and the ``.version`` that it needs::

    dp4a    $int32 $int32  : =s32 1 2 s32 : 61 5.0
    lop3    and|or? b32    : =b32_ b32 b32 b32 imm : 50 4.3
      and|or               : =b32_|P b32 b32 b32 imm p : 70 8.2

Operands and needs are the instruction's, in whichever of its rows they stand. Where they depend on
modifiers, lines below with two blanks before them say so: words that all have to stand among the
modifiers (``a|b`` one of several, ``$class`` one of a class, ``sp::*`` any that begins so, ``!a``
none of those, ``.a.b`` those at the end, ``#2`` two types), a colon and the operands, or nothing,
a further colon and the need. A line of eight blanks continues the one before.

Of the lines with operands the first that applies holds, the instruction's own row last. Without
one, operands are not checked; ``-`` stands for no operands, and ``/`` separates several lists of
operands that one form may have. An operand (PTX ISA, the syntax and "Description" of each) is

- a type such as ``u32``, or ``1``, ``2``, ... for the first, second, ... type among the modifiers,
  ``W1`` for twice its width: a register that agrees with it, or a constant;
- ``=`` before it: the register that the result goes to; ``_`` after that: ``_`` will do too;
- ``!`` before it: a register and nothing else;
- ``%`` before it: a special register will do too; ``~``: a register may be wider (PTX ISA, "Operand
  Size Exceeding Instruction-Type Size"); ``v``: a vector where the form has ``.v2`` and so on;
- ``{4}b32``: a vector of that many;
- ``p``: a predicate, read; ``=p``: one that is written; ``=p|p`` one or two, ``=1|p`` with an
  optional predicate, ``=1|P`` with one that is needed;
- ``[]`` an address, ``[*]`` an address with coordinates or more; ``imm`` an integer constant;
  ``reg`` any register; ``any`` anything; ``rest`` any number of anything;
- ``_``: nothing but that; ``bits32``: a register declared with those bits;
- ``h``: the cache policy, there when ``.L2::cache_hint`` is;
- ``@0..15``, ``@4,8,16``, ``@%32`` or ``@24..256%8`` after it: what a constant may be.

Of the needs that apply each has to be met (PTX ISA, "Target ISA Notes"). A target is a number (that
one and newer ones), ``90a`` (architecture-specific: that one alone), ``100f`` (family-specific, or
the same family's architecture-specific ones), several with ``/``, or ``<70@6.4`` (older ones alone,
from PTX 6.4 on). What has no need runs everywhere, as far as we know: one stands here only where it
is certain.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from vgpu_sim.compiler.ptx.grammar.matrix import MATRIX
from vgpu_sim.compiler.ptx.grammar.memory import MEMORY
from vgpu_sim.compiler.ptx.grammar.scalar import SCALAR

TABLES: Final = (SCALAR, MEMORY, MATRIX)


@dataclass(frozen=True, slots=True)
class Statement:
    """Operands, a need or both of an instruction, where ``words`` apply; "" where none is stated.

    ``is_row``: it stands in a row of the instruction, and not in a line below one.
    """

    words: tuple[str, ...]
    operands: str
    need: str
    is_row: bool


def forms(text: str) -> Iterator[str]:
    """Yield the rows of a table without what is stated after their modifiers."""
    for line in _lines(text):
        if not line.startswith("  "):
            yield line.partition(" :")[0].rstrip()


@cache
def statements() -> Mapping[str, tuple[Statement, ...]]:
    """Return what all tables state, by instruction.

    Raises:
        ValueError: two rows of an instruction state operands, or two a need.
    """
    found: dict[str, list[Statement]] = defaultdict(list)
    for table in TABLES:
        opcodes: list[str] = []
        for line in _lines(table):
            head, _, stated = f"{line} ".partition(" :")
            operands, _, need = (one.strip() for one in f"{stated} ".partition(" : "))
            is_row = not line.startswith("  ")
            if is_row:
                opcodes = line.split()[0].split("|")
            words = () if is_row else tuple(head.split())
            for opcode in opcodes if stated else ():
                found[opcode].append(Statement(words, operands, need, is_row))
    for opcode, all_ in found.items():
        rows = [one for one in all_ if one.is_row]
        if sum(bool(one.operands) for one in rows) > 1 or sum(bool(one.need) for one in rows) > 1:
            raise ValueError(f"several rows of {opcode} state its operands or its needs")
    return {opcode: tuple(all_) for opcode, all_ in found.items()}


def _lines(text: str) -> Iterator[str]:
    for line in text.replace("\n        ", " ").splitlines():
        if line and not line.startswith("#"):
            yield line
