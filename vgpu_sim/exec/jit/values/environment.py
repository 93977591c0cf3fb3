"""The environment: the LLVM values that hold an SSA value, and reading it in a required form.

A value's shape determines how it is held: an ``Affine`` by one scalar (by none if its base is
known), a ``PerVector`` by one scalar for each vector, a ``Vector`` by one LLVM vector for each
vector of lanes. It can be read as the group's base, as the first lane of a vector, or as a
vector.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum

from vgpu_sim.exec.jit.analysis.nans import CANONICAL, NanPlan
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.arithmetic import nan_fixups
from vgpu_sim.exec.jit.ir.ssa import (
    Condition,
    Merge,
    Operation,
    Phi,
    Source,
    SsaFunction,
    Value,
    results_of,
)
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, LaneShape, PerVector, Vector
from vgpu_sim.exec.jit.text.writer import BITS, Text, constant, integer
from vgpu_sim.isa import DataType, Literal, Op
from vgpu_sim.records import dataclass

FLOATS = {DataType.F32: "float", DataType.F64: "double"}


class Form(Enum):
    """How an operation is computed: on the bases of the group, on the first lane of a vector, or on
    all lanes of a vector.
    """

    BASE = 0  # on the group's bases
    SCALAR = 1  # on the first lane of a vector
    VECTOR = 2  # on all lanes of a vector


@dataclass(frozen=True, slots=True)
class Held:
    """The LLVM values that hold an SSA value.

    If only the group's base is held, ``names`` has one name. Otherwise it has one name for each
    vector of lanes: the name of a vector if ``vector`` is set, else of a scalar.
    """

    names: tuple[str, ...]
    scalar: str
    vector: bool


def storage_types(ssa: SsaFunction, nans: NanPlan) -> dict[Value, str]:
    """Return the LLVM type that holds each value: a float if it is used as a float, else an
    integer.

    Holding a float as an integer would cost moves between register files. A canonicalised value
    is held as an integer nevertheless: for floats, LLVM considers all NaNs equivalent, and would
    drop the select that makes them canonical.
    """
    types: dict[Value, str] = {}
    passive: list[tuple[Value, list[Source]]] = []
    for block in ssa.blocks.values():
        for node in (*block.phis, *block.nodes):
            if node not in nans.cleaning:
                passive += _passed_on(node)
            for result in results_of(node):
                clean = node in nans.cleaning
                types[result] = integer(result.bits) if clean else _computed_type(node, result)
    changed = True
    while changed:
        changed = False
        for result, sources in passive:
            source_types = {types[source] for source in sources if isinstance(source, Value)}
            floats = {t for t in source_types & set(FLOATS.values()) if BITS[t] == result.bits}
            if floats and types[result] not in FLOATS.values():
                types[result] = floats.pop()
                changed = True
    return types


def _passed_on(node: Phi | Merge | Operation) -> list[tuple[Value, list[Source]]]:
    """Return the results that are copies of a source, with these sources."""
    if isinstance(node, Phi):
        return [(node.result, list(node.arguments.values()))]
    if isinstance(node, Merge):
        return [(node.result, [node.new, node.old])]
    if node.instruction.op is Op.SELP:
        return [(result, list(node.sources[:2])) for result in results_of(node)]
    if node.instruction.op is Op.SHFL and node.results[0] is not None:
        return [(node.results[0], [node.sources[0]])]
    return []


def _computed_type(node: Phi | Merge | Operation, result: Value) -> str:
    if isinstance(node, Operation) and node.instruction.op not in (Op.SELP, Op.SETP):
        type_ = node.instruction.type
        if type_ in FLOATS and type_.bits == result.bits:
            return FLOATS[type_]
    return integer(result.bits)


class Scope:
    """Records all changes of held values after the scope begins, so that the changes can be merged
    or rolled back.
    """

    def __init__(
        self, held_values: dict[Value, Held], journal: list[tuple[Value, Held | None]]
    ) -> None:
        self._held = held_values
        self._journal = journal
        self._begin = len(journal)

    @property
    def defined(self) -> list[Value]:
        """The values for which a change was recorded since the scope began, without duplicates, in
        text order.
        """
        return list(dict.fromkeys(value for value, _ in self._journal[self._begin :]))

    def roll_back(self) -> None:
        """Restore the values that were held at the start of the scope."""
        while len(self._journal) > self._begin:
            value, earlier_value = self._journal.pop()
            if earlier_value is None:
                self._held.pop(value, None)
            else:
                self._held[value] = earlier_value


class Values:
    """The LLVM values that hold the SSA values of one function version.

    ``block`` is the basic block that is being emitted.
    """

    def __init__(
        self,
        text: Text,
        analysis: Analysis,
        nans: NanPlan,
        types: dict[Value, str],
        symbol: Callable[[str, int], str],
    ) -> None:
        self.text = text
        self.analysis = analysis
        self.types = types
        self.held: dict[Value, Held] = {}
        self._journal: list[tuple[Value, Held | None]] = []  # with the value held before
        self.block = analysis.order[0]
        self.vectors = analysis.geometry.vectors
        self._nans = nans
        self._symbol = symbol

    def shape(self, source: Source, bits: int) -> LaneShape:
        """Return the shape that ``source`` has in the current basic block."""
        shape = self.analysis.shape(source, self.block, bits)
        assert shape is not None
        return shape

    def _own_shape(self, source: Value) -> LaneShape:
        return self.shape(source, source.bits)

    def read(
        self, source: Source, type_: str, form: Form, part: int, *, clean: bool = False
    ) -> str:
        """Return ``source`` as a value of the LLVM type ``type_``. If ``clean`` is set, NaNs are
        made canonical.
        """
        if form is Form.VECTOR:
            value, held_type = self._vector(source, type_, part)
        elif form is Form.SCALAR:
            value, held_type = self._scalar(source, type_, part)
        else:
            value, held_type = self._base(source, type_)
        vector = form is Form.VECTOR
        if clean and isinstance(source, Value) and source in self._nans.dirty:
            value, held_type = self.canonicalise_nans(
                value, held_type, self._nans.dirty[source], vector
            )
        return self.cast(value, held_type, type_, vector)

    def condition(self, condition: Condition, form: Form, part: int = 0) -> str:
        """Return the value of a guard as i1. The value is inverted if the guard is negated."""
        value = self.read(condition.value, "i1", form, part)
        return self.invert(value, vector=form is Form.VECTOR) if condition.negated else value

    def invert(self, flag: str, *, vector: bool) -> str:
        """Return the logical complement of a flag."""
        text = self.text
        type_ = text.type_of("i1", vector)
        return text.let(f"xor {type_} {flag}, {text.const(1, 'i1', vector)}")

    def define(self, result: Value, produce: Callable[[Form, int], str]) -> None:
        """Compute ``result`` in the form that its shape requires, and record the LLVM values that
        hold it.

        ``produce`` gets a form and the number of a vector; it returns a value of the storage type
        of ``result``.
        """
        form = self.form_of(result)
        if form is not None:
            count = 1 if form is Form.BASE else self.vectors
            self.hold(result, tuple(produce(form, part) for part in range(count)))

    def hold(self, result: Value, names: tuple[str, ...], *, vectors: bool = False) -> None:
        """Record ``names`` as the LLVM values that hold ``result``.

        If ``vectors`` is set, each name is a vector. Otherwise each name is a vector or a
        scalar, as the shape of ``result`` requires.
        """
        vector = vectors or self.form_of(result) is Form.VECTOR
        self.record_held(result, Held(names, self.types[result], vector))

    def record_held(self, value: Value, held_value: Held) -> None:
        """Record ``held_value`` as the LLVM values that hold the SSA value ``value`` from now
        on.
        """
        self._journal.append((value, self.held.get(value)))
        self.held[value] = held_value

    def mark(self) -> Scope:
        """Return a new scope, which records changes of held values from now on. Expressions that
        are written in the scope remain valid after its end.
        """
        return Scope(self.held, self._journal)

    @contextmanager
    def scope(self) -> Iterator[Scope]:
        """Open a scope for code that may be branched around. Expressions that are written in the
        scope are valid only within it.
        """
        with self.text.known.open_scope():
            yield self.mark()

    def form_of(self, value: Value) -> Form | None:
        """Return the form in which ``define`` produces a value.

        Return None if no LLVM value holds it, because it is known at compile time.
        """
        shape = self.analysis.shapes[value]
        if isinstance(shape, Affine):
            return None if shape.constant is not None else Form.BASE
        if isinstance(shape, PerVector):
            return Form.SCALAR
        return None if shape.lanes is not None else Form.VECTOR

    def materialise(self, source: Source, like: Value, *, clean: bool) -> tuple[str, ...]:
        """Return LLVM values that hold ``source`` in the form and the type of the value ``like``.
        They become operands of phis and selects.
        """
        form = self.form_of(like)
        assert form is not None
        type_ = self.types[like]
        count = 1 if form is Form.BASE else self.vectors
        return tuple(self.read(source, type_, form, part, clean=clean) for part in range(count))

    def cast(self, value: str, source_type: str, target_type: str, vector: bool) -> str:
        """Convert ``value`` from type ``source_type`` to type ``target_type``: bitcast, truncate or
        zero-extend.
        """
        if source_type == target_type:
            return value
        if BITS[source_type] == BITS[target_type]:
            return self._convert("bitcast", value, source_type, target_type, vector)
        if not source_type.startswith("i"):
            value = self._convert("bitcast", value, source_type, integer(BITS[source_type]), vector)
            source_type = integer(BITS[source_type])
        through = integer(BITS[target_type])
        operation = "trunc" if BITS[source_type] > BITS[target_type] else "zext"
        if source_type == "i1" and vector:
            value = self.text.flags_to_integers(value, through)
        else:
            value = self._convert(operation, value, source_type, through, vector)
        if through != target_type:
            value = self._convert("bitcast", value, through, target_type, vector)
        return value

    def extend_to_storage(
        self, value: str, source_type: str, result: Value, form: Form, *, signed: bool
    ) -> str:
        """Extend ``value`` from the type ``source_type`` to the storage type of ``result``. If
        ``signed``, sign-extend it, else zero-extend it.
        """
        storage_type, vector = self.types[result], form is Form.VECTOR
        if signed and BITS[source_type] < result.bits:
            value = self._convert("sext", value, source_type, integer(result.bits), vector)
            source_type = integer(result.bits)
        return self.cast(value, source_type, storage_type, vector)

    def in_form(self, vector: str, scalar: str, form: Form) -> str:
        """Return ``vector`` in the form ``form``: the vector itself, or its first lane as a scalar.

        ``scalar`` is the LLVM type of a lane.
        """
        if form is Form.VECTOR:
            return vector
        return self.text.let(f"extractelement {self.text.type_of(scalar, True)} {vector}, i64 0")

    def _convert(
        self, operation: str, value: str, source_scalar: str, target_scalar: str, vector: bool
    ) -> str:
        text = self.text
        source, target = text.type_of(source_scalar, vector), text.type_of(target_scalar, vector)
        return text.let(f"{operation} {source} {value} to {target}")

    def _base(self, source: Source, type_: str) -> tuple[str, str]:
        if not isinstance(source, Value):
            return self._immediate(source, type_)
        shape = self._own_shape(source)
        if isinstance(shape, Vector):
            return self._cut(source, type_, None)
        assert isinstance(shape, Affine), f"{source} is not affine"
        if shape.constant is not None:
            if BITS[type_] <= source.bits:
                return constant(shape.constant, type_), type_
            return constant(shape.constant, integer(source.bits)), integer(source.bits)
        held_value = self.held[source]
        return held_value.names[0], held_value.scalar

    def _cut(self, source: Value, type_: str, part: int | None) -> tuple[str, str]:
        """Read the scalar of a vector, or the base, of a value that is affine only when truncated.

        This includes lanes with known values, such as 8 * (tid - 1) held in 64 bits, where tid -
        1 has 32 bits and wraps around.
        """
        shape, bits = self.shape(source, BITS[type_]), BITS[type_]
        assert isinstance(shape, Affine), f"{source} is a vector"
        assert shape.constant is not None, f"lanes of {source} are not known"
        offset = 0 if part is None else shape.offsets[part]
        return constant(shape.constant + offset, integer(bits)), integer(bits)

    def _scalar(self, source: Source, type_: str, part: int) -> tuple[str, str]:
        if not isinstance(source, Value):
            return self._immediate(source, type_)
        shape = self._own_shape(source)
        if isinstance(shape, PerVector):
            held_value = self.held[source]
            return held_value.names[part], held_value.scalar
        if isinstance(shape, Vector):
            return self._cut(source, type_, part)
        whole = integer(source.bits)
        if shape.constant is not None:
            return constant(shape.constant + shape.offsets[part], whole), whole
        name, scalar = self._base(source, type_)
        offset = shape.offsets[part]
        if not offset:
            return name, scalar
        name = self.cast(name, scalar, whole, vector=False)
        return self.text.let(f"add {whole} {name}, {constant(offset, whole)}"), whole

    def _vector(self, source: Source, type_: str, part: int) -> tuple[str, str]:
        text = self.text
        if not isinstance(source, Value):
            value, scalar = self._immediate(source, type_)
            return text.splat(scalar, value), scalar
        shape = self._own_shape(source)
        whole = integer(source.bits)
        if isinstance(shape, Vector):
            if shape.lanes is not None:
                return text.lanes(whole, shape.lanes[part]), whole
            held_value = self.held[source]
            return held_value.names[part], held_value.scalar
        rows = self.analysis.algebra.lanes(shape, source.bits)
        if rows is not None:
            return text.lanes(whole, rows[part]), whole
        value, scalar = self._scalar(source, type_, part)
        if not shape.stride:
            return text.splat(scalar, value), scalar
        value = text.splat(whole, self.cast(value, scalar, whole, vector=False))
        steps = text.lanes(whole, (shape.stride * lane for lane in range(text.width)))
        return text.let(f"add {text.type_of(whole, True)} {value}, {steps}"), whole

    def _immediate(self, source: Source, type_: str) -> tuple[str, str]:
        if isinstance(source, Literal):
            return constant(source.bits, type_), type_
        assert not isinstance(source, Value)
        return self._symbol(source.name, source.addend), "i64"

    def canonicalise_nans(
        self, value: str, source_type: str, type_: DataType, vector: bool
    ) -> tuple[str, str]:
        """Return the bit pattern of a float, in which NaNs are canonical, and the LLVM type of the
        pattern.
        """
        text, scalar = self.text, FLOATS[type_]
        number = self.cast(value, source_type, scalar, vector)
        whole = integer(type_.bits)
        if vector and nan_fixups.is_available(text.width, type_):
            return nan_fixups.canonicalise_nans(text, number, type_), whole
        bits = self.cast(value, source_type, whole, vector)
        is_nan = text.let(f"fcmp uno {text.type_of(scalar, vector)} {number}, {number}")
        canonical = text.const(CANONICAL[type_], whole, vector)
        return text.select(is_nan, canonical, bits, whole, vector), whole
