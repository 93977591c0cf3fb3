"""Factors A of which half of the elements are stored, and the metadata that places them.

Of four units in a row, two are stored, and four bits of metadata have their places, two bits each.
A unit has 16 bits (a half of a TF32 number, both halves of which have places side by side) or 8
bits (one element, or two of four bits).

A lane's register has consecutive stored units of one row; they belong to twice as many units of the
whole matrix, of which lanes hold half as many each (``fragments``). A lane reads the register that
contains its units, and the metadata of its row, from other lanes of its quad.
"""

from collections.abc import Sequence as Many
from typing import Final

from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.compiler.lower.matrix.fragments import QUAD, Lanes
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Operand, Register
from vgpu_sim.records import dataclass

D = DataType
_ROW_HALVES: Final = 2
_HALF_BITS: Final = 16
_PLACE_BITS: Final = 2


@dataclass(frozen=True, slots=True)
class Metadata:
    """A register of metadata and the selector of the lanes of a quad that provide it.

    ``unit_bits`` is the size of a unit, and ``units`` their number in a whole row.
    """

    register: Operand
    selector: int
    unit_bits: int
    units: int

    @property
    def threads(self) -> int:
        """The number of lanes of a quad that provide metadata of the quad's two rows."""
        return _ROW_HALVES * self.units // 32

    def expand(self, builder: Builder, stored: Many[Operand]) -> list[Register]:
        """Return the registers of the whole factor whose stored units are in ``stored``.

        Both are ordered by depth, and then by the upper and the lower half of the rows.
        """
        lanes, sequence = Lanes(builder), Sequence(builder)
        place = lanes.index_in_quad()
        pair = sequence.emit(Op.SHR, D.U32, place, Literal(1))
        odd = sequence.emit(Op.AND, D.B32, place, Literal(1))
        registers = []
        for block in range(len(stored) // _ROW_HALVES):
            for half in range(2):
                source = lanes.plus(pair, 2 * half)
                for upper in range(_ROW_HALVES):
                    stored_register = stored[_ROW_HALVES * block + upper]
                    units = lanes.value_in_quad(stored_register, source, D.B32)
                    word = lanes.value_in_quad(self.register, self._thread(block, upper), D.B32)
                    if self.unit_bits == _HALF_BITS:
                        first = _HALF_BITS * upper + 2 * QUAD * half
                        places = self._from(sequence, word, first, lanes.times(pair, QUAD))
                        registers.append(self._halves(sequence, units, places, odd))
                    else:
                        first = QUAD * QUAD * half
                        places = self._from(sequence, word, first, lanes.times(place, QUAD))
                        registers.append(self._bytes(sequence, units, places, odd))
        return registers

    def _thread(self, block: int, upper: int) -> int:
        """Return the lane of a quad that holds the metadata of a register of stored units."""
        place = block if self.unit_bits == _HALF_BITS else _ROW_HALVES * block + upper
        return self.threads * self.selector + place

    def _from(
        self, sequence: Sequence, word: Operand, first: int, lane_offset: Register
    ) -> Register:
        """Return metadata from a bit on: its lowest four bits place two units."""
        amount: Operand = lane_offset
        if first:
            amount = sequence.emit(Op.ADD, D.U32, lane_offset, Literal(first))
        return sequence.emit(Op.SHR, D.U32, word, amount)

    def _halves(
        self, sequence: Sequence, units: Operand, places: Register, odd: Register
    ) -> Register:
        """Return the lower two of four units of 16 bits in an even lane, in an odd one the others.

        A unit that belongs to the other two is shifted out: by more than 31 bits.
        """
        base = sequence.emit(Op.SHL, D.B32, odd, Literal(5))
        low = sequence.emit(Op.AND, D.B32, units, Literal((1 << _HALF_BITS) - 1))
        high = sequence.emit(Op.SHR, D.U32, units, Literal(_HALF_BITS))
        parts = []
        for n, unit in enumerate((low, high)):
            place = self._place(sequence, places, n)
            amount = sequence.emit(Op.SUB, D.U32, place, base)
            parts.append(sequence.emit(Op.SHL, D.B32, unit, amount))
        return sequence.emit(Op.OR, D.B32, *parts)

    def _bytes(
        self, sequence: Sequence, units: Operand, places: Register, odd: Register
    ) -> Register:
        """Return four units of 8 bits, of which an even lane has the lower pair of ``units``."""
        first = sequence.emit(Op.SHL, D.B32, odd, Literal(4))
        parts = []
        for n in range(2):
            begin = first if n == 0 else sequence.emit(Op.ADD, D.U32, first, Literal(8))
            unit = sequence.emit(Op.BFE, D.U32, units, begin, Literal(8))
            parts.append(sequence.emit(Op.SHL, D.B32, unit, self._place(sequence, places, n)))
        return sequence.emit(Op.OR, D.B32, *parts)

    def _place(self, sequence: Sequence, places: Register, n: int) -> Register:
        """Return the ``n``-th place in bits."""
        index = sequence.extract_bits(places, D.U32, _PLACE_BITS * n, _PLACE_BITS)
        return sequence.emit(Op.SHL, D.B32, index, Literal(self.unit_bits.bit_length() - 1))


def metadata_of(
    register: Operand, selector: tree.Operand, element_bits: int, depth: int
) -> Metadata:
    """Return the metadata of a factor of ``depth`` elements in a row.

    Raises:
        Invalid: the selector is not a constant, or it is not allowed.
    """
    unit_bits = min(_HALF_BITS, max(8, element_bits))
    units = depth * element_bits // unit_bits
    if not isinstance(selector, tree.Integer):
        raise Invalid("the sparsity selector must be an integer constant")
    metadata = Metadata(register, selector.value, unit_bits, units)
    last = QUAD // metadata.threads - 1
    if selector.value > last:
        allowed = f"at most {last}" if last else "0"
        raise Invalid(f"the sparsity selector is {selector.value}, but it must be {allowed}")
    return metadata
