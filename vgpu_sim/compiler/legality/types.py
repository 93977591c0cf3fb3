"""Rules by which registers and constants match an instruction's type.

Source: PTX ISA, "Operand Type Checking". Untyped bits match every type of their size, and signed
match unsigned integers; a floating-point type matches only itself and untyped bits. Formats
without register types are stored in bits.
"""

import re
from functools import cache

from vgpu_sim.compiler.ptx import tree
from vgpu_sim.records import dataclass

_INTEGER = re.compile(r"[us]([0-9]+)")
_BITS = re.compile(r"b([0-9]+)")
_HELD_IN_BITS = {
    "bf16": 16,
    "bf16x2": 32,
    "tf32": 32,
    **dict.fromkeys(("u16x2", "s16x2", "u8x4", "s8x4"), 32),
    **dict.fromkeys(("f32x2",), 64),
    **dict.fromkeys(("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2", "ue5m3x2", "s2f6x2"), 16),
    **dict.fromkeys(("e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4"), 32),
    "e2m1x2": 8,
    "e2m1x4": 16,
}


@dataclass(frozen=True, slots=True)
class Type:
    """The properties of a type on which the matching rules depend.

    ``kind`` is "integer", "bits", "float", "packed" (halves), "pred" or "held". No register has a
    type of the kind "held": values of such a type are stored in registers of the kind "bits".
    """

    kind: str
    bits: int
    name: str

    def takes(self, register: "Type", *, wider: bool = False) -> bool:
        """Return whether an instruction of this type may read or write a register of type
        ``register``.

        With ``wider``, the register may be larger (PTX ISA, "Operand Size Exceeding
        Instruction-Type Size").
        """
        if "pred" in (self.kind, register.kind):
            return self.kind == register.kind
        fits = register.bits >= self.bits if wider else register.bits == self.bits
        if register.kind == "bits" or self.kind == "bits":
            return fits
        if self.kind == "integer":
            return register.kind == "integer" and fits
        return register.kind == self.kind and register.bits == self.bits and self.kind != "held"

    def takes_constant(self, constant: tree.Constant) -> bool:
        """True if a constant may be read as this type."""
        if isinstance(constant, tree.Integer):
            return self.kind in ("integer", "bits", "pred")
        if self.kind == "float":
            return self.bits > 16
        exact = constant.width or 64
        return self.kind == "bits" and self.bits == exact


@cache
def find_type(name: str) -> Type | None:
    """Return the type called ``name``, without its dot; None if there is no such type."""
    if name == "pred":
        return Type("pred", 1, name)
    if name in _HELD_IN_BITS:
        return Type("held", _HELD_IN_BITS[name], name)
    if name == "f16x2":
        return Type("packed", 32, name)
    if name in ("f16", "f32", "f64"):
        return Type("float", int(name[1:]), name)
    for kind, pattern in (("integer", _INTEGER), ("bits", _BITS)):
        match = pattern.fullmatch(name)
        if match is not None:
            return Type(kind, int(match[1]), name)
    return None


def widen(type_: Type) -> Type:
    """Return the integer type of twice the width."""
    return Type(type_.kind, 2 * type_.bits, f"{type_.name[0]}{2 * type_.bits}")
