"""wmma: products of matrices whose fragments PTX does not define; here they are those of mma.

A factor of .f16 has eight registers, whatever its shape. If its elements fill fewer registers,
they are stored several times, so that the registers may be changed one by one.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from vgpu_sim.compiler.lower import one_word, values
from vgpu_sim.compiler.lower.addresses import base_and_displacement, space_of
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Lower, Match
from vgpu_sim.compiler.lower.matrix import fragments
from vgpu_sim.compiler.lower.matrix.fragments import EDGE, QUAD, Lanes, shape_of
from vgpu_sim.compiler.lower.matrix.mma import (
    BITS_NOTE,
    BYTES_NOTE,
    FLOAT_NOTE,
    NIBBLES_NOTE,
    TOTALS,
    WORD_NOTE,
)
from vgpu_sim.compiler.lower.matrix.products import Product
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.types import UNSIGNED, UNTYPED
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, MulMode, Op, Operand, Register, Space
from vgpu_sim.records import dataclass

D = DataType
_FACTOR_REGISTERS = 8  # registers of an .f16 factor
Place = tuple[Operand, int]  # an address and a displacement in bytes


@dataclass(frozen=True, slots=True)
class _Tile:
    """A matrix of wmma and its fragment.

    In layout ``straight``, elements that are adjacent in memory belong to one lane. There are
    ``each`` of them, in one register if they fit. ``groups`` are their offsets, across and along
    their direction, from the place that g and t determine. ``leading`` is the default distance of
    rows or columns, and ``registers`` the number of registers that PTX requires.
    """

    bits: int
    each: int
    groups: tuple[tuple[int, int], ...]
    straight: str
    leading: dict[str, int]
    registers: int

    @property
    def held(self) -> DataType:
        """Return the type of a register of the fragment."""
        return UNTYPED[max(32, self.bits)]

    @property
    def packed(self) -> bool:
        return self.bits < 32


def _factor(which: str, shape: str, type_: str) -> _Tile:
    size = shape_of(shape, type_)
    step = QUAD * size.each
    depths = range(0, size.depth, step)
    if which == "a":
        edge, straight, other_layout = size.rows, "row", "col"
        groups = tuple((row, k) for k in depths for row in range(0, edge, EDGE))
    else:
        edge, straight, other_layout = size.columns, "col", "row"
        groups = tuple((column, k) for column in range(0, edge, EDGE) for k in depths)
    leading = {straight: size.depth, other_layout: edge}
    registers = _FACTOR_REGISTERS if type_ == "f16" else len(groups)
    return _Tile(size.bits, size.each, groups, straight, leading, registers)


def _accumulator(shape: str, type_: str) -> _Tile:
    size = shape_of(shape, type_)
    rows, columns = range(0, size.rows, EDGE), range(0, size.columns, EDGE)
    groups = tuple((row, column) for column in columns for row in rows)
    leading = {"row": size.columns, "col": size.rows}
    registers = len(groups) * (1 if size.bits < 32 else 2)
    return _Tile(size.bits, 2, groups, "row", leading, registers)


class _Memory:
    """The memory addresses of a lane's elements of a tile."""

    def __init__(
        self, context: Context, match: Match, tile: _Tile, where: tuple[tree.Operand, ...]
    ) -> None:
        self._builder, self._tile = context.builder, tile
        self.sequence = sequence = Sequence(context.builder)
        stated_space = Space[(match.get("tile") or "generic").partition("::")[0].upper()]
        self._space = space_of(context, where[0], stated_space)
        self._type = UNSIGNED[32 if self._space is Space.SHARED else 64]
        layout = match.get("layout") or tile.straight
        self.straight = layout == tile.straight
        base, self._displacement = base_and_displacement(context, where[0], self._space)
        leading: Operand = Literal(tile.leading[layout])
        if len(where) > 1:
            leading = values.source(context, where[1], D.U32)
        self._pitch = self._bytes(sequence.convert(leading, D.U32, self._type))
        lanes = Lanes(context.builder)
        outer, inner = lanes.quad_index(), lanes.times(lanes.index_in_quad(), tile.each)
        if not self.straight:
            outer, inner = inner, outer
        inner = self._bytes(sequence.convert(inner, D.U32, self._type))
        outer = sequence.convert(outer, D.U32, self._type)
        self._start = self._beyond(sequence.emit(Op.ADD, self._type, base, inner), outer)

    def _bytes(self, count: Register) -> Register:
        """Return the size of ``count`` elements in bytes."""
        bits = self._tile.bits
        if bits < 8:
            return self.sequence.emit(
                Op.SHR, self._type, count, Literal((8 // bits).bit_length() - 1)
            )
        untyped = UNTYPED[self._type.bits]
        return self.sequence.emit(Op.SHL, untyped, count, Literal((bits // 8).bit_length() - 1))

    def _beyond(self, place: Operand, steps: Operand) -> Register:
        low = MulMode.LO
        return self.sequence.emit(Op.MAD, self._type, steps, self._pitch, place, mode=low)

    def places(self) -> Iterator[tuple[Place, ...]]:
        """Yield the places of each group's elements: only the first if they are adjacent, or
        all.
        """
        tile, lines = self._tile, {0: self._start}
        for across, along in tile.groups:
            element_places = []
            for next_ in range(1 if self.straight else tile.each):
                outer, inner = across, along + next_
                if not self.straight:
                    outer, inner = inner, outer
                if outer not in lines:
                    lines[outer] = self._beyond(self._start, Literal(outer))
                element_places.append((lines[outer], self._displacement + inner * tile.bits // 8))
            yield tuple(element_places)

    def load(self, type_: DataType, place: Place, *to: Register) -> None:
        """Load adjacent elements from ``place`` to the registers ``to``."""
        self._builder.emit(
            Op.LD,
            type=type_,
            dsts=to,
            srcs=place[:1],
            space=self._space,
            displacement=place[1],
            vector=len(to),
        )

    def store(self, type_: DataType, place: Place, *elements: Operand) -> None:
        """Store ``elements`` as adjacent elements at ``place``."""
        self._builder.emit(
            Op.ST,
            type=type_,
            srcs=(place[0], *elements),
            space=self._space,
            displacement=place[1],
            vector=len(elements),
        )


def _load(context: Context, form: Form, match: Match, *, tile: _Tile) -> None:
    """Lower ``wmma.load``."""
    data, *where = context.operands
    to = fragments.destinations(context, data, tile.registers, tile.held)
    memory = _Memory(context, match, tile, tuple(where))
    sequence, loaded = memory.sequence, list[Register]()
    for places in memory.places():
        count = 1 if tile.packed and memory.straight else tile.each
        parts = [context.builder.scratch_register(tile.held.bits) for _ in range(count)]
        if memory.straight:
            memory.load(tile.held, places[0], *parts)
        else:
            for part, place in zip(parts, places, strict=True):
                memory.load(UNSIGNED[tile.bits], place, part)
            if tile.packed:
                parts = [_join_parts(sequence, parts, tile.bits)]
        loaded += parts
    copies = loaded * (tile.registers // len(loaded))
    fragments.assign(sequence, to, copies, tile.held)


def _join_parts(sequence: Sequence, parts: list[Register], bits: int) -> Register:
    joined = parts[0]
    for place, part in enumerate(parts[1:], 1):
        raised = sequence.emit(Op.SHL, D.B32, part, Literal(place * bits))
        joined = sequence.emit(Op.OR, D.B32, joined, raised)
    return joined


def _store(context: Context, form: Form, match: Match, *, tile: _Tile) -> None:
    """Lower ``wmma.store``."""
    first, data, *stride_operands = context.operands
    sources = list(fragments.sources(context, data, tile.registers, tile.held))
    memory = _Memory(context, match, tile, (first, *stride_operands))
    each = 1 if tile.packed else tile.each
    for places in memory.places():
        parts, sources = sources[:each], sources[each:]
        if memory.straight:
            memory.store(tile.held, places[0], *parts)
            continue
        if tile.packed:
            upper = memory.sequence.emit(Op.SHR, D.U32, parts[0], Literal(tile.bits))
            parts = [parts[0], upper]
        for place, part in zip(places, parts, strict=True):
            memory.store(UNTYPED[tile.bits], place, part)


def _multiply(
    context: Context, form: Form, match: Match, *, shape: str, factor: str, types: tuple[str, str]
) -> None:
    """Lower ``wmma.mma d, a, b, c``; ``types`` are those of d and c."""
    left, right = _factor("a", shape, factor), _factor("b", shape, factor)
    result, addend = (_accumulator(shape, type_) for type_ in types)
    product = Product(
        shape_of(shape, factor),
        factor,
        factor,
        TOTALS[types[1]],
        TOTALS[types[0]],
        clamp="satfinite" in match,
        rounding=one_word.ROUNDINGS[match.get("rnd") or "rn"],
        logic=Op.XOR if "xor" in match else Op.AND,
    )
    d, a, b, c = context.operands
    x, y, z = (
        fragments.sources(context, operand, tile.registers, tile.held)
        for operand, tile in ((a, left), (b, right), (c, addend))
    )
    to = fragments.destinations(context, d, result.registers, result.held)
    results = product.multiply(context.builder, x, y, z)
    fragments.assign(Sequence(context.builder), to, results, result.held)


_HALF_SHAPES = ("m16n16k16", "m32n8k16", "m8n32k16")
_SHAPES: Final = {
    **dict.fromkeys(("f16", "bf16", "s8", "u8"), _HALF_SHAPES),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
    **dict.fromkeys(("s4", "u4"), ("m8n8k32",)),
    "b1": ("m8n8k128",),
}
_ACCUMULATED: Final = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}


def _accumulators() -> dict[tuple[str, str], None]:
    """Return the shapes and types of accumulators, in order."""
    return {
        (shape, total): None
        for factor, shapes in _SHAPES.items()
        for shape in shapes
        for total in _ACCUMULATED.get(factor, ("s32",))
    }


def _moves() -> Iterator[Form]:
    for which in ("a", "b"):
        for factor, shapes in _SHAPES.items():
            for shape in shapes:
                tile = _factor(which, shape, factor)
                layout = tile.straight if tile.bits < 8 else "layout"
                pattern = f"wmma.load.{which}.sync.aligned.{layout}.{shape}{{.tile}}.{factor}"
                yield from _both(pattern, "r, [p]", Op.LD, partial(_load, tile=tile))
    for shape, total in _accumulators():
        tile = _accumulator(shape, total)
        ending = f"sync.aligned.layout.{shape}{{.tile}}.{total}"
        yield from _both(f"wmma.load.c.{ending}", "r, [p]", Op.LD, partial(_load, tile=tile))
        yield from _both(f"wmma.store.d.{ending}", "[p], r", Op.ST, partial(_store, tile=tile))


def _both(pattern: str, operands: str, op: Op, lower: Lower) -> Iterator[Form]:
    """Yield a form without and with a stride."""
    for operand_list in (operands, f"{operands}, stride"):
        yield Form(pattern, operand_list, op, lower, isa="for each row or element of the fragment")


def _products() -> Iterator[Form]:
    head = "wmma.mma.sync.aligned.alayout.blayout"
    for factor, shapes in _SHAPES.items():
        for shape in shapes:
            totals = _ACCUMULATED.get(factor, ("s32",))
            if factor == "f16":
                for types in [(d, c) for d in totals for c in totals]:
                    pattern = f"{head}.{shape}.{'.'.join(types)}"
                    yield _product(pattern, Op.MMA, WORD_NOTE, shape, factor, types)
                continue
            total = totals[0]
            words = f"{total}.{factor}.{factor}.{total}"
            if factor == "b1":
                for logic in ("xor", "and"):
                    pattern = f"wmma.mma.{logic}.popc.sync.aligned.row.col.{shape}.{words}"
                    yield _product(pattern, Op.POPC, BITS_NOTE, shape, factor, (total, total))
                continue
            if total == "s32":
                nibbles = factor[1] == "4"
                layouts = "wmma.mma.sync.aligned.row.col" if nibbles else head
                pattern = f"{layouts}.{shape}.{words}{{.satfinite}}"
                op, note = (Op.DP4A, NIBBLES_NOTE) if nibbles else (Op.MMA, BYTES_NOTE)
            else:
                rounding = "{.rnd}" if factor == "f64" else ""
                pattern = f"{head}.{shape}{rounding}.{words}"
                op, note = (Op.FMA, FLOAT_NOTE) if factor == "f64" else (Op.MMA, WORD_NOTE)
            yield _product(pattern, op, note, shape, factor, (total, total))


def _product(
    pattern: str, op: Op, note: str, shape: str, factor: str, types: tuple[str, str]
) -> Form:
    lower = partial(_multiply, shape=shape, factor=factor, types=types)
    return Form(pattern, "d, a, b, c", op, lower, isa=note)


FORMS: Final = (*_moves(), *_products())
