"""The test of what the fast version presumes: a group's numbers lie on one side of a bound."""

from vgpu_sim.exec.jit.analysis import presumed
from vgpu_sim.exec.jit.ir.ssa import Operation, Value
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Vector, signed
from vgpu_sim.exec.jit.text.writer import constant, integer
from vgpu_sim.exec.jit.values import linear_text
from vgpu_sim.exec.jit.values.environment import Form, Values
from vgpu_sim.isa import Compare


def reached(values: Values, node: Operation, place: int, coming: int) -> str:
    """Return whether some lane of those that are ``coming`` may not take operand ``place``.

    Its numbers are the group's base and known distances. Where these span less than all numbers
    there are, they do not wrap around if the last one is not below the first; then these two say
    where all are.
    """
    text, analysis = values.text, values.analysis
    found = presumed.comparison(analysis.ssa, node)
    assert found is not None
    test, inverse = found
    compare, bits = test.instruction.compare, test.instruction.type.bits
    assert compare is not None
    a, b = (values.shape(source, bits) for source in test.sources[:2])
    related = presumed.relation(compare, (a, b), holds=(place == 0) != inverse)
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
        return _asked(values, node, coming, taken=place == 0)
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
        return _asked(values, node, coming, taken=place == 0)
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


def _asked(values: Values, node: Operation, coming: int, *, taken: bool) -> str:
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
