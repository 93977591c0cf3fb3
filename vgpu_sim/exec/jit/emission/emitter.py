"""What the families write with: text, values, masks and memory of one function version."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vgpu_sim.exec.jit.analysis.assumptions import Chosen, Extended, Fallback
from vgpu_sim.exec.jit.analysis.demanded_lanes import Wanted
from vgpu_sim.exec.jit.analysis.nans import NanPlan, is_arithmetic
from vgpu_sim.exec.jit.analysis.transfer import operand_widths
from vgpu_sim.exec.jit.ir.ssa import Operation, Source, Value, used_values
from vgpu_sim.exec.jit.memory.lowering import Memory
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector, signed
from vgpu_sim.exec.jit.text.masks import Mask, MaskWriter
from vgpu_sim.exec.jit.text.writer import Text, constant, integer
from vgpu_sim.exec.jit.values import assumption_tests
from vgpu_sim.exec.jit.values.environment import Form, Values
from vgpu_sim.exec.jit.values.launch import EntryArguments
from vgpu_sim.isa import DataType, Literal


@dataclass(frozen=True, slots=True)
class Specials:
    """Names of the scalars that a group starts with: first linear thread, bases, block index."""

    first: str
    thread: tuple[str, str, str]
    block: tuple[str, str, str]


class Emitter:
    """The tools, and what all families do alike.

    Tests of what is assumed of the group (``assume``) are collected and branched on, all at once,
    before the next access or end of a block, to where their assumptions fall back.
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
        self.text = text
        self.values = values
        self.memory = memory
        self.masks = masks
        self.launch = launch
        self.nans = nans
        self.specials = specials
        self.labels = labels
        self.analysis = values.analysis
        self.used = used_values(values.analysis.ssa)
        self.ahead: set[Operation] = set()  # written before their turn, with others
        self._tests: dict[Fallback, list[str]] = {Fallback.MASKS: [], Fallback.LANES: []}
        self._wanted: Wanted | None = None

    def wanted(self, value: Value) -> int:
        """Return the lanes of ``value`` that are read: see ``wanted.Wanted``."""
        if self._wanted is None:
            self._wanted = Wanted(self.analysis, self.memory.comers)
        return self._wanted.of(value)

    def flush(self) -> None:
        """Branch away if one of the tests so far has failed."""
        text = self.text
        for fallback, tests in self._tests.items():
            if tests:
                failed = assumption_tests.any_of(text, tests)
                tests.clear()
                onward = text.label("unwrapped")
                text.branch(failed, self.labels[fallback.value], onward)
                text.begin(onward, follows=True)

    def assume(self, node: Operation) -> None:
        """Test what is assumed at ``node``, which comes next, if anything is."""
        assumed = self.analysis.assumptions.get(node)
        if assumed is not None:
            coming = self.memory.comers.to(self.values.block)
            tests = assumption_tests.of_group(self.values, node, assumed, coming)
            self._tests[assumed.fallback].extend(tests)

    def chosen(self, node: Operation) -> Source | None:
        """Return the operand that all lanes are assumed to take."""
        assumed = self.analysis.assumptions.get(node)
        return node.sources[assumed.place] if isinstance(assumed, Chosen) else None

    def define(self, node: Operation, compute: Callable[[Form, int], tuple[str, str]]) -> None:
        """Hold the result of ``node``; ``compute`` gives its value and LLVM type for a form."""
        result = node.results[0] if node.results else None
        if result is not None:
            self.values.define(
                result, lambda form, strip: self._filled(node, result, form, *compute(form, strip))
            )

    def patterns(self, node: Operation, form: Form, strip: int) -> list[str]:
        """Return the operands as integers of their widths, NaNs canonical."""
        widths = operand_widths(node.instruction)
        return [
            self.values.read(source, integer(bits), form, strip, clean=True)
            for source, bits in zip(node.sources, widths, strict=True)
        ]

    def widened(
        self, node: Operation, source: Source, kind: DataType, form: Form, strip: int
    ) -> str:
        """Return ``source``, a ``kind``, as wide as the result; by the least of what lanes have
        where it is assumed that none wraps around."""
        text = self.text
        bits, wide = kind.bits, fold.result_type(node.instruction).bits
        if isinstance(source, Literal):
            number = source.bits & ((1 << bits) - 1)
            number = signed(number, bits) if kind.is_signed else number
            return text.const(number, integer(wide), form is Form.VECTOR)
        value = self.values.read(source, integer(bits), form, strip, clean=True)
        shape = self.values.shape(source, bits)
        vector = form is Form.VECTOR
        held, wanted = (text.type_of(integer(b), vector) for b in (bits, wide))
        extension = "sext" if kind.is_signed else "zext"
        assumes = isinstance(self.analysis.assumptions.get(node), Extended) and not vector
        low = 0
        if assumes and not isinstance(shape, Vector) and self.analysis.algebra.may_wrap(shape):
            low = self.analysis.algebra.extent(shape)[0]
        if low:
            value = text.let(f"add {held} {value}, {constant(low, held)}")
        value = text.let(f"{extension} {held} {value} to {wanted}")
        return text.let(f"sub {wanted} {value}, {constant(low, wanted)}") if low else value

    def _filled(self, node: Operation, result: Value, form: Form, value: str, scalar: str) -> str:
        """Return the result as its register holds it."""
        type_ = fold.result_type(node.instruction)
        if is_arithmetic(node) and type_.bits != result.bits:
            value, scalar = self.values.canonical(value, scalar, type_, form is Form.VECTOR)
        return self.values.fill(value, scalar, result, form, signed=type_.is_signed)


Lowering = Callable[[Emitter, Operation, Mask, bool], None]
"""Writes a node for the lanes of a mask, of which one is known to be there if the flag is set."""
