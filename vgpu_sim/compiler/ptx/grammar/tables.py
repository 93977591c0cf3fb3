"""The tables of all instructions, and the notation of operands and requirements.

A row is an instruction (or several, with ``|``), its modifiers as ``rows`` describes them, after a
colon its operands, and after another colon the ``.target`` and the ``.version`` that it requires::

    dp4a    $int32 $int32  : =s32 1 2 s32 : 61 5.0
    lop3    and|or? b32    : =b32_ b32 b32 b32 imm : 50 4.3
      and|or               : =b32_|P b32 b32 b32 imm p : 70 8.2

Operands and requirements apply to all rows of the instruction, in whichever row they are written.
If they depend on modifiers, lines that begin with two blanks follow: words that all have to be
among the modifiers (``a|b`` one of several, ``$class`` one of a class, ``sp::*`` any with that
prefix, ``!a`` none of those, ``.a.b`` those at the end, ``#2`` two types), a colon and the
operands, or nothing, another colon and the requirement. A line of eight blanks continues the
previous one.

The first line with operands that applies is used, the instruction's own row last. Without one,
operands are not checked; ``-`` means no operands, and ``/`` separates several lists of operands
that one form may have. An operand (PTX ISA, the syntax and "Description" of each) is

- a type such as ``u32``, or ``1``, ``2``, ... for the first, second, ... type among the modifiers,
  ``W1`` for twice its width: a register that matches it, or a constant;
- ``=`` before it: the destination register; ``_`` after that: ``_`` is allowed too;
- ``!`` before it: only a register;
- ``%`` before it: a special register is allowed too; ``~``: a register may be wider (PTX ISA,
  "Operand Size Exceeding Instruction-Type Size"); ``v``: a vector if the form has ``.v2`` etc.;
- ``{4}b32``: a vector with so many elements;
- ``p``: a predicate that is read; ``=p``: one that is written; ``=p|p`` one or two, ``=1|p`` with
  an optional predicate, ``=1|P`` with a required one;
- ``[]`` an address, ``[*]`` an address with coordinates or more; ``imm`` an integer constant;
  ``reg`` any register; ``any`` anything; ``rest`` any number of anything;
- ``_``: only ``_``; ``bits32``: a register declared with those bits;
- ``h``: the cache policy, present with ``.L2::cache_hint``;
- ``@0..15``, ``@4,8,16``, ``@%32`` or ``@24..256%8`` after it: the allowed constants.

All requirements that apply must be met (PTX ISA, "Target ISA Notes"). A target is a number (that
one and newer ones), ``90a`` (architecture-specific: only that one), ``100f`` (family-specific, or
the same family's architecture-specific ones), several with ``/``, or ``<70@6.4`` (only older ones,
from PTX 6.4 on). Forms without a requirement are assumed to run everywhere: a requirement is listed
only where it is certain.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from vgpu_sim.compiler.ptx.grammar.matrix import MATRIX
from vgpu_sim.compiler.ptx.grammar.memory import MEMORY
from vgpu_sim.compiler.ptx.grammar.scalar import SCALAR
from vgpu_sim.records import dataclass

TABLES: Final = (SCALAR, MEMORY, MATRIX)


@dataclass(frozen=True, slots=True)
class Statement:
    """What a table states about an instruction whose modifiers satisfy ``words``.

    A statement gives the operands, a requirement, or both. The field for a part that it does not
    give is "". ``is_row`` is true if the statement is part of an instruction's row. It is false
    if the statement is on a separate line below the row.
    """

    words: tuple[str, ...]
    operands: str
    need: str
    is_row: bool


def forms(text: str) -> Iterator[str]:
    """Yield the rows of a table. The operands and requirements at the end of each row are
    removed.
    """
    for line in _lines(text):
        if not line.startswith("  "):
            yield line.partition(" :")[0].rstrip()


@cache
def statements() -> Mapping[str, tuple[Statement, ...]]:
    """Return the statements of all tables, by instruction.

    Raises:
        ValueError: more than one row of an instruction states operands, or more than one states a
            requirement.
    """
    statements_of: dict[str, list[Statement]] = defaultdict(list)
    for table in TABLES:
        opcodes: list[str] = []
        for line in _lines(table):
            head, _, stated = f"{line} ".partition(" :")
            operands, _, need = (part.strip() for part in f"{stated} ".partition(" : "))
            is_row = not line.startswith("  ")
            if is_row:
                opcodes = line.split()[0].split("|")
            words = () if is_row else tuple(head.split())
            for opcode in opcodes if stated else ():
                statements_of[opcode].append(Statement(words, operands, need, is_row))
    for opcode, statement_list in statements_of.items():
        rows = [row for row in statement_list if row.is_row]
        if sum(bool(row.operands) for row in rows) > 1 or sum(bool(row.need) for row in rows) > 1:
            raise ValueError(f"several rows of {opcode} state its operands or its needs")
    return {opcode: tuple(statement_list) for opcode, statement_list in statements_of.items()}


def _lines(text: str) -> Iterator[str]:
    for line in text.replace("\n        ", " ").splitlines():
        if line and not line.startswith("#"):
            yield line
