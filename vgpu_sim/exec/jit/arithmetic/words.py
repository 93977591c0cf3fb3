"""Integer operations of one width, on scalars or on the lanes of a vector, as LLVM text."""

from vgpu_sim.exec.jit.text.writer import Text, integer


class Words:
    """Writes operations on integers of ``bits`` bits. The operands are scalars or, if ``vector``,
    vectors of lanes.
    """

    def __init__(self, text: Text, bits: int, vector: bool) -> None:
        self.text = text
        self.bits = bits
        self.vector = vector
        self.scalar = integer(bits)
        self.type = text.type_of(self.scalar, vector)

    def const(self, pattern: int) -> str:
        """Return a constant of this width; in a vector, it is equal in all lanes."""
        return self.text.const(pattern, self.scalar, self.vector)

    def op(self, name: str, a: str, b: str) -> str:
        """Emit the binary operation ``name`` on ``a`` and ``b``."""
        return self.text.let(f"{name} {self.type} {a}, {b}")

    def inverse(self, a: str) -> str:
        """Return ``a`` with all bits inverted."""
        return self.op("xor", a, self.const(-1))

    def test(self, relation: str, a: str, b: str) -> str:
        """Return whether ``a relation b`` (a predicate of ``icmp``), as i1."""
        return self.text.let(f"icmp {relation} {self.type} {a}, {b}")

    def select(self, flag: str, yes: str, no: str) -> str:
        """Emit a select, ``flag ? yes : no``."""
        return self.text.select(flag, yes, no, self.scalar, self.vector)

    def call(self, stem: str, *values: str) -> str:
        """Emit a call of the intrinsic ``llvm.<stem>`` for this width."""
        return self.text.intrinsic(stem, self.scalar, self.vector, *values)

    def leading_zeros(self, a: str) -> str:
        """Return the number of leading zeros of ``a``; for 0 it is the width."""
        suffix = self.text.mangle(self.scalar, self.text.width if self.vector else 0)
        return self.text.call(self.type, f"llvm.ctlz.{suffix}", (self.type, a), ("i1", "false"))

    def resize(self, a: str, source_bits: int, *, signed: bool = False) -> str:
        """Truncate or extend ``a``, an integer of ``source_bits``, to this width."""
        if source_bits == self.bits:
            return a
        if source_bits == 1 and self.vector and not signed:
            return self.text.flags_to_integers(a, self.scalar)
        source_type = self.text.type_of(integer(source_bits), self.vector)
        extension = "sext" if signed else "zext"
        operation = "trunc" if source_bits > self.bits else extension
        return self.text.let(f"{operation} {source_type} {a} to {self.type}")

    def clamp_count(self, count: str) -> str:
        """Return the smaller of ``count`` and ``bits - 1``, the largest shift count that LLVM
        defines.
        """
        return self.call("umin", count, self.const(self.bits - 1))

    def shift(self, operation: str, a: str, count: str) -> str:
        """Emit ``shl`` or ``lshr`` by any count; the result is 0 for counts of the width or
        more.
        """
        moved = self.op(operation, a, self.clamp_count(count))
        over = self.test("ugt", count, self.const(self.bits - 1))
        return self.select(over, self.const(0), moved)

    def extend_field(self, a: str, count: str, *, signed: bool) -> str:
        """Sign- or zero-extend the low ``count`` bits of ``a``."""
        field_width = self.call("umin", count, self.const(self.bits))
        shift_count = self.op(
            "and", self.op("sub", self.const(0), field_width), self.const(self.bits - 1)
        )
        top = self.op("shl", a, shift_count)
        value = self.op("ashr" if signed else "lshr", top, shift_count)
        return self.select(self.test("eq", count, self.const(0)), self.const(0), value)

    def extract_element(self, a: str, bits: int, place: int, *, signed: bool) -> str:
        """Extract the element at position ``place`` from ``a``, a word that packs elements of
        ``bits`` bits.
        """
        above = self.bits - bits * (place + 1)
        top = self.op("shl", a, self.const(above)) if above else a
        return self.op("ashr" if signed else "lshr", top, self.const(self.bits - bits))
