"""The emitter for families: text, values, masks and memory of one function version."""

from collections.abc import Callable, Mapping

from vgpu_sim.exec.jit.analysis.assumptions import Chosen, Extended, Fallback
from vgpu_sim.exec.jit.analysis.demanded_lanes import DemandedLanes
from vgpu_sim.exec.jit.analysis.nans import NanPlan, is_arithmetic
from vgpu_sim.exec.jit.analysis.operand_widths import operand_widths
from vgpu_sim.exec.jit.ir.ssa import Operation, Source, Value, used_values
from vgpu_sim.exec.jit.memory.lowering import Memory
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.exec.jit.planning.tile_groups import TileGroup
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector, to_signed
from vgpu_sim.exec.jit.text.masks import Mask, MaskWriter
from vgpu_sim.exec.jit.text.writer import Text, constant, integer
from vgpu_sim.exec.jit.values import assumption_tests
from vgpu_sim.exec.jit.values.environment import Form, Values
from vgpu_sim.exec.jit.values.launch import EntryArguments
from vgpu_sim.isa import DataType, Literal
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Specials:
    """The names of scalars that are available when a group begins.

    ``first`` is the linear index of the group's first thread. ``thread`` has the bases of the
    group's thread indices in x, y and z. ``block`` has the indices of its block.
    """

    first: str
    thread: tuple[str, str, str]
    block: tuple[str, str, str]


class Emitter:
    """The functions that generate code for families of instructions use this class to emit it.

    Tests of assumptions about the group (``test_assumptions``) are collected. They are emitted
    as one branch to their fallback before the next access or the end of a block.
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
        self.ahead: set[Operation] = set()  # nodes emitted early, together with others
        self.tile_groups: dict[Operation, TileGroup] = {}  # of the block that is being emitted
        self._tests: dict[Fallback, list[str]] = {Fallback.MASKS: [], Fallback.LANES: []}
        self._demanded_lanes: DemandedLanes | None = None

    def demanded_lanes(self, value: Value) -> int:
        """Return a bit mask of the lanes in which ``value`` is read (see
        ``demanded_lanes.DemandedLanes``).
        """
        if self._demanded_lanes is None:
            self._demanded_lanes = DemandedLanes(self.analysis, self.memory.reaching_lanes)
        return self._demanded_lanes.of(value)

    def flush(self) -> None:
        """Emit the pending tests of assumptions. If one fails, the code branches to its
        fallback.
        """
        text = self.text
        for fallback, tests in self._tests.items():
            if tests:
                failed = assumption_tests.any_of(text, tests)
                tests.clear()
                onward = text.label("unwrapped")
                text.branch(failed, self.labels[fallback.value], onward)
                text.begin(onward, follows=True)

    def test_assumptions(self, node: Operation) -> None:
        """Emit the tests of the assumptions at ``node``, which is emitted next."""
        assumed = self.analysis.assumptions.get(node)
        if assumed is not None:
            coming = self.memory.reaching_lanes.to(self.values.block)
            tests = assumption_tests.group_tests(self.values, node, assumed, coming)
            self._tests[assumed.fallback].extend(tests)

    def assumed_operand(self, node: Operation) -> Source | None:
        """Return the operand that ``node`` is assumed to choose in all lanes; None without such an
        assumption.
        """
        assumed = self.analysis.assumptions.get(node)
        return node.sources[assumed.place] if isinstance(assumed, Chosen) else None

    def define(self, node: Operation, compute: Callable[[Form, int], tuple[str, str]]) -> None:
        """Compute the result of ``node`` and record the LLVM values that hold it.

        ``compute`` takes a form and the index of a vector. It returns an LLVM value and the value's
        type.
        """
        result = node.results[0] if node.results else None
        if result is not None:
            self.values.define(
                result, lambda form, part: self._fill(node, result, form, *compute(form, part))
            )

    def patterns(self, node: Operation, form: Form, part: int) -> list[str]:
        """Return the operands of ``node`` as integers of the operands' widths. NaNs among them are
        canonical.
        """
        widths = operand_widths(node.instruction)
        return [
            self.values.read(source, integer(bits), form, part, clean=True)
            for source, bits in zip(node.sources, widths, strict=True)
        ]

    def widen(self, node: Operation, source: Source, kind: DataType, form: Form, part: int) -> str:
        """Extend ``source``, of type ``kind``, to the width of the result of ``node``.

        If the analysis assumes that no lane wraps around, only the smallest of the lanes' values
        is extended. The values of the other lanes differ from it by known distances.
        """
        text = self.text
        bits, wide = kind.bits, fold.result_type(node.instruction).bits
        if isinstance(source, Literal):
            number = source.bits & ((1 << bits) - 1)
            number = to_signed(number, bits) if kind.is_signed else number
            return text.const(number, integer(wide), form is Form.VECTOR)
        value = self.values.read(source, integer(bits), form, part, clean=True)
        shape = self.values.shape(source, bits)
        vector = form is Form.VECTOR
        source_type, target_type = (text.type_of(integer(b), vector) for b in (bits, wide))
        extension = "sext" if kind.is_signed else "zext"
        assumes = isinstance(self.analysis.assumptions.get(node), Extended) and not vector
        low = 0
        if assumes and not isinstance(shape, Vector) and self.analysis.algebra.may_wrap(shape):
            low = self.analysis.algebra.extent(shape)[0]
        if low:
            value = text.let(f"add {source_type} {value}, {constant(low, source_type)}")
        value = text.let(f"{extension} {source_type} {value} to {target_type}")
        return (
            text.let(f"sub {target_type} {value}, {constant(low, target_type)}") if low else value
        )

    def _fill(self, node: Operation, result: Value, form: Form, value: str, scalar: str) -> str:
        """Convert the result to the form in which its register is held."""
        type_ = fold.result_type(node.instruction)
        if is_arithmetic(node) and type_.bits != result.bits:
            value, scalar = self.values.canonicalise_nans(value, scalar, type_, form is Form.VECTOR)
        return self.values.extend_to_storage(value, scalar, result, form, signed=type_.is_signed)


Lowering = Callable[[Emitter, Operation, Mask, bool], None]
"""The function that emits a node for the lanes of a mask.

Its flag is true if the mask is known not to be empty.
"""
