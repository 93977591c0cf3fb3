"""Instructions that return the size and the generic addresses of a thread's local memory."""

from typing import Final

from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import OpSpec, Role
from vgpu_sim.isa.types import DataType

_TYPES = (DataType.B32, DataType.U32)

ROWS: Final = (
    OpSpec(
        Op.LOCAL_BYTES,
        "read the size of local memory",
        "d = the bytes of a thread's local memory: the function's `local` bytes, followed by those"
        " of a stack for frames of calls, which a function that contains this instruction has.",
        "call, alloca",
        _TYPES,
        (Role.VALUE,),
    ),
    OpSpec(
        Op.LOCAL_WINDOW,
        "read the window of local memory",
        "d = bits 32 to 63 of generic addresses of the thread's local memory.",
        "cvta.local, isspacep.local",
        _TYPES,
        (Role.VALUE,),
    ),
)
