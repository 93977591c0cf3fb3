"""Writes kernels of the instruction set by hand: registers on demand, labels, parameters."""

from dataclasses import replace

from vgpu_sim.isa import (
    DataType,
    Function,
    Guard,
    Instruction,
    Literal,
    Module,
    MulMode,
    Op,
    Operand,
    Parameter,
    Predicate,
    Register,
    Space,
    SpecialRegister,
    Variable,
    verify,
)

D = DataType


class KernelBuilder:
    """``target`` of a branch may be a label that is placed later."""

    def __init__(self, *parameters: int) -> None:
        """``parameters`` are sizes in bytes."""
        self.code: list[Instruction | tuple[Instruction, str]] = []
        self._bits: list[int] = []
        self._predicates = 0
        self._labels: dict[str, int] = {}
        self._fresh = 0
        offset, placed = 0, []
        for index, size in enumerate(parameters):
            offset = -(-offset // size) * size
            placed.append(Parameter(f"p{index}", offset, size, size))
            offset += size
        self.parameters = tuple(placed)

    def register(self, bits: int) -> Register:
        self._bits.append(bits)
        return Register(len(self._bits) - 1)

    def shared_window(self) -> Register:
        """Return the generic address of shared memory."""
        window = self.register(64)
        upper = self.special(SpecialRegister.SHARED_WINDOW)
        self.op(Op.CVT, D.U64, window, upper, source_type=D.U32)
        self.op(Op.SHL, D.B64, window, window, Literal(32))
        return window

    def predicate(self) -> Predicate:
        self._predicates += 1
        return Predicate(self._predicates - 1)

    def label(self) -> str:
        self._fresh += 1
        return f"L{self._fresh}"

    def place(self, label: str) -> None:
        self._labels[label] = len(self.code)

    def add(self, instruction: Instruction) -> None:
        self.code.append(instruction)

    def branch(self, label: str, guard: Guard | None = None) -> None:
        self.code.append((Instruction(Op.BRA, guard=guard), label))

    def op(
        self,
        op: Op,
        type_: DataType,
        destination: Register | Predicate,
        *sources: Operand,
        **fields: object,
    ) -> None:
        self.add(Instruction(op, type_, (destination,), sources, **fields))  # type: ignore[arg-type]

    def parameter(self, index: int) -> Register:
        parameter = self.parameters[index]
        result = self.register(max(16, parameter.size * 8))
        type_ = {8: D.B64, 4: D.B32}[parameter.size]
        self.op(Op.LD, type_, result, space=Space.PARAM, displacement=parameter.offset)
        return result

    def special(self, which: SpecialRegister) -> Register:
        result = self.register(which.bits)
        type_ = D.B64 if which.bits == 64 else D.B32
        self.op(Op.S2R, type_, result, sreg=which, volatile=which.is_clock)
        return result

    def linear_thread(self) -> Register:
        """Return block index and thread index as one number, x fastest."""
        s = SpecialRegister
        total = self.register(32)
        self.op(Op.MOV, D.B32, total, self.special(s.CTAID_Z))
        for factor, addend in (
            (s.NCTAID_Y, s.CTAID_Y),
            (s.NCTAID_X, s.CTAID_X),
            (s.NTID_Z, s.TID_Z),
            (s.NTID_Y, s.TID_Y),
            (s.NTID_X, s.TID_X),
        ):
            self.op(
                Op.MAD,
                D.U32,
                total,
                total,
                self.special(factor),
                self.special(addend),
                mode=MulMode.LO,
            )
        return total

    def address(self, base: Register, index: Register, scale: int) -> Register:
        result = self.register(64)
        self.op(Op.MAD, D.U32, result, index, Literal(scale), base, mode=MulMode.WIDE)
        return result

    def load(self, type_: DataType, address: Operand, displacement: int = 0) -> Register:
        result = self.register(max(16, type_.bits))
        self.op(Op.LD, type_, result, address, space=Space.GLOBAL, displacement=displacement)
        return result

    def store(
        self, type_: DataType, address: Operand, value: Operand, displacement: int = 0
    ) -> None:
        self.add(
            Instruction(
                Op.ST,
                type_,
                srcs=(address, value),
                space=Space.GLOBAL,
                displacement=displacement,
            )
        )

    def module(self, *variables: Variable) -> Module:
        """Append a RET and return the module."""
        self.add(Instruction(Op.RET))
        code = []
        for entry in self.code:
            if isinstance(entry, tuple):
                instruction, label = entry
                entry = replace(instruction, target=self._labels[label])
            code.append(entry)
        size = max((p.offset + p.size for p in self.parameters), default=0)
        function = Function(
            "k",
            self.parameters,
            -(-size // 8) * 8,
            tuple(self._bits),
            self._predicates,
            tuple(code),
            (0,) * len(code),
        )
        module = Module((function,), variables)
        verify.check_module(module)
        return module
