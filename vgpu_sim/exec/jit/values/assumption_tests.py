"""The run-time tests of assumptions, as LLVM text: each is true if some lane may violate it.

The operands of a test must be available where it is emitted. Each test compares the ends of the
range that lanes span with a bound, at the cost of a few scalar instructions; lanes are compared
one by one only if that is inconclusive.
"""

from collections.abc import Iterator

from vgpu_sim.exec.jit.analysis import choices
from vgpu_sim.exec.jit.analysis.assumptions import Chosen, Extended, OfGroup, Summed
from vgpu_sim.exec.jit.ir.ssa import Operation, Source, Value
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Vector, to_signed
from vgpu_sim.exec.jit.text.writer import Text, constant, integer
from vgpu_sim.exec.jit.values import linear_text
from vgpu_sim.exec.jit.values.environment import Form, Values
from vgpu_sim.isa import Compare, DataType


def group_tests(values: Values, node: Operation, assumed: OfGroup, coming: int) -> Iterator[str]:
    """Yield the tests of the assumption ``assumed`` for the lanes that reach ``node``. ``coming``
    is the bit mask of these lanes.
    """
    match assumed:
        case Extended():
            yield from _extended_tests(values, node, assumed)
        case Summed(wide, is_signed):
            # If its operands are not available here, they are not available later either: see
            # ``wraps``.
            lanes = [lane for lane in range(len(wide.own)) if coming >> lane & 1]
            if lanes and linear_text.is_readable_sum(values, wide):
                yield linear_text.sum_wraps_around(values, wide, lanes, is_signed=is_signed)
        case Chosen(place):
            yield _other_operand(values, node, place, coming)


def any_of(text: Text, tests: list[str]) -> str:
    """Return whether any of the tests is true."""
    joined = tests[0]
    for test in tests[1:]:
        joined = text.let(f"or i1 {joined}, {test}")
    return joined


def wraps_around(values: Values, source: Source, kind: DataType, further: int, part: int) -> str:
    """Return whether a 32-bit value wraps around in some lane, or would wrap around after
    ``further`` is added to it.
    """
    text, narrow = values.text, integer(kind.bits)
    shape = values.shape(source, kind.bits)
    if not isinstance(shape, Vector):
        reach = shape.stride * (text.width - 1)
        number = values.read(source, narrow, Form.SCALAR, part)
        return _leaves(text, number, min(reach, 0), max(reach, 0) + further, kind)
    numbers = values.read(source, narrow, Form.VECTOR, part)
    relation, last = _last(kind, further)
    type_, flags = text.type_of(narrow, vector=True), text.type_of("i1", vector=True)
    beyond = text.let(f"icmp {relation} {type_} {numbers}, splat ({narrow} {last})")
    packed = text.let(f"bitcast {flags} {beyond} to {integer(text.width)}")
    return text.let(f"icmp ne {integer(text.width)} {packed}, 0")


def _extended_tests(values: Values, node: Operation, assumed: Extended) -> Iterator[str]:
    """Yield one test per vector. A vector result needs none: each lane is extended by itself."""
    result = node.results[0]
    form = None if result is None else values.form_of(result)
    if form is None or form is Form.VECTOR:
        return
    source, kind = assumed.source, assumed.kind
    shape, algebra = values.shape(source, kind.bits), values.analysis.algebra
    if isinstance(shape, Vector) or not algebra.may_wrap(shape):
        return
    for part in range(1 if form is Form.BASE else values.vectors):
        number = values.read(source, integer(kind.bits), form, part, clean=True)
        yield _leaves(values.text, number, *algebra.extent(shape), kind)


def _leaves(text: Text, number: str, lowest: int, highest: int, kind: DataType) -> str:
    """Return whether the range from ``lowest`` to ``highest`` above a value leaves its type."""
    narrow = integer(kind.bits)
    if highest - lowest >= 1 << kind.bits:
        return "true"
    if lowest:
        number = text.let(f"add {narrow} {number}, {constant(lowest, narrow)}")
    relation, last = _last(kind, highest - lowest)
    return text.let(f"icmp {relation} {narrow} {number}, {last}")


def _last(kind: DataType, span: int) -> tuple[str, str]:
    """Return the relation and the last value to which ``span`` may be added without wrapping."""
    maximum = (1 << (kind.bits - 1)) - 1 if kind.is_signed else (1 << kind.bits) - 1
    return "sgt" if kind.is_signed else "ugt", constant(maximum - span, integer(kind.bits))


def _other_operand(values: Values, node: Operation, place: int, coming: int) -> str:
    """Return whether some of the lanes ``coming`` may not take operand ``place`` of the select.

    The compared value is the group's base plus known distances. If these span less than the
    value range, they do not wrap around unless the last value is below the first; then these two
    bound all lanes.
    """
    text, analysis = values.text, values.analysis
    comparison = choices.comparison(analysis.ssa, node)
    assert comparison is not None
    test, inverse = comparison
    compare, bits = test.instruction.compare, test.instruction.type.bits
    assert compare is not None
    a, b = (values.shape(source, bits) for source in test.sources[:2])
    related = choices.relation(compare, (a, b), holds=(place == 0) != inverse)
    assert related is not None
    which, relation = related
    number, scalar, width = (a, b)[which], integer(bits), text.width
    lanes = [lane for lane in range(width * values.vectors) if coming >> lane & 1]
    if not lanes:
        return "false"
    needed = [source for source in test.sources[:2] if isinstance(source, Value)]
    if isinstance(number, Vector) and number.linear is not None:
        needed = [s for s in needed if s is not test.sources[which]]
        needed += number.linear.values_shared()
    if not linear_text.has_available_bases(values, needed):
        return _by_lanes(values, node, coming, is_first_operand=place == 0)
    if isinstance(number, Affine):
        offsets, stride = number.offsets, number.stride
        away = [offsets[lane // width] + stride * (lane % width) for lane in lanes]
        base = values.read(test.sources[which], scalar, Form.BASE, 0)
    else:
        assert isinstance(number, Vector)
        assert number.linear is not None
        away = [number.linear.own[lane] for lane in lanes]
        base = linear_text.of_lane(values, number.linear, 0)
    lowest, highest = min(away), max(away)
    if highest - lowest >> bits:
        return _by_lanes(values, node, coming, is_first_operand=place == 0)
    bound = values.read(test.sources[1 - which], scalar, Form.BASE, 0)

    def offset_base(distance: int) -> str:
        if not distance:
            return base
        return text.let(f"add {scalar} {base}, {constant(to_signed(distance, bits), scalar)}")

    first = offset_base(lowest)
    if relation is Compare.NE:
        distance = text.let(f"sub {scalar} {bound}, {first}")
        return text.let(f"icmp ule {scalar} {distance}, {constant(highest - lowest, scalar)}")
    sign = "s" if test.instruction.type.is_signed else "u"
    last = offset_base(highest)
    wraps = text.let(f"icmp {sign}lt {scalar} {last}, {first}")
    beyond, end = {
        Compare.LT: ("ge", last),
        Compare.LE: ("gt", last),
        Compare.GT: ("le", first),
        Compare.GE: ("lt", first),
    }[relation]
    outside = text.let(f"icmp {sign}{beyond} {scalar} {end}, {bound}")
    return text.let(f"or i1 {wraps}, {outside}")


def _by_lanes(values: Values, node: Operation, coming: int, *, is_first_operand: bool) -> str:
    """Emit a test of the select's condition lane by lane.

    It is needed if the comparison's operands are not available, or if the first and last lane do
    not decide the outcome.
    """
    text = values.text
    type_, width = text.type_of("i1", vector=True), text.width
    joined_flags = ""
    for part in range(values.vectors):
        flags = values.read(node.sources[2], "i1", Form.VECTOR, part)
        if is_first_operand:
            flags = values.invert(flags, vector=True)
        lanes = text.lanes("i1", (coming >> part * width + lane & 1 for lane in range(width)))
        flags = text.let(f"and {type_} {flags}, {lanes}")
        joined_flags = text.let(f"or {type_} {joined_flags}, {flags}") if joined_flags else flags
    return text.call("i1", f"llvm.vector.reduce.or.v{width}i1", (type_, joined_flags))
