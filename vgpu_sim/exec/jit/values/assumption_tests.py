"""The tests of assumptions, as LLVM text: each is true where some lane may not be as assumed.

What a test is made of has to be at hand where it is written. Each compares ends of what lanes reach
with a bound, so that it costs a few scalar instructions; lanes are compared one by one only where
that shows nothing.
"""

from collections.abc import Iterator

from vgpu_sim.exec.jit.analysis import choices
from vgpu_sim.exec.jit.analysis.assumptions import Chosen, Extended, OfGroup, Summed
from vgpu_sim.exec.jit.ir.ssa import Operation, Source, Value
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Vector, signed
from vgpu_sim.exec.jit.text.writer import Text, constant, integer
from vgpu_sim.exec.jit.values import linear_text
from vgpu_sim.exec.jit.values.environment import Form, Values
from vgpu_sim.isa import Compare, DataType


def of_group(values: Values, node: Operation, assumed: OfGroup, coming: int) -> Iterator[str]:
    """Yield the tests of what is assumed of a group's lanes at ``node``, to which those that are
    ``coming`` come."""
    match assumed:
        case Extended():
            yield from _extended(values, node, assumed)
        case Summed(wide, is_signed):
            # Where what it is made of is not at hand, it is not behind that either: see ``wraps``.
            lanes = [lane for lane in range(len(wide.own)) if coming >> lane & 1]
            if lanes and linear_text.readable(values, wide):
                yield linear_text.wrapped(values, wide, lanes, is_signed=is_signed)
        case Chosen(place):
            yield _other_operand(values, node, place, coming)


def any_of(text: Text, tests: list[str]) -> str:
    """Return whether a test holds."""
    found = tests[0]
    for test in tests[1:]:
        found = text.let(f"or i1 {found}, {test}")
    return found


def wrapped(values: Values, source: Source, kind: DataType, further: int, strip: int) -> str:
    """Return whether some lane's number of 32 bits wraps around, or would ``further`` on."""
    text, narrow = values.text, integer(kind.bits)
    shape = values.shape(source, kind.bits)
    if not isinstance(shape, Vector):
        reach = shape.stride * (text.width - 1)
        number = values.read(source, narrow, Form.SCALAR, strip)
        return _leaves(text, number, min(reach, 0), max(reach, 0) + further, kind)
    numbers = values.read(source, narrow, Form.VECTOR, strip)
    relation, last = _last(kind, further)
    type_, flags = text.type_of(narrow, vector=True), text.type_of("i1", vector=True)
    beyond = text.let(f"icmp {relation} {type_} {numbers}, splat ({narrow} {last})")
    packed = text.let(f"bitcast {flags} {beyond} to {integer(text.width)}")
    return text.let(f"icmp ne {integer(text.width)} {packed}, 0")


def _extended(values: Values, node: Operation, assumed: Extended) -> Iterator[str]:
    """Yield the tests of strips. A vector result needs none: each lane is extended by itself."""
    result = node.results[0]
    form = None if result is None else values.form_of(result)
    if form is None or form is Form.VECTOR:
        return
    source, kind = assumed.source, assumed.kind
    shape, algebra = values.shape(source, kind.bits), values.analysis.algebra
    if isinstance(shape, Vector) or not algebra.may_wrap(shape):
        return
    for strip in range(1 if form is Form.BASE else values.strips):
        number = values.read(source, integer(kind.bits), form, strip, clean=True)
        yield _leaves(values.text, number, *algebra.extent(shape), kind)


def _leaves(text: Text, number: str, least: int, most: int, kind: DataType) -> str:
    """Return whether what lies from ``least`` to ``most`` behind a number leaves its type."""
    narrow = integer(kind.bits)
    if most - least >= 1 << kind.bits:
        return "true"
    if least:
        number = text.let(f"add {narrow} {number}, {constant(least, narrow)}")
    relation, last = _last(kind, most - least)
    return text.let(f"icmp {relation} {narrow} {number}, {last}")


def _last(kind: DataType, span: int) -> tuple[str, str]:
    """Return how a number is compared with the last one that ``span`` may be added to."""
    most = (1 << (kind.bits - 1)) - 1 if kind.is_signed else (1 << kind.bits) - 1
    return "sgt" if kind.is_signed else "ugt", constant(most - span, integer(kind.bits))


def _other_operand(values: Values, node: Operation, place: int, coming: int) -> str:
    """Return whether some lane of those that are ``coming`` may not take operand ``place``.

    Its numbers are the group's base and known distances. Where these span less than all numbers
    there are, they do not wrap around if the last one is not below the first; then these two say
    where all are.
    """
    text, analysis = values.text, values.analysis
    found = choices.comparison(analysis.ssa, node)
    assert found is not None
    test, inverse = found
    compare, bits = test.instruction.compare, test.instruction.type.bits
    assert compare is not None
    a, b = (values.shape(source, bits) for source in test.sources[:2])
    related = choices.relation(compare, (a, b), holds=(place == 0) != inverse)
    assert related is not None
    which, wanted = related
    number, scalar, width = (a, b)[which], integer(bits), text.width
    lanes = [lane for lane in range(width * values.strips) if coming >> lane & 1]
    if not lanes:
        return "false"
    needed = [source for source in test.sources[:2] if isinstance(source, Value)]
    if isinstance(number, Vector) and number.linear is not None:
        needed = [s for s in needed if s is not test.sources[which]]
        needed += number.linear.values_shared()
    if not linear_text.at_hand(values, needed):
        return _by_lanes(values, node, coming, taken=place == 0)
    if isinstance(number, Affine):
        offsets, stride = number.offsets, number.stride
        away = [offsets[lane // width] + stride * (lane % width) for lane in lanes]
        base = values.read(test.sources[which], scalar, Form.BASE, 0)
    else:
        assert isinstance(number, Vector)
        assert number.linear is not None
        away = [number.linear.own[lane] for lane in lanes]
        base = linear_text.of_lane(values, number.linear, 0)
    least, most = min(away), max(away)
    if most - least >> bits:
        return _by_lanes(values, node, coming, taken=place == 0)
    bound = values.read(test.sources[1 - which], scalar, Form.BASE, 0)

    def moved(distance: int) -> str:
        if not distance:
            return base
        return text.let(f"add {scalar} {base}, {constant(signed(distance, bits), scalar)}")

    first = moved(least)
    if wanted is Compare.NE:
        distance = text.let(f"sub {scalar} {bound}, {first}")
        return text.let(f"icmp ule {scalar} {distance}, {constant(most - least, scalar)}")
    sign = "s" if test.instruction.type.is_signed else "u"
    last = moved(most)
    wraps = text.let(f"icmp {sign}lt {scalar} {last}, {first}")
    beyond, end = {
        Compare.LT: ("ge", last),
        Compare.LE: ("gt", last),
        Compare.GT: ("le", first),
        Compare.GE: ("lt", first),
    }[wanted]
    outside = text.let(f"icmp {sign}{beyond} {scalar} {end}, {bound}")
    return text.let(f"or i1 {wraps}, {outside}")


def _by_lanes(values: Values, node: Operation, coming: int, *, taken: bool) -> str:
    """Return the same by what each lane chooses: what the comparison is made of is not at hand, or
    its first and last number do not tell."""
    text = values.text
    type_, width = text.type_of("i1", vector=True), text.width
    others = ""
    for strip in range(values.strips):
        flags = values.read(node.sources[2], "i1", Form.VECTOR, strip)
        if taken:
            flags = values.invert(flags, vector=True)
        lanes = text.lanes("i1", (coming >> strip * width + lane & 1 for lane in range(width)))
        flags = text.let(f"and {type_} {flags}, {lanes}")
        others = text.let(f"or {type_} {others}, {flags}") if others else flags
    return text.call("i1", f"llvm.vector.reduce.or.v{width}i1", (type_, others))
