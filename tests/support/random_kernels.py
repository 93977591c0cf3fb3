"""Random kernels with divergent, nested and unstructured control flow that always end.

A kernel reads a table, computes on a few registers, and stores only to its own thread's slots, so
its result does not depend on the order of threads. Loops count down on a register of their own.
"""

from hypothesis import strategies as st
from kernel_builder import KernelBuilder

from vgpu_sim.isa import (
    BoolOp,
    Compare,
    DataType,
    Guard,
    Instruction,
    Literal,
    Module,
    MulMode,
    Op,
    Predicate,
    Register,
    Rounding,
    Space,
    SpecialRegister,
)

D = DataType
TABLE_WORDS = 128
SLOT_BYTES = 128
_WIDTHS = (32, 32, 32, 32, 64, 64, 16)
_PREDICATES = 4
_INTEGER_OPS = (
    Op.ADD,
    Op.SUB,
    Op.MUL,
    Op.MIN,
    Op.MAX,
    Op.AND,
    Op.OR,
    Op.XOR,
    Op.SHL,
    Op.SHR,
    Op.DIV,
    Op.REM,
)
_FLOAT_OPS = (Op.FADD, Op.FSUB, Op.FMUL, Op.FMIN, Op.FMAX, Op.FDIV)
_TYPES = {16: (D.U16, D.S16), 32: (D.U32, D.S32, D.B32), 64: (D.U64, D.S64)}
_UNTYPED = {16: D.B16, 32: D.B32, 64: D.B64}
_CONSTANTS = (0, 1, 2, 3, 4, 7, 15, 16, 31, 32, 255, 0xFFFFFFFF, 0xFFFFFFF0, 0x80000000, 0x7FFFFFFF)
_FLOAT_CONSTANTS = (0x3F800000, 0x40000000, 0xBF000000, 0x7FC00001, 0x7F800000, 0x00000001)


class _Writer:
    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self.builder = KernelBuilder(8, 8)
        b = self.builder
        self._table = b.parameter(0)
        out = b.parameter(1)
        self._thread = b.linear_thread()
        self._out = b.address(out, self._thread, SLOT_BYTES)
        s = SpecialRegister
        self._registers = [b.register(bits) for bits in _WIDTHS]
        self._predicates = [b.predicate() for _ in range(_PREDICATES)]
        sources = [self._thread, b.special(s.TID_X), b.special(s.CTAID_X), b.special(s.TID_Y)]
        for register in self._registers[:4]:
            b.op(Op.MOV, D.B32, register, self._pick([*sources, Literal(5)]))
        lane = b.register(32)
        b.op(Op.AND, D.B32, lane, self._thread, Literal(TABLE_WORDS - 1))
        known = b.load(D.B32, b.address(self._table, lane, 4))
        for predicate in self._predicates:
            compared = self._pick([known, known, self._thread, *sources[1:]])
            limit = Literal(self._pick([3, 9, 31, 0x3F800000, 0x80000000]))
            how = self._pick([Compare.LT, Compare.GE, Compare.EQ])
            b.add(Instruction(Op.SETP, D.U32, (predicate, None), (compared, limit), compare=how))
        b.op(Op.MOV, D.B32, self._registers[3], known)
        self._slot = 0
        self._exits: list[str] = []

    def finish(self) -> Module:
        self.statements(depth=0, budget=self._number(3, 12))
        for register, bits in zip(self._registers, _WIDTHS, strict=True):
            self._store(register, bits)
        number = self.builder.register(32)
        for predicate in self._predicates:
            self.builder.op(Op.SELP, D.B32, number, Literal(1), Literal(0), predicate)
            self._store(number, 32)
        return self.builder.module()

    def statements(self, depth: int, budget: int) -> None:
        for _ in range(budget):
            kinds = ["alu"] * 3 + ["float", "load", "compare", "affine"] * 2 + ["wide"]
            if self._number(0, 5) == 0:
                kinds = ["keep"]
            if depth < 3:
                kinds += ["if", "if", "loop", "loop"]
            if self._exits:
                kinds += ["leave"]
            if self._number(0, 12) == 0:
                kinds = ["return"]
            getattr(self, "_" + self._pick(kinds))(depth)

    def _pick(self, choices: list) -> object:
        return self._draw(st.sampled_from(choices))

    def _number(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def _target(self, bits: int | None = None) -> tuple[Register, int]:
        places = [i for i, b in enumerate(_WIDTHS) if bits is None or b == bits]
        place = self._pick(places)
        return self._registers[place], _WIDTHS[place]

    def _source(self, bits: int) -> object:
        wide = [r for r, b in zip(self._registers, _WIDTHS, strict=True) if b >= bits]
        return self._pick([*wide, *wide, Literal(self._pick(list(_CONSTANTS)))])

    def _guard(self) -> Guard | None:
        if self._number(0, 5):
            return None
        return Guard(self._pick(self._predicates), self._draw(st.booleans()))

    def _condition(self) -> Guard:
        return Guard(self._pick(self._predicates), self._draw(st.booleans()))

    def _alu(self, depth: int) -> None:
        target, bits = self._target()
        type_ = self._pick(list(_TYPES[bits]))
        op = self._pick(list(_INTEGER_OPS))
        if op in (Op.DIV, Op.REM, Op.MIN, Op.MAX) and type_ is D.B32:
            type_ = D.U32
        if op in (Op.AND, Op.OR, Op.XOR, Op.SHL):
            type_ = _UNTYPED[bits]
        second = self._source(32 if op in (Op.SHL, Op.SHR) else bits)
        mode = MulMode.LO if op is Op.MUL else MulMode.NONE
        if op in (Op.SHL, Op.SHR) and isinstance(second, Register):
            second = Literal(self._number(0, 40))
        self._write(op, type_, target, self._source(bits), second, mode=mode)

    def _wide(self, depth: int) -> None:
        target, _ = self._target(64)
        kind = self._number(0, 2)
        type_ = self._pick([D.U32, D.S32])
        factor = Literal(self._pick([1, 4, 8, 0xFFFFFFFC]))
        if kind == 0:
            self._write(Op.MUL, type_, target, self._source(32), factor, mode=MulMode.WIDE)
        elif kind == 1:
            operands = (self._source(32), factor, self._source(64))
            self._write(Op.MAD, type_, target, *operands, mode=MulMode.WIDE)
        else:
            to = self._pick([D.U64, D.S64])
            self._write(Op.CVT, to, target, self._source(32), source_type=type_)

    def _affine(self, depth: int) -> None:
        """Numbers that stay affine over the lanes and may wrap around."""
        target, _ = self._target(32)
        wide, _ = self._target(64)
        constant = Literal(self._pick([1, 0xFFFFFFFF, 0xFFFFFFF0, 0xFFFFFFC5, 0x7FFFFFF3, 40]))
        self.builder.op(Op.ADD, D.B32, target, self._thread, constant)
        type_ = self._pick([D.U32, D.S32])
        factor = Literal(self._pick([1, 4, 0xFFFFFFFF]))
        self.builder.op(Op.MUL, type_, wide, target, factor, mode=MulMode.WIDE)

    def _float(self, depth: int) -> None:
        target, _ = self._target(32)
        op = self._pick([*_FLOAT_OPS, Op.FMA, Op.FNEG, Op.FABS, Op.FSQRT, "convert"])
        sources = [
            self._pick([self._source(32), Literal(self._pick(list(_FLOAT_CONSTANTS)))])
            for _ in range(3)
        ]
        if op == "convert":
            if self._draw(st.booleans()):
                self._write(
                    Op.CVT, D.F32, target, sources[0], source_type=D.S32, rounding=Rounding.RN
                )
            else:
                self._write(
                    Op.CVT, D.S32, target, sources[0], source_type=D.F32, rounding=Rounding.RZI
                )
            return
        count = {Op.FMA: 3, Op.FNEG: 1, Op.FABS: 1, Op.FSQRT: 1}.get(op, 2)
        self._write(op, D.F32, target, *sources[:count])

    def _write(
        self, op: Op, type_: DataType, target: Register, *sources: object, **f: object
    ) -> None:
        guard = self._guard()
        self.builder.op(op, type_, target, *sources, guard=guard, **f)  # type: ignore[arg-type]

    def _compare(self, depth: int) -> None:
        targets: list[Predicate | None] = [self._pick(self._predicates), None]
        if self._draw(st.booleans()):
            targets[1] = self._pick([p for p in self._predicates if p != targets[0]])
        bits = self._pick([32, 32, 32, 64])
        type_ = self._pick([*_TYPES[bits][:2], *([D.F32] if bits == 32 else [])])
        combine = self._pick([BoolOp.NONE, BoolOp.NONE, BoolOp.AND, BoolOp.OR, BoolOp.XOR])
        compare = Compare(self._number(0, 13 if type_.is_float else 5))
        sources = [self._source(bits), self._source(bits)]
        if combine is not BoolOp.NONE:
            sources.append(self._pick(self._predicates))
        self.builder.add(
            Instruction(
                Op.SETP,
                type_,
                tuple(targets),
                tuple(sources),
                guard=self._guard(),
                compare=compare,
                combine=combine,
            )
        )

    def _load(self, depth: int) -> None:
        b = self.builder
        index, address = b.register(32), b.register(64)
        type_, size = self._pick([(D.B32, 4), (D.F32, 4), (D.U16, 2), (D.S8, 1), (D.B64, 8)])
        words = TABLE_WORDS * 4 // size
        shape = self._number(0, 3)
        if shape == 0:
            b.op(Op.AND, D.B32, index, self._source(32), Literal(words - 1))
        elif shape == 1:
            b.op(Op.REM, D.U32, index, self._source(32), Literal(words))
        else:  # what stays affine: the lane id, or a constant
            base = b.special(SpecialRegister.LANEID) if shape == 2 else Literal(self._number(0, 9))
            b.op(Op.ADD, D.U32, index, base, Literal(self._number(0, 6)))
        wide = {"mode": MulMode.WIDE}
        kind = self._pick([D.U32, D.S32])
        vector = self._pick([1, 1, 2, 4]) if size == 4 else 1
        if vector > 1 and shape < 2:
            b.op(Op.MIN, D.U32, index, index, Literal(words - vector))
        b.op(Op.MAD, kind, address, index, Literal(size), self._table, **wide)
        if vector > 1:
            self._load_vector(type_, address, vector)
            return
        target, bits = self._target(None if size < 8 else 64)
        if bits < size * 8:
            target, bits = self._target(32)
        guard = self._guard()
        space = self._pick([Space.GLOBAL, Space.GENERIC])
        b.op(Op.LD, type_, target, address, space=space, guard=guard)

    def _load_vector(self, type_: DataType, address: Register, count: int) -> None:
        """Into some registers of 32 bits; elements without one are dropped."""
        places = [r for r, bits in zip(self._registers, _WIDTHS, strict=True) if bits == 32]
        chosen = self._draw(st.permutations([*places, *[None] * count]))[:count]
        if all(place is None for place in chosen):
            chosen[0] = places[0]
        space, guard = self._pick([Space.GLOBAL, Space.GENERIC]), self._guard()
        load = Instruction(
            Op.LD, type_, tuple(chosen), (address,), guard, space=space, vector=count
        )
        self.builder.add(load)

    def _store(self, register: Register, bits: int) -> None:
        self.builder.store(_UNTYPED[bits], self._out, register, self._slot % SLOT_BYTES)
        self._slot += 8

    def _keep(self, depth: int) -> None:
        target, bits = self._target()
        guard = self._guard()
        self.builder.add(
            Instruction(
                Op.ST,
                _UNTYPED[bits],
                srcs=(self._out, target),
                space=Space.GLOBAL,
                displacement=8 * self._number(0, 15),
                guard=guard,
            )
        )

    def _if(self, depth: int) -> None:
        otherwise, end = self.builder.label(), self.builder.label()
        self.builder.branch(otherwise, self._condition())
        self._exits.append(end)
        self.statements(depth + 1, self._number(1, 4))
        self.builder.branch(end)
        self.builder.place(otherwise)
        if self._draw(st.booleans()):
            self.statements(depth + 1, self._number(1, 3))
        self._exits.pop()
        self.builder.place(end)

    def _loop(self, depth: int) -> None:
        b = self.builder
        start, again, end = b.label(), b.label(), b.label()
        counter, flag = b.register(32), b.predicate()
        if self._draw(st.booleans()):
            b.op(Op.AND, D.B32, counter, self._source(32), Literal(3))
        else:
            b.op(Op.MOV, D.B32, counter, Literal(self._number(1, 3)))
        b.place(start)
        self._exits += [again, end]
        self.statements(depth + 1, self._number(1, 5))
        self._exits = self._exits[:-2]
        b.place(again)
        b.op(Op.SUB, D.U32, counter, counter, Literal(1))
        b.add(Instruction(Op.SETP, D.S32, (flag, None), (counter, Literal(0)), compare=Compare.GT))
        if self._number(0, 2) == 0:  # a second latch, taken by other lanes than the first
            both, chosen = b.predicate(), self._pick(self._predicates)
            b.op(Op.AND, D.PRED, both, flag, chosen)
            b.branch(start, Guard(both))
            b.op(Op.ADD, D.U32, self._registers[0], self._registers[0], Literal(1))
        b.branch(start, Guard(flag))
        b.place(end)

    def _leave(self, depth: int) -> None:
        self.builder.branch(self._pick(self._exits), self._condition())

    def _return(self, depth: int) -> None:
        self.builder.add(Instruction(Op.RET, guard=self._condition()))


@st.composite
def kernels(draw: st.DrawFn) -> Module:
    """A kernel with two parameters: a table of ``TABLE_WORDS`` words, slots for each thread."""
    return _Writer(draw).finish()
