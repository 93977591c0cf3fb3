"""What the families write with: text, values, masks and memory of one function version."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from vgpu_sim.exec.jit.analysis.demanded_lanes import Wanted
from vgpu_sim.exec.jit.analysis.nans import NanPlan, is_arithmetic
from vgpu_sim.exec.jit.analysis.transfer import operand_widths
from vgpu_sim.exec.jit.emission import edge_tests
from vgpu_sim.exec.jit.ir.ssa import Operation, Source, Value, used_values
from vgpu_sim.exec.jit.memory.lowering import Memory
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Vector, signed
from vgpu_sim.exec.jit.text.masks import Mask, MaskWriter
from vgpu_sim.exec.jit.text.writer import Text, constant, integer
from vgpu_sim.exec.jit.values import linear_text
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

    Tests of widenings (see ``Analysis.checked``) are collected and branched on, all at once,
    before the next access or end of a block; they jump to ``restart``. Those of what is
    presumed jump to ``masked``.
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
        self._tests: list[str] = []
        self._edges: list[str] = []
        self._wanted: Wanted | None = None

    @contextmanager
    def untested(self) -> Iterator[None]:
        """Test nothing of what is written meanwhile."""
        tests, edges = len(self._tests), len(self._edges)
        try:
            yield
        finally:
            del self._tests[tests:], self._edges[edges:]

    def wanted(self, value: Value) -> int:
        """Return the lanes of ``value`` that are read: see ``wanted.Wanted``."""
        if self._wanted is None:
            self._wanted = Wanted(self.analysis, self.memory.comers)
        return self._wanted.of(value)

    def flush(self) -> None:
        """Branch away if one of the tests so far has failed."""
        self._leave(self._edges, "masked")
        self._leave(self._tests, "restart")

    def _leave(self, tests: list[str], label: str) -> None:
        if not tests:
            return
        text = self.text
        failed = tests[0]
        for test in tests[1:]:
            failed = text.let(f"or i1 {failed}, {test}")
        tests.clear()
        onward = text.label("unwrapped")
        text.branch(failed, self.labels[label], onward)
        text.begin(onward, follows=True)

    def presumed(self, node: Operation) -> Source | None:
        """Return the operand that all lanes are presumed to take, and test that they do."""
        place = self.analysis.presumed.get(node)
        if place is None:
            return None
        block = self.values.block
        coming = self.memory.comers.to(block)
        self._edges.append(edge_tests.reached(self.values, node, place, coming))
        return node.sources[place]

    def test_wrapping(self, node: Operation) -> None:
        """Test that no lane's sum wraps around, where addresses are made of it as if none did.

        Where what it is made of is not at hand, it is not behind that either: nobody makes any.
        """
        found = self.analysis.wrapping.get(node)
        if found is None:
            return
        wide, is_signed = found
        coming = self.memory.comers.to(self.values.block)
        lanes = [lane for lane in range(len(wide.own)) if coming >> lane & 1]
        if lanes and linear_text.readable(self.values, wide):
            test = linear_text.wrapped(self.values, wide, lanes, is_signed=is_signed)
            self._edges.append(test)

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
        """Return ``source``, a ``kind``, as wide as the result; tested where lanes might wrap."""
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
        tested = node in self.analysis.checked and not vector
        if not tested or isinstance(shape, Vector) or not shape.stride:
            return text.let(f"{extension} {held} {value} to {wanted}")
        algebra = self.analysis.algebra
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

    def _filled(self, node: Operation, result: Value, form: Form, value: str, scalar: str) -> str:
        """Return the result as its register holds it."""
        type_ = fold.result_type(node.instruction)
        if is_arithmetic(node) and type_.bits != result.bits:
            value, scalar = self.values.canonical(value, scalar, type_, form is Form.VECTOR)
        return self.values.fill(value, scalar, result, form, signed=type_.is_signed)


Lowering = Callable[[Emitter, Operation, Mask, bool], None]
"""Writes a node for the lanes of a mask, of which one is known to be there if the flag is set."""
