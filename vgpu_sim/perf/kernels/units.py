"""Which instructions of the ISA a board performs in one asynchronous unit, beside its warps.

A product of a warp group, a bulk copy and ``cp.async`` are one instruction of a program each.
Tessera compiles them to several: loads of fragments and products of a warp, a loop that moves 16
bytes at a time, or a load and a store. They are recognised by the line of the program that they
have in common.
"""

from collections.abc import Mapping
from enum import Enum, auto, unique
from itertools import groupby
from types import MappingProxyType
from typing import Final

from vgpu_sim.isa import EFFECTS, DataType, Family, Function, Instruction, Op, Space
from vgpu_sim.records import dataclass

WARPS_OF_GROUP: Final = 4
_EIGHT_COLUMNS: Final = 4  # cycles of 64 rows by 8 columns by 32 bytes, in four tensor cores
_LEFT_MATRIX: Final = 16  # cycles in which shared memory returns 64 rows of 32 bytes
_RIGHT_MATRIX: Final = 4  # cycles for what one LDMATRIX loads: 16 columns


_LOADS: Final = (Op.LD, Op.LD_ZFILL)
_FEWEST_SUMS: Final = 8  # of m8n8k4, for each lane
_DOUBLES_SHARE: Final = 0.5  # H100 data sheet: tensor cores have twice the rate of binary64


@unique
class Unit(Enum):
    """A unit that works while the warps continue."""

    PRODUCT = auto()  # a tensor core, for a warp group
    COPY = auto()
    FETCH = auto()  # what ``cp.async`` loads without a register
    DOUBLES = auto()  # the tensor cores of binary64, for one warp


@dataclass(frozen=True, slots=True)
class Part:
    """One instruction's part of what a unit performs.

    ``cycles`` is the duration of a whole product, at its last instruction, and else 0. ``ends`` is
    true for the last instruction of a copy from global memory. ``share`` is the share of a load of
    fragments from shared memory that the unit performs: it reads the right matrix once for four
    warps. ``issued`` is true for the instruction that a warp issues to start a fetch.
    ``busy`` is the share of an instruction's own pipe that the unit keeps busy.
    """

    unit: Unit
    cycles: int = 0
    ends: bool = False
    share: float = 0.0
    issued: bool = False
    busy: float = 0.0


NO_UNITS: Final[Mapping[int, Part]] = MappingProxyType({})


def parts_of(function: Function) -> Mapping[int, Part]:
    """Return the instructions that asynchronous units perform, by their indices in the code."""
    parts: dict[int, Part] = {}
    for line, group in groupby(range(len(function.code)), lambda word: function.lines[word]):
        words = list(group)
        if line == 0 or len(words) == 1:
            continue
        operations = [function.code[word].op for word in words]
        if Op.MMA in operations and Op.LDMATRIX in operations:
            parts |= _product(words, operations)
        elif Op.TRAP in operations and _moves_in_a_loop(function, words):
            parts |= dict.fromkeys(words, Part(Unit.COPY))
            reads = any(_loads_from_global(function.code[word]) for word in words)
            parts[words[-1]] = Part(Unit.COPY, ends=reads)
        elif _multiplies_doubles(function, words):
            parts |= {word: _doubles(function.code[word]) for word in words}
        else:
            parts |= _fetch(function, words)
    return parts


def _multiplies_doubles(function: Function, words: list[int]) -> bool:
    """True for ``mma`` of binary64, which becomes shuffles of both halves of each element, and
    fused multiply-adds.
    """
    code = [function.code[word] for word in words]
    sums = sum(
        instruction.op is Op.FMA and instruction.type is DataType.F64 for instruction in code
    )
    shuffles = sum(instruction.op is Op.SHFL for instruction in code)
    return sums >= _FEWEST_SUMS and shuffles >= sums and not any(map(_is_of_a_program, code))


def _is_of_a_program(instruction: Instruction) -> bool:
    """True for an instruction that no product is compiled to."""
    return EFFECTS[instruction.op].accesses or instruction.op.family is Family.CONTROL


def _doubles(instruction: Instruction) -> Part:
    return Part(Unit.DOUBLES, busy=_DOUBLES_SHARE if instruction.op is Op.FMA else 0.0)


def _product(words: list[int], operations: list[Op]) -> dict[int, Part]:
    products, loads = operations.count(Op.MMA), operations.count(Op.LDMATRIX)
    has_left = loads > -(-products // 2)
    parts = dict.fromkeys(words, Part(Unit.PRODUCT))
    for word, operation in zip(words, operations, strict=True):
        if operation is Op.LDMATRIX:
            parts[word] = Part(Unit.PRODUCT, share=1 / WARPS_OF_GROUP)
    if has_left:
        parts[words[operations.index(Op.LDMATRIX)]] = Part(Unit.PRODUCT, share=1.0)
    read = _LEFT_MATRIX * has_left + _RIGHT_MATRIX * (loads - has_left)
    last = max(
        word for word, operation in zip(words, operations, strict=True) if operation is Op.MMA
    )
    parts[last] = Part(Unit.PRODUCT, cycles=max(_EIGHT_COLUMNS * products, read))
    return parts


def _fetch(function: Function, words: list[int]) -> dict[int, Part]:
    """Return the parts of ``cp.async``: loads from global memory whose untyped words are stored to
    shared memory. A program's own load and store on one line have types, as a rule.
    """
    code = {word: function.code[word] for word in words}
    loads = [word for word, instruction in code.items() if instruction.op in _LOADS]
    stores = [word for word, instruction in code.items() if instruction.op is Op.ST]
    if not loads or len(loads) != len(stores):
        return {}
    if not all(_copies(code[a], code[b]) for a, b in zip(loads, stores, strict=True)):
        return {}
    return dict.fromkeys(loads, Part(Unit.FETCH, issued=True)) | dict.fromkeys(
        stores, Part(Unit.FETCH, share=1.0)
    )


def _copies(load: Instruction, store: Instruction) -> bool:
    return (
        (load.space, store.space) == (Space.GLOBAL, Space.SHARED)
        and load.type is store.type is DataType.B32
        and load.dsts == store.srcs[1:]
    )


def _moves_in_a_loop(function: Function, words: list[int]) -> bool:
    code = [function.code[word] for word in words]
    moves = any(instruction.op is Op.LD for instruction in code) and any(
        instruction.op in (Op.ST, Op.RED) for instruction in code
    )
    return moves and any(
        instruction.op is Op.BRA
        and instruction.target is not None
        and words[0] <= instruction.target <= word
        for word, instruction in zip(words, code, strict=True)
    )


def _loads_from_global(instruction: Instruction) -> bool:
    return instruction.op is Op.LD and instruction.space is Space.GLOBAL
