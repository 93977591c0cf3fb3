"""Collectives: exchange of values among the lanes of a warp."""

from collections.abc import Iterator
from typing import Final

from vgpu_sim.isa.effects import Effects
from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.layout import DST, A, B, C, choice, flag
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import OpSpec, Role
from vgpu_sim.isa.types import DataType, MatchMode, Reduction, ShuffleMode, VoteMode

_SECOND = 32
_WHOLE = (DataType.U32, DataType.S32)
_B32 = (DataType.B32,)
_F32 = (DataType.F32,)
_COLLECTIVE = Effects(collective=True)
_VOTES = dict.fromkeys(VoteMode, (DataType.PRED,)) | {VoteMode.BALLOT: _B32}
_REDUCTIONS = {
    Reduction.ADD: _WHOLE,
    Reduction.MIN: (*_WHOLE, DataType.F32),
    Reduction.MAX: (*_WHOLE, DataType.F32),
    **dict.fromkeys((Reduction.AND, Reduction.OR, Reduction.XOR), _B32),
}


def _match_errors(instruction: Instruction, function: Function) -> Iterator[str]:
    if instruction.match is MatchMode.ANY and instruction.dsts[1:] not in ((), (None,)):
        yield "MATCH.ANY has one destination"


ROWS: Final = (
    OpSpec(
        Op.SHFL,
        "read a register of another lane",
        "With i the lane, n = b[4:0], and from c the clamp k = c[4:0] and the segment mask"
        " s = c[12:8]: low = i & s, last = low | (k & ~s). The source lane is j = i - n (UP),"
        " i + n (DOWN), i ^ n (BFLY) or low | (n & ~s) (IDX), and in range if j <= last, in mode UP"
        " if j >= last, both signed; p = whether it is in range. d = a of lane j if it is in range,"
        " else the lane's own a. For a lane that does not take part 0 is read.",
        "shfl",
        _B32,
        (Role.VALUE, Role.INVERSE),
        (Role.VALUE, Role.WAY, Role.COUNT),
        (choice("shuffle", ShuffleMode, 24, 2),),
        dst_places=(DST, _SECOND),
        src_places=(A, B, C),
        effects=_COLLECTIVE,
    ),
    OpSpec(
        Op.VOTE,
        "vote",
        "ALL: d = whether a is true in all lanes that take part; ANY: in one of them; UNI: whether"
        " all of them agree; BALLOT: one bit for each lane that takes part with a true.",
        "vote",
        (DataType.PRED, DataType.B32),
        (Role.VALUE,),
        (Role.PREDICATE, Role.COUNT),
        (choice("vote", VoteMode, 24, 2, _VOTES),),
        effects=_COLLECTIVE,
    ),
    OpSpec(
        Op.MATCH,
        "compare a value among lanes",
        "ANY: d = the lanes that take part and have the same a as this one. ALL: if all lanes that"
        " take part have the same a, d = those lanes and p = true, else d = 0 and p = false.",
        "match",
        (DataType.B32, DataType.B64),
        (Role.COUNT, Role.INVERSE),
        (Role.VALUE, Role.COUNT),
        (choice("match", MatchMode, 24, 1),),
        dst_places=(DST, _SECOND),
        effects=_COLLECTIVE,
        check=_match_errors,
    ),
    OpSpec(
        Op.REDUX,
        "reduce over lanes",
        "d = the reduction of a over the lanes that take part; ADD modulo 2^32. F32: as FMIN and"
        " FMAX; NAN: the canonical NaN if any a is a NaN; ABS: the absolute values are reduced.",
        "redux",
        (DataType.B32, *_WHOLE, DataType.F32),
        (Role.VALUE,),
        (Role.VALUE, Role.COUNT),
        (
            choice("reduction", Reduction, 24, 3, _REDUCTIONS),
            flag("absolute", "ABS", 27, _F32),
            flag("nan", "NAN", 28, _F32),
        ),
        effects=_COLLECTIVE,
    ),
    OpSpec(
        Op.ACTIVEMASK,
        "read the mask of active lanes",
        "d = the lanes that execute the instruction together, one bit each. Where the JIT compiles"
        " lane by lane, because lanes may wait for each other at different instructions, this"
        " instruction first waits for all lanes that have not ended if all of them reach it by one"
        " path and no lane waits before it except where all lanes of the warp do, or if it directly"
        " follows a barrier of the whole warp. Otherwise such a lane sees only itself.",
        "activemask",
        dsts=(Role.COUNT,),
        effects=_COLLECTIVE,
    ),
    OpSpec(
        Op.ELECT,
        "elect a lane",
        "d = the lowest lane that takes part; p = whether that is the executing lane.",
        "elect",
        dsts=(Role.COUNT, Role.INVERSE),
        srcs=(Role.COUNT,),
        dst_places=(DST, _SECOND),
        effects=_COLLECTIVE,
    ),
    OpSpec(
        Op.BAR_WARP,
        "wait for lanes of the warp",
        "Stores of the lanes that take part before it are visible to all of them afterwards.",
        "bar.warp.sync",
        srcs=(Role.COUNT,),
        effects=Effects(orders=True, collective=True),
    ),
)
"""PTX ISA 9.7.10.6 (shfl.sync), 9.7.15.2 (bar.warp.sync), 9.7.15.9 to 9.7.15.13 (vote.sync,
match.sync, activemask, redux.sync, elect.sync). ``reference`` defines which lanes participate.
"""
