"""Writes the instruction set's reference: ``python -m vgpu_sim.isa.reference > docs/isa.md``.

Tables come from the definitions. The text is in this module or in the docstrings of the
described modules, so that it is next to the code that it describes.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields
from enum import IntEnum
from inspect import cleandoc

from vgpu_sim.hal.compute.limits import MAX_LOCAL_BYTES_PER_THREAD, STACK_BYTES_PER_THREAD
from vgpu_sim.isa import asm, container, encoding, mnemonic, sections
from vgpu_sim.isa.effects import Effects
from vgpu_sim.isa.families.memory import MAXIMUM_VECTOR_BYTES
from vgpu_sim.isa.layout import DST, OPERAND_BITS, A, B, C, Modifier, Types
from vgpu_sim.isa.opcodes import Family
from vgpu_sim.isa.pool import MAXIMUM_POOL
from vgpu_sim.isa.spec import FLOATS, INTEGERS, OpSpec, Role
from vgpu_sim.isa.table import TABLE
from vgpu_sim.isa.types import (
    BoolOp,
    Compare,
    DataType,
    MatchMode,
    MatrixShape,
    MulMode,
    Order,
    Permute,
    Reduction,
    Rounding,
    Scope,
    ShuffleMode,
    Space,
    SpecialRegister,
    TrapCause,
    Update,
    VoteMode,
)
from vgpu_sim.isa.verify import (
    MAXIMUM_MODULE_WORDS,
    MAXIMUM_PARAMETER_BYTES,
    MAXIMUM_PREDICATES,
    MAXIMUM_REGISTERS,
    MAXIMUM_WORDS,
)

_INTRODUCTION = f"""
# The instruction set

<!-- Written by `python -m vgpu_sim.isa.reference > docs/isa.md`; do not edit. -->

This is the only instruction set that the simulated GPUs execute: PTX is compiled to it, and
disassembler, interpreter and JIT read the same binary. The interpreter
(`vgpu_sim/exec/interp`) is the executable form of this document.

## Machine model
- A function has a file of mutable registers of 16, 32 or 64 bits each (up to {MAXIMUM_REGISTERS}),
  a file of one-bit predicates (up to {MAXIMUM_PREDICATES}), and a read-only literal pool. Registers
  have no type; the instruction determines how they are interpreted. All start as zero.
- A warp has 32 lanes: 32 consecutive threads of one block, numbered with x varying fastest. A lane
  that is not active, or for which the instruction's guard (`@p` or `@!p`) is false, changes no
  state, accesses no memory and cannot fault.
- Each block has separate shared memory: 32-bit addresses from 0 on, the function's `shared` bytes,
  followed by the dynamic shared memory of the launch. It is zero when the block begins. It also has
  generic addresses, which are the same for every block: S2R SHARED_WINDOW returns their upper half.
- Each thread has separate local memory: 32-bit addresses from 0 on, the function's `local` bytes,
  followed, in functions whose calls need frames, by a stack of {STACK_BYTES_PER_THREAD} bytes or of
  the size that the launch specifies; at most {MAX_LOCAL_BYTES_PER_THREAD} bytes together. It is
  zero when the thread begins. It also has generic addresses, which are the same for every thread:
  LOCAL_WINDOW returns their upper half.
- Scheduling is fair: the diverged parts of a warp, the warps of a block and the resident blocks all
  make progress, even if another of them never ends. Their stores become visible to other threads
  only in the order given by barriers, fences, and a thread's own volatile and atomic accesses.
- Lanes that diverge at a branch reconverge at its **immediate post-dominator**: the first
  instruction that is on every path from the branch to the function's end. RET and TRAP lead to the
  end. A lane that has waited there for a long time continues without the others if these may be
  waiting for it: in functions with volatile loads or ATOM, or if all other running threads of the
  block wait.
- A **collective** (an instruction of the families WARP, except ACTIVEMASK, and MATRIX) has a member
  mask m with one bit for each lane of the warp. It is the last operand; in family MATRIX it is all
  lanes. A lane waits at a collective until every lane in m that has not ended has arrived at a
  collective with the same opcode, modifiers, type and m, which may be another instruction; these
  lanes **take part**, and all of them continue. Lanes that execute an instruction together may have
  several disjoint masks; each mask is a separate collective. The context ends with
  CUDA_ERROR_LAUNCH_FAILED (719) if a lane is not in its own m, or if its m contains a lane that
  executes the instruction together with it but has another m. It also ends so if a wait can never
  end, where hardware would hang: when every thread of the block waits for others.
- An operand is at least as wide as its role specifies; only the low bits of a wider register are
  used. A destination that is wider than the result is extended with the sign of a signed type, else
  with zeros (PTX ISA, "Operand Size Exceeding Instruction-Type Size").
- Memory is little-endian. A module's variables are in one segment. An address in `GENERIC`,
  `GLOBAL` and `CONST` space has 64 bits and means the same in all three; in `GENERIC` space the
  addresses in the window of shared memory access shared memory. A kernel must read the window's
  address itself: an address in a launch's parameters never refers to shared memory.
- An access to unmapped memory ends the context with CUDA_ERROR_ILLEGAL_ADDRESS (700).
- The address of an access must be a multiple of its size, which is the type's size times the number
  of vector elements. Otherwise the context ends with CUDA_ERROR_MISALIGNED_ADDRESS (716), before it
  is tested whether the address is mapped. If several lanes fault, it is undefined which lane's
  address is reported.
- A load whose result is not used may be eliminated, together with its fault: the interpreter
  performs every load, the JIT's code only those on which something depends, as `ptxas` does for
  hardware. So a program whose only invalid access is such a load may end with 700 or 716 in one
  executor and not in the other. `VOLATILE` loads and stores are never eliminated, and a `VOLATILE`
  load never reuses the value of an earlier load.

## Arithmetic
- Integers wrap modulo 2^bits; signed integers are two's complement; untyped bits are unsigned.
- Floats are IEEE 754: binary16 (`F16`), bfloat16 (`BF16`), binary32 (`F32`), binary64 (`F64`), with
  subnormal numbers. Every operation rounds once; `NONE` rounds as `RN`.
- Packed types (`F16X2`, `BF16X2`, `F32X2`) are two numbers, the first in the low half; an
  instruction is applied to each of them.
- The OCP formats `E4M3`, `E5M2`, `E2M3`, `E3M2` and `E2M1` (named after their exponent and fraction
  bits) occupy the low 8, 6 or 4 bits of 8; only `E5M2` has infinities, only `E5M2` and `E4M3` NaNs.
  `UE8M0` is a power of two, 2^(pattern - 127), or NaN. `TF32` is an F32 whose low 13 bits are zero.
- A NaN result is canonical: `0x7fff` (F16, BF16), `0x7fffffff` (F32, TF32), `0x7ff8000000000000`
  (F64), `0x7f` (E4M3, E5M2), `0xff` (UE8M0).
  MOV, SELP, LD, ST, FNEG and FABS copy bit patterns and do not canonicalise NaNs.
- `FTZ` replaces subnormal operands, and a result that is subnormal after rounding, by a zero of the
  same sign.
- `SAT` clamps a float result to [0, 1]; NaN, zeros and negative numbers become +0.
- Operations are never contracted or reassociated: only FMA is a fused multiply-add.
"""

_LIMITS = f"""
| limit | |
|---|---|
| words of a function, of a module | {MAXIMUM_WORDS}, {MAXIMUM_MODULE_WORDS} |
| registers, predicates | {MAXIMUM_REGISTERS}, {MAXIMUM_PREDICATES} |
| distinct literals and vectors of a function | {MAXIMUM_POOL} |
| bytes of parameters | {MAXIMUM_PARAMETER_BYTES} |
| bytes of a vector access | {MAXIMUM_VECTOR_BYTES} |
| bytes of a container | {sections.MAXIMUM_FILE_BYTES} |
"""

_ROLES = {
    Role.VALUE: "as wide as the type",
    Role.RESULT: "as wide as the type, twice that in mode WIDE",
    Role.SOURCE: "as wide as the source type",
    Role.COUNT: "32 bits",
    Role.PREDICATE: "a predicate, or as a source the literal 0 or 1",
    Role.INVERSE: "a second predicate; may be absent (`_`)",
    Role.CARRY: "a predicate; may be absent (`_`)",
    Role.COMBINED: "a predicate; absent where the comparison is not combined",
    Role.ADDRESS: "64 bits; 32 in `SHARED` and `LOCAL` space; absent in `PARAM` space",
    Role.WAY: "two values of 32 bits, written `{b, c}`",
    Role.DATA: "1, 2 or 4 values as wide as the type",
    Role.LEFT: "a vector of 32-bit values: the lane's part of A",
    Role.RIGHT: "a vector of 32-bit values: the lane's part of B",
    Role.TOTALS: "a vector of 32-bit values: the lane's part of C, or D",
    Role.SWAPPED: "as wide as the type; absent where nothing is compared first",
}


_KINDS: tuple[type[IntEnum], ...] = (
    DataType,
    SpecialRegister,
    Compare,
    BoolOp,
    MulMode,
    Rounding,
    Space,
    TrapCause,
    Permute,
    MatrixShape,
    ShuffleMode,
    VoteMode,
    MatchMode,
    Reduction,
    Update,
    Order,
    Scope,
)


def render() -> str:
    """Return the text of ``docs/isa.md``."""
    return "\n".join(_document()).rstrip() + "\n"


def _document() -> Iterator[str]:
    yield _INTRODUCTION.strip()
    yield "\n## Opcodes"
    yield "\n*integers* are B, U and S (untyped, unsigned, signed) of 16, 32 and 64 bits; *floats*"
    yield "are F16, BF16, F32 and F64."
    yield from _index()
    for family in Family:
        yield f"\n### {family.name.capitalize()} (family {family:#04x})"
        for spec in TABLE.values():
            if spec.op.family is family:
                yield from _opcode(spec)
    yield "\n## Operand roles\n"
    yield from _table(("role", "width"), ((r.value, _ROLES[r]) for r in Role))
    yield "\n## Encoding\n"
    yield _prose(encoding)
    yield "\nValues of the fields:\n"
    for kind in _KINDS:
        yield from _values(kind)
    yield _LIMITS.rstrip()
    yield "\n## Container\n"
    yield _prose(sections)
    yield ""
    yield _prose(container)
    yield "\n## Text\n"
    yield _prose(asm)
    yield ""
    yield _prose(mnemonic)


def _index() -> Iterator[str]:
    yield ""
    rows = (
        (f"`{spec.op.name}`", f"{spec.op:#06x}", spec.summary, _types(spec.types))
        for spec in TABLE.values()
    )
    yield from _table(("opcode", "number", "", "types"), rows)


def _opcode(spec: OpSpec) -> Iterator[str]:
    yield f"\n#### {spec.op.name} — {spec.summary}\n"
    yield spec.semantics
    facts = []
    operands = [*_operands(spec)]
    if operands:
        facts.append(("operands", ", ".join(operands)))
    if spec.types:
        facts.append(("types", _types(spec.types)))
    facts += [_modifier(modifier, spec.types) for modifier in spec.modifiers]
    facts += spec.notes
    effects = [f"{field.name}" for field in fields(Effects) if getattr(spec.effects, field.name)]
    if effects:
        facts.append(("effects", ", ".join(effects)))
    if spec.ptx:
        facts.append(("PTX", f"`{spec.ptx}`"))
    if facts:
        yield ""
    for name, value in facts:
        yield f"- {name}: {value}"


def _operands(spec: OpSpec) -> Iterator[str]:
    """Yield each operand's letter and role, and its place if that is not the usual one."""
    letters = "pq" if spec.dsts[:1] == (Role.PREDICATE,) else "dp"
    for letter, role, first, usual in (
        *zip(letters, spec.dsts, spec.dst_places, (DST, None), strict=False),
        *zip("abce", spec.srcs, spec.src_places, (A, B, C, None), strict=False),
    ):
        where = "" if first == usual else f" ({_bits(range(first, first + OPERAND_BITS))})"
        yield f"{letter}: {role.value}{where}"


def _bits(bits: range) -> str:
    return f"bit {bits[0]}" if len(bits) == 1 else f"bits {bits[0]}-{bits[-1]}"


def _modifier(modifier: Modifier, types: Types) -> tuple[str, str]:
    """Return name and place, and the values, with their types where not all types are legal."""
    if not modifier.codes:
        kind = "a signed number" if modifier.signed else "an unsigned number"
        return f"{modifier.label} ({_bits(modifier.bits)})", kind
    groups: dict[str, list[str]] = {}
    for value in modifier.codes:
        legal = types if modifier.types is None else modifier.types.get(value, ())
        type_note = "" if set(legal) >= set(types) else f" ({_types(legal)})"
        value_text = value.name if isinstance(value, IntEnum) else modifier.words.get(value)
        if value_text and not isinstance(value, IntEnum | bool):
            value_text += f" as {modifier.codes[value]}"
        if value_text and (legal or modifier.types is None):
            groups.setdefault(type_note, []).append(value_text)
    text = "; ".join(", ".join(names) + type_note for type_note, names in groups.items())
    return f"{modifier.label} ({_bits(modifier.bits)})", text


def _types(types: Types) -> str:
    names = []
    remaining_types = list(types)
    for name, group in (("integers", INTEGERS), ("floats", FLOATS)):
        if set(group) <= set(remaining_types):
            names.append(name)
            remaining_types = [type_ for type_ in remaining_types if type_ not in group]
    return ", ".join([*names, *(type_.name for type_ in remaining_types)])


def _values(kind: type[IntEnum]) -> Iterator[str]:
    members = ", ".join(f"{member.value} {member.name}" for member in kind)
    yield f"- **{kind.__name__}**: {members}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _prose(module: object) -> str:
    """Return a module's docstring as Markdown; its literal blocks become fenced blocks."""
    result: list[str] = []
    fenced = False
    for line in cleandoc(module.__doc__ or "").replace("``", "`").split("\n"):
        indented = line.startswith("    ")
        if indented and not fenced:
            result.append("```")
            fenced = True
        elif fenced and line and not indented:
            result.insert(len(result) - (result[-1] == ""), "```")
            fenced = False
        if line != "::":
            result.append(line[4:] if indented else line.replace("::", ":"))
    return "\n".join([*result, "```"] if fenced else result)


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m vgpu_sim.isa.reference", description=__doc__
    ).parse_args()
    sys.stdout.write(render())
