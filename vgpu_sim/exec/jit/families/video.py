"""Packed integers: the words of a vector of lanes, reinterpreted as one vector of their
elements.
"""

from typing import Final

from vgpu_sim.exec.errors import CodeGenerationError
from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.text.writer import Text, integer
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.isa import Compare, DataType, Instruction, Op

_RELATION = {
    Compare.EQ: "eq",
    Compare.NE: "ne",
    Compare.LT: "lt",
    Compare.LE: "le",
    Compare.GT: "gt",
    Compare.GE: "ge",
}


class _Elements:
    """Writer of operations on all elements of ``words`` 32-bit words."""

    def __init__(self, text: Text, element: DataType, words: int) -> None:
        self.text = text
        self.signed = element.is_signed
        self.sign = "s" if element.is_signed else "u"
        self.bits = element.bits
        self.count = words * 32 // element.bits
        self.type = f"<{self.count} x {integer(element.bits)}>"

    def const(self, value: int) -> str:
        return f"splat ({integer(self.bits)} {value})"

    def op(self, name: str, a: str, b: str) -> str:
        return self.text.let(f"{name} {self.type} {a}, {b}")

    def call(self, stem: str, a: str, b: str) -> str:
        suffix = self.text.mangle(integer(self.bits), self.count)
        return self.text.call(self.type, f"llvm.{stem}.{suffix}", (self.type, a), (self.type, b))

    def average(self, a: str, b: str) -> str:
        """Return the mean; the sum has one more bit, so the elements are extended to twice their
        width.
        """
        wide = f"<{self.count} x i{2 * self.bits}>"
        extension = "sext" if self.signed else "zext"
        x, y = (self.text.let(f"{extension} {self.type} {v} to {wide}") for v in (a, b))
        total = self.text.let(f"add {wide} {x}, {y}")
        up = self.text.let(f"add {wide} {total}, splat (i{2 * self.bits} 1)")
        if self.signed:  # no increment for a negative sum
            negative = f"ashr {wide} {total}, splat (i{2 * self.bits} {2 * self.bits - 1})"
            up = self.text.let(f"add {wide} {up}, {self.text.let(negative)}")
        shift = "ashr" if self.signed else "lshr"
        half = self.text.let(f"{shift} {wide} {up}, splat (i{2 * self.bits} 1)")
        return self.text.let(f"trunc {wide} {half} to {self.type}")

    def compare(self, how: Compare | None, a: str, b: str) -> str:
        """Return 1 or 0 for each pair of elements."""
        if how is None:
            raise CodeGenerationError("PSET has no comparison")
        relation = _RELATION[how]
        if relation not in ("eq", "ne"):
            relation = self.sign + relation
        flags = self.text.let(f"icmp {relation} {self.type} {a}, {b}")
        numbers = f"{self.type} splat (i{self.bits} 1), {self.type} zeroinitializer"
        # A select, for the reason given in ``Text.flags_to_integers``.
        return self.text.let(f"select <{self.count} x i1> {flags}, {numbers}")


def _result(elements: _Elements, instruction: Instruction, args: list[str]) -> str:
    zero, sign = elements.const(0), elements.sign
    match instruction.op:
        case Op.PADD | Op.PSUB:
            name = "add" if instruction.op is Op.PADD else "sub"
            if instruction.saturate:
                return elements.call(f"{sign}{name}.sat", *args)
            return elements.op(name, *args)
        case Op.PMIN | Op.PMAX:
            return elements.call(sign + ("min" if instruction.op is Op.PMIN else "max"), *args)
        case Op.PABS:
            return elements.call("smax", args[0], elements.op("sub", zero, args[0]))
        case Op.PNEG:
            return elements.op("sub", zero, args[0])
        case Op.PABSDIFF:
            greater = elements.call(f"{sign}max", *args)
            return elements.op("sub", greater, elements.call(f"{sign}min", *args))
        case Op.PAVG:
            return elements.average(*args)
        case _:
            return elements.compare(instruction.compare, *args)


def _lower(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    text, element = emitter.text, node.instruction.source_type
    if element is None:
        raise CodeGenerationError(f"{node.instruction.op.name} has no element type")

    def compute(form: Form, part: int) -> tuple[str, str]:
        vector = form is Form.VECTOR
        words = text.type_of("i32", vector)
        elements = _Elements(text, element, text.width if vector else 1)
        args = [
            text.let(f"bitcast {words} {value} to {elements.type}")
            for value in emitter.patterns(node, form, part)
        ]
        result = _result(elements, node.instruction, args)
        return text.let(f"bitcast {elements.type} {result} to {words}"), "i32"

    emitter.define(node, compute)


LOWERING: Final[dict[Op, Lowering]] = dict.fromkeys(
    (
        Op.PADD,
        Op.PSUB,
        Op.PMIN,
        Op.PMAX,
        Op.PABS,
        Op.PNEG,
        Op.PABSDIFF,
        Op.PAVG,
        Op.PSET,
    ),
    _lower,
)
