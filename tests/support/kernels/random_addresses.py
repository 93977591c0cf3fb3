"""Kernels whose addresses come from random arithmetic that is hard to bound.

Conversions of every type, float patterns moved to integers, wraps of 16 and 32 bits, products,
shifts, selects, divergent joins, and loops that move pointers. They are compiled, not run,
because their addresses are hostile. Every load's result is stored, so that none is dead.
"""

from random import Random

from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.isa import (
    Compare,
    DataType,
    Guard,
    Instruction,
    Literal,
    Module,
    MulMode,
    Op,
    Operand,
    Predicate,
    Register,
    Rounding,
    Space,
    SpecialRegister,
    Update,
)

D = DataType
_INTEGERS = (D.U8, D.S8, D.U16, D.S16, D.U32, D.S32, D.U64, D.S64)
_FLOATS = (D.F32, D.F64)
_WHOLE = {16: (D.U16, D.S16), 32: (D.U32, D.S32), 64: (D.U64, D.S64)}
_SPECIALS = (SpecialRegister.TID_X, SpecialRegister.CTAID_X, SpecialRegister.NTID_X)
_SCALES = (1, 2, 4, 8, 12, 16, 4096, 1 << 20, 0x7FFF_FFFF, 0xFFFF_FFFF)
_DISPLACEMENTS = (0, 0, 0, 4, -4, 64, 1 << 20, (1 << 31) - 4, -(1 << 31), (1 << 31) - 16)
_VALUES = (0, 1, 2, 3, 4, 7, 16, 31, 32, 255, 4096, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)


class _Maker:
    def __init__(self, random: Random, *, shared: bool) -> None:
        self.random = random
        self.shared = shared
        self.builder = KernelBuilder(8, 8, 4)
        self.pools: dict[int, list[Register]] = {16: [], 32: [], 64: []}
        self.predicates: list[Predicate] = []

    def make(self) -> Module:
        b, random = self.builder, self.random
        self.pools[64] += [b.parameter(0), b.parameter(1)]
        self.pools[32] += [b.parameter(2), *(b.special(which) for which in _SPECIALS)]
        narrow = b.register(16)
        b.op(Op.CVT, D.U16, narrow, self.pools[32][0], source_type=D.U32)
        self.pools[16].append(narrow)
        if self.shared:
            self.pools[64].append(b.shared_window())
        self.compare()
        self.statements(random.randrange(2, 12), depth=0)
        self.access()
        return b.module()

    def pick(self, bits: int) -> Register:
        pool = self.pools[bits]
        return pool[-1] if self.random.random() < 0.5 else self.random.choice(pool)

    def operand(self, bits: int) -> Operand:
        if self.random.random() < 0.3:
            value = self.random.choice(_VALUES)
            value = -value if self.random.random() < 0.2 else value
            return Literal(value & ((1 << bits) - 1))
        return self.pick(bits)

    def target(self, bits: int) -> Register:
        """Return a register: a fresh one, or an existing one, whose value then depends on the
        path.
        """
        if self.random.random() < 0.25:
            return self.pick(bits)
        return self.builder.register(bits)

    def put(self, op: Op, type_: DataType, bits: int, *sources: Operand, **fields: object) -> None:
        target = self.target(bits)
        guard = None
        if self.random.random() < 0.1 and target in self.pools[bits]:
            guard = Guard(self.random.choice(self.predicates), self.random.random() < 0.5)
        self.builder.op(op, type_, target, *sources, guard=guard, **fields)
        if target not in self.pools[bits]:
            self.pools[bits].append(target)

    def statements(self, count: int, depth: int) -> None:
        for _ in range(count):
            kind = self.random.randrange(20)
            if kind < 3 and depth < 2:
                (self.branch, self.loop, self.moving_loop)[kind](depth)
            elif kind == 3:
                self.compare()
            elif kind < 5:
                self.access()
            elif kind < 9:
                self.convert()
            elif kind < 15:
                self.address()
            else:
                self.integer()

    def address(self) -> None:
        """Compute an address in one of the usual ways, from unusual operands."""
        random = self.random
        kind = random.randrange(6)
        scale = Literal(random.choice(_SCALES))
        if kind < 2:
            type_ = random.choice((D.U32, D.S32))
            sources = (self.operand(32), scale, self.pick(64))
            self.put(Op.MAD, type_, 64, *sources, mode=MulMode.WIDE)
        elif kind == 2:
            type_ = random.choice((D.U32, D.S32, D.U16, D.S16))
            bits = type_.bits
            literal = Literal(scale.bits & ((1 << bits) - 1))
            self.put(Op.MUL, type_, 2 * bits, self.pick(bits), literal, mode=MulMode.WIDE)
        elif kind == 3:
            self.put(
                Op.SHL, D.B64, 64, self.pick(64), Literal(random.choice((0, 2, 4, 12, 40, 64)))
            )
        else:
            op = random.choice((Op.ADD, Op.ADD, Op.SUB))
            self.put(op, random.choice((D.U64, D.S64)), 64, self.pick(64), self.operand(64))

    def integer(self) -> None:
        random = self.random
        bits = random.choice((16, 32, 32, 64, 64))
        type_ = random.choice(_WHOLE[bits])
        op = random.choice(
            (Op.ADD, Op.SUB, Op.MUL, Op.MIN, Op.MAX, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR,
             Op.SELP, Op.NEG, Op.MUL, Op.REM)
        )  # fmt: skip
        if op is Op.NEG:
            self.put(op, _WHOLE[bits][1], bits, self.pick(bits))
        elif op is Op.SELP:
            chooser = random.choice(self.predicates)
            self.put(op, D[f"B{bits}"], bits, self.pick(bits), self.operand(bits), chooser)
        elif op is Op.SHL:
            self.put(op, D[f"B{bits}"], bits, self.pick(bits), self.operand(32))
        elif op is Op.SHR:
            self.put(op, type_, bits, self.pick(bits), self.operand(32))
        elif op in (Op.AND, Op.OR, Op.XOR):
            self.put(op, D[f"B{bits}"], bits, self.pick(bits), self.operand(bits))
        elif op is Op.MUL:
            mode = random.choice((MulMode.LO, MulMode.LO, MulMode.HI))
            self.put(op, type_, bits, self.pick(bits), self.operand(bits), mode=mode)
        else:
            self.put(op, type_, bits, self.pick(bits), self.operand(bits))

    def convert(self) -> None:
        """Convert an integer to any type; a float's pattern is used as an integer."""
        random = self.random
        source = random.choice(_INTEGERS)
        held = self.pick(max(16, source.bits))
        if random.random() < 0.5:
            target = random.choice(_INTEGERS)
            self.put(Op.CVT, target, max(16, target.bits), held, source_type=source)
            return
        float_ = random.choice(_FLOATS)
        pattern = self.builder.register(float_.bits)
        self.builder.op(
            Op.CVT, float_, pattern, held, source_type=source, rounding=Rounding.RN
        )  # fmt: skip
        if random.random() < 0.3:
            self.builder.op(Op.FADD, float_, pattern, pattern, pattern, rounding=Rounding.RN)
        type_ = random.choice((D[f"B{float_.bits}"], float_))
        self.put(Op.MOV, type_, float_.bits, pattern)

    def compare(self) -> None:
        type_ = self.random.choice((D.U32, D.S32, D.U64))
        flag = self.builder.predicate()
        sources = (self.pick(type_.bits), self.operand(type_.bits))
        how = self.random.choice((Compare.EQ, Compare.NE, Compare.LT, Compare.GE))
        self.builder.add(Instruction(Op.SETP, type_, (flag, None), sources, compare=how))
        self.predicates.append(flag)

    def branch(self, depth: int) -> None:
        b, over = self.builder, self.builder.label()
        b.branch(over, Guard(self.random.choice(self.predicates), self.random.random() < 0.5))
        self.statements(self.random.randrange(1, 4), depth + 1)
        b.place(over)

    def loop(self, depth: int) -> None:
        """Emit a loop that counts down from an arbitrary number, by an arbitrary step."""
        self._loop(depth, None)

    def moving_loop(self, depth: int) -> None:
        self._loop(depth, self.pick(64))

    def _loop(self, depth: int, pointer: Register | None) -> None:
        b, random = self.builder, self.random
        counter, limit = b.register(32), self.operand(32)
        b.op(Op.MOV, D.B32, counter, self.operand(32))
        again, flag = b.label(), b.predicate()
        b.place(again)
        self.statements(random.randrange(1, 3), depth + 1)
        if pointer is not None:
            self.access()
            step: Operand = Literal(random.choice((4, 16, 64, 1 << 12, 1 << 33, (1 << 64) - 8)))
            b.op(Op.ADD, D.U64, pointer, pointer, self.pick(64) if random.random() < 0.2 else step)
        b.op(Op.ADD, D.U32, counter, counter, Literal(random.choice((1, 2, 4, 0xFFFF_FFFF, 3))))
        how = random.choice((Compare.NE, Compare.LT, Compare.GT, Compare.LE))
        type_ = random.choice((D.U32, D.S32))
        b.add(Instruction(Op.SETP, type_, (flag, None), (counter, limit), compare=how))
        b.branch(again, Guard(flag))

    def access(self) -> None:
        b, random = self.builder, self.random
        address = self.pick(64)
        if self.shared and random.random() < 0.8:
            self.any_access(address)
            return
        type_ = random.choice((D.B8, D.B16, D.B32, D.B32, D.B64, D.F32, D.F64))
        if random.random() < 0.5:
            source = self.pick(max(16, type_.bits))
            b.store(type_, address, source, random.choice(_DISPLACEMENTS))
            return
        loaded = b.load(type_, address, random.choice(_DISPLACEMENTS))
        b.store(type_, self.pools[64][0], loaded)
        self.pools[max(16, type_.bits)].append(loaded)

    def any_access(self, address: Register) -> None:
        """Access shared memory, or either memory; also volatile, atomic, or a given number of
        bytes.
        """
        b, random = self.builder, self.random
        space = random.choice((Space.GENERIC, Space.GENERIC, Space.SHARED))
        place: Operand = self.pick(32) if space is Space.SHARED else address
        kind = random.randrange(6)
        if kind < 2:
            bits = random.choice((32, 64))
            update = random.choice((Update.ADD, Update.MAX, Update.DEC, Update.EXCH, Update.CAS))
            type_ = D[f"{'B' if update in (Update.EXCH, Update.CAS) else 'U'}{bits}"]
            type_ = D.U32 if update is Update.DEC else type_
            if update is Update.ADD and kind:
                type_ = random.choice((D.F16, D.BF16, D.F32, D.F64))
            wide = max(16, type_.bits)
            operands = [self.pick(wide) for _ in range(2 if update is Update.CAS else 1)]
            found = b.register(wide)
            b.add(Instruction(Op.ATOM, type_, (found,), (place, *operands), space=space,
                              update=update))  # fmt: skip
            self.pools[wide].append(found)
            return
        count = random.choice((1, 1, 2, 4))
        values = tuple(b.register(32) for _ in range(count))
        how = {"space": space, "vector": count}
        if kind == 2 and space is Space.GENERIC:
            b.add(Instruction(Op.LD_ZFILL, D.B32, values, (place, self.operand(32)), **how))
        elif kind == 3:
            source = tuple(self.operand(32) for _ in values)
            how |= {"displacement": random.choice(_DISPLACEMENTS)}
            b.add(Instruction(Op.ST, D.B32, (), (place, *source), **how))
            return
        else:
            how |= {"displacement": random.choice(_DISPLACEMENTS), "volatile": kind == 4}
            b.add(Instruction(Op.LD, D.B32, values, (place,), **how))
        for value in values:
            b.store(D.B32, self.pools[64][0], value)
        self.pools[32] += values


def kernel(seed: int, *, shared: bool = False) -> Module:
    """Return the kernel of a seed, always the same one; ``shared``: with shared memory."""
    return _Maker(Random(seed), shared=shared).make()
