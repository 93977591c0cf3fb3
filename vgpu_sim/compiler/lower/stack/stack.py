"""The stack of a thread: local memory that calls and ``alloca`` use while they are active.

It begins after the variables of the code. One register holds the address of its free part; code
that needs more first tests whether enough is left.
"""

from typing import Final

from vgpu_sim.compiler.lower.builder import NO_OWNER, Builder
from vgpu_sim.compiler.lower.stack.dispatch import emit_comparison
from vgpu_sim.isa import (
    Compare,
    DataType,
    Guard,
    Instruction,
    Literal,
    Op,
    Predicate,
    Register,
    Symbol,
    TrapCause,
)

STACK_SYMBOL: Final = Symbol("stack")
"""A symbol that represents the start of the stack until that is known."""

ALIGNMENT_BYTES: Final = 16


class Stack:
    """The stack of one kernel's code. The kernel has a stack only if its code uses one."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._pointer: Register | None = None
        self._limit: Register | None = None
        self._end: Register | None = None
        self._full: Predicate | None = None

    @property
    def used(self) -> bool:
        return self._pointer is not None

    @property
    def pointer(self) -> Register:
        """The register that holds the address of the stack's free part."""
        if self._pointer is None:
            with self._builder.use_owner(NO_OWNER):
                self._pointer = self._builder.new_register(32)
        return self._pointer

    def grow(self, size: Symbol | Literal) -> list[Instruction]:
        """Return instructions that allocate ``size`` bytes on the stack.

        If the stack has too few bytes left, the instructions end the context.
        """
        pointer = self.pointer
        if self._limit is None or self._end is None or self._full is None:
            with self._builder.use_owner(NO_OWNER):
                self._limit = self._builder.new_register(32)
                self._end = self._builder.new_register(32)
                self._full = self._builder.new_predicate()
        limit, end, full = self._limit, self._end, self._full
        return [
            Instruction(Op.LOCAL_BYTES, dsts=(limit,)),
            Instruction(Op.ADD, DataType.U32, (end,), (pointer, size)),
            Instruction(Op.SETP, DataType.U32, (full, None), (end, limit), compare=Compare.GT),
            Instruction(Op.TRAP, guard=Guard(full), cause=TrapCause.STACK),
            Instruction(Op.MOV, DataType.B32, (pointer,), (end,)),
        ]

    def allocate(self, size: Register, align: int) -> Register:
        """Emit code that allocates memory on the stack; return the register with its address.

        ``size`` is a 64-bit register that holds the number of bytes.
        """
        builder = self._builder
        wide = [builder.new_register(64) for _ in range(3)]
        limit, address, end = wide
        narrow, full = builder.new_register(32), builder.new_predicate()
        builder.emit(Op.LOCAL_BYTES, dsts=(narrow,))
        _widen(builder, limit, narrow)
        _widen(builder, address, self.pointer)
        builder.emit(Op.ADD, type=DataType.U64, dsts=(address,), srcs=(address, Literal(align - 1)))
        mask = Literal(-align & (1 << 64) - 1)
        builder.emit(Op.AND, type=DataType.B64, dsts=(address,), srcs=(address, mask))
        builder.emit(Op.ADD, type=DataType.U64, dsts=(end,), srcs=(address, size))
        for much in (size, end):  # a size near 2^64 would wrap the end around
            emit_comparison(builder, full, Compare.GT, much, limit, DataType.U64)
            with builder.use_guard(Guard(full)):
                builder.emit(Op.TRAP, cause=TrapCause.STACK)
        up = Literal(ALIGNMENT_BYTES - 1)
        builder.emit(Op.ADD, type=DataType.U64, dsts=(end,), srcs=(end, up))
        mask = Literal(-ALIGNMENT_BYTES & (1 << 64) - 1)
        builder.emit(Op.AND, type=DataType.B64, dsts=(end,), srcs=(end, mask))
        self.set_pointer(end)
        return address

    def set_pointer(self, to: Register) -> None:
        """Emit a move that sets the start of the stack's free part to the address in ``to``."""
        builder = self._builder
        if builder.register_bits[to.index] == 32:
            builder.emit(Op.MOV, type=DataType.B32, dsts=(self.pointer,), srcs=(to,))
            return
        builder.emit(
            Op.CVT,
            type=DataType.U32,
            source_type=DataType.U64,
            dsts=(self.pointer,),
            srcs=(to,),
        )


def _widen(builder: Builder, to: Register, source: Register) -> None:
    builder.emit(Op.CVT, type=DataType.U64, source_type=DataType.U32, dsts=(to,), srcs=(source,))
