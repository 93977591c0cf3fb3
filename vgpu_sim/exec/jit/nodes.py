"""One SSA node after the other: picks the form of each result and calls the family's lowering."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vgpu_sim.exec.jit import fold, lower_convert, lower_float, lower_integer
from vgpu_sim.exec.jit.lane_shapes import Affine, Vector, signed
from vgpu_sim.exec.jit.launch import CONTEXT_GRID, THREAD_TRAP_WORD, EntryArguments
from vgpu_sim.exec.jit.masks import Mask, MaskWriter
from vgpu_sim.exec.jit.memory import Memory
from vgpu_sim.exec.jit.nans import NanPlan, is_arithmetic
from vgpu_sim.exec.jit.soft_float import SoftFloat
from vgpu_sim.exec.jit.ssa import Merge, Operation, Source, SsaBlock, Value, results_of, sources_of
from vgpu_sim.exec.jit.text import Text, constant, integer
from vgpu_sim.exec.jit.transfer import operand_widths
from vgpu_sim.exec.jit.values import Form, Values
from vgpu_sim.isa import (
    EFFECTS,
    DataType,
    Family,
    Literal,
    MulMode,
    Op,
    SpecialRegister,
    is_visible,
    reads_memory,
)


@dataclass(frozen=True, slots=True)
class Specials:
    """Names of the scalars that a group starts with: first linear thread, bases, block index."""

    first: str
    thread: tuple[str, str, str]
    block: tuple[str, str, str]


class Nodes:
    """Writes the nodes of one function version.

    Tests of widenings (see ``Analysis.checked``) are collected and branched on, all at once,
    before the next access or end of a block; they jump to ``restart``.
    """

    def __init__(
        self,
        text: Text,
        values: Values,
        memory: Memory,
        masks: MaskWriter,
        launch: EntryArguments,
        nans: NanPlan,
        specials: Specials,
        labels: Mapping[str, str],
    ) -> None:
        self._text = text
        self._values = values
        self._memory = memory
        self._masks = masks
        self._launch = launch
        self._nans = nans
        self._specials = specials
        self._labels = labels
        self._tests: list[str] = []
        self._analysis = values.analysis

    def block(self, block: SsaBlock, mask: Mask, *, occupied: bool) -> None:
        """Write all nodes of a block for the lanes of ``mask``."""
        for node in self._ordered(block):
            self._text.word = node.word
            if isinstance(node, Merge):
                self._merge(node)
            else:
                self._operation(node, mask, occupied)
        self._text.word = block.last_word

    def flush(self) -> None:
        """Branch away if one of the tests so far has failed."""
        if not self._tests:
            return
        text = self._text
        failed = self._tests[0]
        for test in self._tests[1:]:
            failed = text.let(f"or i1 {failed}, {test}")
        self._tests.clear()
        onward = text.label("unwrapped")
        text.branch(failed, self._labels["restart"], onward)
        text.begin(onward, follows=True)

    def _ordered(self, block: SsaBlock) -> Sequence[Operation | Merge]:
        """Tested widenings and what they need come first, so that one branch tests them all."""
        home = {r: node for node in block.nodes for r in results_of(node)}
        early: set[Operation | Merge] = set()
        for node in block.nodes:
            if node not in self._analysis.checked:
                continue
            needed: set[Operation | Merge] = set()
            pending: list[Operation | Merge] = [node]
            while pending:
                current = pending.pop()
                needed.add(current)
                before = [home[s] for s in sources_of(current) if s in home]
                pending += [n for n in before if n not in needed]
            if not any(_touches_memory(n) for n in needed):
                early |= needed
        first = [node for node in block.nodes if node in early]
        return [*first, *(node for node in block.nodes if node not in early)]

    def _operation(self, node: Operation, mask: Mask, occupied: bool) -> None:
        op = node.instruction.op
        if EFFECTS[op].masked:
            self._effect(node, mask, occupied)
        elif op is Op.SETP:
            self._compare(node)
        elif node.results and node.results[0] is not None:
            result = node.results[0]
            self._values.define(result, lambda form, c: self._filled(node, result, form, c))

    def _effect(self, node: Operation, mask: Mask, occupied: bool) -> None:
        self.flush()
        if node.guard is not None:
            masks, values = self._masks, self._values
            if self._analysis.uniform(node.guard, values.block):
                condition = values.condition(node.guard, Form.BASE)
                mask = masks.narrow(mask, condition)
            else:
                lanes = tuple(
                    masks.both(lane, values.condition(node.guard, Form.VECTOR, strip))
                    for strip, lane in enumerate(masks.flat(mask))
                )
                mask = Mask(lanes)
            occupied = False
        if node.instruction.op is Op.LD:
            self._memory.load(node, mask, occupied=occupied)
        elif node.instruction.op is Op.ST:
            self._memory.store(node, mask)
        else:
            self._trap(node, mask)

    def _trap(self, node: Operation, mask: Mask) -> None:
        text = self._text
        here, onward = text.label("trapped"), text.label("untrapped")
        text.branch(self._masks.any(mask), here, onward)
        with text.known.within():
            text.begin(here, follows=True)
            place = text.let(f"getelementptr i8, ptr %thread, i64 {THREAD_TRAP_WORD}")
            text.do(f"store i32 {node.word + 1}, ptr {place}, align 4")
            text.jump(self._labels["trap"])
        text.begin(onward, follows=True)

    def _merge(self, node: Merge) -> None:
        values = self._values
        clean = node in self._nans.cleaning
        scalar = values.types[node.result]

        def produce(form: Form, strip: int) -> str:
            flag = values.read(node.condition.value, "i1", form, strip)
            new = values.read(node.new, scalar, form, strip, clean=clean)
            old = values.read(node.old, scalar, form, strip, clean=clean)
            pair = (old, new) if node.condition.negated else (new, old)
            return self._text.select(flag, *pair, scalar, form is Form.VECTOR)

        values.define(node.result, produce)

    def _compare(self, node: Operation) -> None:
        text, values, instruction = self._text, self._values, node.instruction
        written: dict[tuple[Form, int], list[str]] = {}
        type_ = instruction.type
        small = type_ in (DataType.F16, DataType.BF16)
        scalar = lower_float.operand_type(type_) if type_.is_float else integer(type_.bits)

        def outcome(form: Form, strip: int) -> list[str]:
            if (form, strip) not in written:
                vector = form is Form.VECTOR
                clean = not type_.is_float
                args = [
                    values.read(source, scalar, form, strip, clean=clean)
                    for source in node.sources[:2]
                ]
                if type_.is_float and instruction.ftz:
                    args = [lower_float.flush(text, arg, type_, vector) for arg in args]
                if small:
                    soft = SoftFloat(text, vector)
                    args = [soft.widen(arg, type_) for arg in args]
                args += [values.read(s, "i1", form, strip) for s in node.sources[2:]]
                written[form, strip] = lower_integer.compare(text, instruction, args, vector)
            return written[form, strip]

        first, second = (*node.results, None)[:2]
        if first is not None:
            values.define(first, lambda form, c: outcome(form, c)[0])
        if second is not None:
            values.define(second, lambda form, c: outcome(form, c)[1])

    def _filled(self, node: Operation, result: Value, form: Form, strip: int) -> str:
        """Return the result as its register holds it."""
        value, scalar = self._computed(node, result, form, strip)
        type_ = fold.result_type(node.instruction)
        if is_arithmetic(node) and type_.bits != result.bits:
            value, scalar = self._values.canonical(value, scalar, type_, form is Form.VECTOR)
        return self._values.fill(value, scalar, result, form, signed=type_.is_signed)

    def _computed(self, node: Operation, result: Value, form: Form, strip: int) -> tuple[str, str]:
        text, values, instruction = self._text, self._values, node.instruction
        vector = form is Form.VECTOR
        if instruction.op is Op.S2R:
            return self._special(node, form, strip), "i32"
        if instruction.op is Op.SELP:
            same = result.bits == instruction.type.bits
            scalar = values.types[result] if same else integer(instruction.type.bits)
            clean = not same or node in self._nans.cleaning
            pair = [values.read(s, scalar, form, strip, clean=clean) for s in node.sources[:2]]
            flag = values.read(node.sources[2], "i1", form, strip)
            return text.select(flag, pair[0], pair[1], scalar, vector), scalar
        if instruction.op is Op.CVT:
            return self._convert(node, form, strip), lower_convert.result_llvm_type(instruction)
        if instruction.op.family is Family.FLOAT:
            if instruction.op in (Op.FNEG, Op.FABS):
                return self._sign(node, form, strip)
            scalar = lower_float.operand_type(instruction.type)
            args = [values.read(s, scalar, form, strip) for s in node.sources]
            return lower_float.lower(text, instruction, args, vector), scalar
        scalar = integer(fold.result_type(instruction).bits)
        if instruction.op in (Op.MUL, Op.MAD) and instruction.mode is MulMode.WIDE:
            args = [self._widened(node, s, form, strip) for s in node.sources[:2]]
            args += [values.read(s, scalar, form, strip, clean=True) for s in node.sources[2:]]
        else:
            widths = operand_widths(instruction)
            args = [
                values.read(source, integer(bits), form, strip, clean=True)
                for source, bits in zip(node.sources, widths, strict=True)
            ]
        return lower_integer.lower(text, instruction, args, vector), scalar

    def _sign(self, node: Operation, form: Form, strip: int) -> tuple[str, str]:
        scalar = integer(node.instruction.type.bits)
        clean = node in self._nans.cleaning
        bits = self._values.read(node.sources[0], scalar, form, strip, clean=clean)
        vector = form is Form.VECTOR
        return lower_float.lower_sign(self._text, node.instruction, bits, vector), scalar

    def _convert(self, node: Operation, form: Form, strip: int) -> str:
        instruction, source = node.instruction, node.sources[0]
        from_type = instruction.source_type
        assert from_type is not None
        plain = from_type.is_integer and instruction.type.is_integer and not instruction.saturate
        if plain and instruction.type.bits > from_type.bits:
            return self._widened(node, source, form, strip)
        scalar = lower_convert.operand_llvm_type(instruction)
        clean = from_type.is_integer
        value = self._values.read(source, scalar, form, strip, clean=clean)
        return lower_convert.lower(self._text, instruction, value, form is Form.VECTOR)

    def _widened(self, node: Operation, source: Source, form: Form, strip: int) -> str:
        """``source`` extended to the result's width, with a test where lanes might wrap."""
        text, instruction = self._text, node.instruction
        kind = instruction.source_type if instruction.op is Op.CVT else instruction.type
        assert kind is not None
        bits, wide = kind.bits, fold.result_type(instruction).bits
        if isinstance(source, Literal):
            number = source.bits & ((1 << bits) - 1)
            number = signed(number, bits) if kind.is_signed else number
            return text.const(number, integer(wide), form is Form.VECTOR)
        value = self._values.read(source, integer(bits), form, strip, clean=True)
        shape = self._values.shape(source, bits)
        vector = form is Form.VECTOR
        held, wanted = (text.type_of(integer(b), vector) for b in (bits, wide))
        extension = "sext" if kind.is_signed else "zext"
        tested = node in self._analysis.checked and not vector
        if not tested or isinstance(shape, Vector) or not shape.stride:
            return text.let(f"{extension} {held} {value} to {wanted}")
        algebra = self._analysis.algebra
        if isinstance(shape, Affine) and algebra.fits(shape):
            return text.let(f"{extension} {held} {value} to {wanted}")
        low, high = algebra.extent(shape)
        if low:
            value = text.let(f"add {held} {value}, {constant(low, held)}")
        least = (1 << (bits - 1)) - 1 if kind.is_signed else (1 << bits) - 1
        relation = "sgt" if kind.is_signed else "ugt"
        last = constant(least - (high - low), held)
        self._tests.append(text.let(f"icmp {relation} {held} {value}, {last}"))
        value = text.let(f"{extension} {held} {value} to {wanted}")
        return text.let(f"sub {wanted} {value}, {constant(low, wanted)}") if low else value

    def _special(self, node: Operation, form: Form, strip: int) -> str:
        specials = self._specials
        register = node.instruction.sreg
        assert register is not None
        if register is SpecialRegister.LANEID or register <= SpecialRegister.TID_Z:
            return self._thread_index(register, form, strip)
        if SpecialRegister.CTAID_X <= register <= SpecialRegister.CTAID_Z:
            return specials.block[register - SpecialRegister.CTAID_X]
        assert SpecialRegister.NCTAID_X <= register <= SpecialRegister.NCTAID_Z
        axis = register - SpecialRegister.NCTAID_X
        return self._launch.context(CONTEXT_GRID + 4 * axis, "i32")

    def _thread_index(self, register: SpecialRegister, form: Form, strip: int) -> str:
        text, geometry = self._text, self._analysis.geometry
        if register is SpecialRegister.LANEID:
            base = text.let(f"and i32 {self._specials.first}, 31")
            first = strip * geometry.width
            row: Sequence[int] = range(first, first + geometry.width)
        else:
            base = self._specials.thread[register]
            row = geometry.axes()[register].rows[strip]
        if form is Form.BASE:
            return base
        if form is Form.SCALAR:
            return text.let(f"add i32 {base}, {row[0]}")
        type_ = text.type_of("i32", vector=True)
        spread = text.splat("i32", base)
        lanes = text.let(f"add {type_} {spread}, {text.lanes('i32', row)}")
        if register is SpecialRegister.LANEID:
            lanes = text.let(f"and {type_} {lanes}, splat (i32 31)")
        return lanes


def _touches_memory(node: Operation | Merge) -> bool:
    return isinstance(node, Operation) and (
        is_visible(node.instruction) or reads_memory(node.instruction)
    )
