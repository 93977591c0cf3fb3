"""Atomic updates of memory, and fences."""

from collections.abc import Iterator
from typing import Final

from vgpu_sim.isa.effects import Effects
from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.layout import DST, A, B, C, Modifier, choice
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import OpSpec, Role
from vgpu_sim.isa.types import DataType, Order, Scope, Space, Update

MAXIMUM_VECTOR_BYTES: Final = 16
PAIR: Final = 2
"""The number of elements of .B64 that EXCH and CAS treat as one value of 128 bits."""
MBARRIER_PENDING: Final = 1
MBARRIER_TRANSACTIONS: Final = 21
MBARRIER_EXPECTED: Final = 42
MBARRIER_COUNT: Final = (1 << 20) - 1
MBARRIER_TRANSACTION_MASK: Final = (1 << 21) - 1
"""The layout of an mbarrier object: the first bits of its counts, the largest number of arrivals,
and the bits of the signed number of transactions."""
_BITS = (DataType.B32, DataType.B64)
_SUMS = (DataType.U32, DataType.S32, DataType.U64)
_FLOATS = (DataType.F16, DataType.BF16, DataType.F32, DataType.F64)
_HALVES = (DataType.F16, DataType.BF16)
_EXTREMA = (DataType.U32, DataType.S32, DataType.U64, DataType.S64, *_HALVES)
_UPDATES: dict[Update, tuple[DataType, ...]] = {
    Update.AND: _BITS,
    Update.OR: _BITS,
    Update.XOR: _BITS,
    Update.EXCH: _BITS,
    Update.ADD: (*_SUMS, *_FLOATS),
    Update.INC: (DataType.U32,),
    Update.DEC: (DataType.U32,),
    Update.MIN: _EXTREMA,
    Update.MAX: _EXTREMA,
    Update.CAS: (DataType.B16, *_BITS),
    Update.ARRIVE: (DataType.B64,),
    Update.DROP: (DataType.B64,),
    Update.TX: (DataType.B64,),
}
_RESULT_ONLY = (Update.EXCH, Update.CAS)  # without their result they would be stores
_REDUCTIONS = {u: types for u, types in _UPDATES.items() if u not in _RESULT_ONLY}
_SPACES = (Space.GENERIC, Space.GLOBAL, Space.SHARED)
_VECTOR = Modifier("vector", 32, 2, {1: 0, 2: 1, 4: 2, 8: 3}, {2: "V2", 4: "V4", 8: "V8"})
_EFFECTS = Effects(reads=True, writes=True, orders=True)

_SEMANTICS = (
    " For each lane in the guard, in the order of the lanes, and in one step that no other thread"
    " observes partially, m at address a becomes: AND, OR, XOR: m & b, m | b, m ^ b; EXCH: b; ADD:"
    " m + b; INC: 0 if m >= b, else m + 1; DEC: b if m = 0 or m > b, else m - 1; MIN, MAX: the"
    " smaller, the greater of m and b{0}. Floats are added, compared and rounded as by FADD.RN,"
    " FMIN and FMAX; but for F32 in global memory subnormal operands and results become zeros of"
    " the same sign. The elements of a vector (m1 .. mn and b1 .. bn) are one such step each; but"
    " the two B64 elements of EXCH and CAS are one value of 128 bits, the first its low half."
    " Orders accesses like FENCE.ACQ_REL; but integer sums in global memory whose result is not"
    " used may be performed in any order, up to the next FENCE, the next access to that address, or"
    " the end."
)


def is_pair(instruction: Instruction) -> bool:
    """True if an update treats two elements of 64 bits as one value of 128 bits."""
    return instruction.vector == PAIR and instruction.type is DataType.B64


def _update(updates: dict[Update, tuple[DataType, ...]]) -> Modifier:
    row = choice("update", Update, 28, 4, updates)
    words = {u: word for u, word in row.words.items() if u in updates}
    return Modifier(row.name, row.first, row.width, {u: u.value for u in updates}, words, row.types)


def _space(types: tuple[DataType, ...]) -> Modifier:
    return choice("space", Space, 24, 4, dict.fromkeys(_SPACES, types))


def _errors(instruction: Instruction, function: Function) -> Iterator[str]:
    name, type_, vector = instruction.op.name, instruction.type, instruction.vector
    if is_pair(instruction) and instruction.update in _RESULT_ONLY:
        return
    if vector > 1 and (type_ not in (*_HALVES, DataType.F32)):
        yield f"{name}.{type_.name} has no vectors"
    if vector * type_.bits > MAXIMUM_VECTOR_BYTES * 8:
        yield f"{vector} times {type_.name} is more than {MAXIMUM_VECTOR_BYTES} bytes"


_ATOM_TYPES = tuple(dict.fromkeys(t for types in _UPDATES.values() for t in types))
_RED_TYPES = tuple(dict.fromkeys(t for types in _REDUCTIONS.values() for t in types))

ROWS: Final = (
    OpSpec(
        Op.ATOM,
        "update memory and return the previous value",
        "d = m." + _SEMANTICS.format("; CAS: c if m = b, else m"),
        "atom",
        _ATOM_TYPES,
        (Role.DATA,),
        (Role.ADDRESS, Role.DATA, Role.SWAPPED),
        (_space(_ATOM_TYPES), _update(_UPDATES), _VECTOR),
        dst_places=(DST,),
        src_places=(A, B, C),
        effects=_EFFECTS,
        check=_errors,
        notes=(
            (
                "ARRIVE, DROP, TX",
                "m is an mbarrier object (PTX ISA 9.7.15.16): bit 0 is the parity of its phase,"
                " bits 1"
                " to 20 the number of threads for which its phase still waits, bits 21 to 41 the"
                " signed number of bytes of transactions for which it still waits, bits 42 to 61"
                " the number of threads with which its phases begin. TX adds b to the number of"
                " bytes. ARRIVE and DROP subtract b from the number of threads, and DROP also from"
                " that with which phases begin. If both numbers are then zero the next phase"
                " begins",
            ),
        ),
    ),
    OpSpec(
        Op.RED,
        "update memory",
        _SEMANTICS.format("").strip(),
        "red",
        _RED_TYPES,
        (),
        (Role.ADDRESS, Role.DATA),
        (_space(_RED_TYPES), _update(_REDUCTIONS), _VECTOR),
        effects=_EFFECTS,
        check=_errors,
    ),
    OpSpec(
        Op.FENCE,
        "order accesses to memory",
        "Orders the accesses of a lane before it against those after it, for the threads in the"
        " scope, according to PTX's memory model; all threads in the scope observe SC fences in the"
        " same order.",
        "fence, membar",
        modifiers=(choice("order", Order, 24, 2), choice("scope", Scope, 26, 2)),
        effects=Effects(orders=True),
    ),
)
"""PTX ISA 9.7.15.4 to 9.7.15.7, "Parallel Synchronization and Communication Instructions"."""
