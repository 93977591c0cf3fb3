"""Transfer functions of the value analysis: the element of a result from those of the operands."""

from collections.abc import Callable, Sequence

from vgpu_sim.exec.jit import fold
from vgpu_sim.exec.jit.elements import Affine, Algebra, Element, PerChunk, Vector, signed
from vgpu_sim.exec.jit.geometry import Geometry
from vgpu_sim.exec.jit.ssa import Merge, Operation, Source
from vgpu_sim.isa import BoolOp, Instruction, MulMode, Op, Space, SpecialRegister

Lookup = Callable[[Source, int, int], Element | None]


def operand_widths(instruction: Instruction) -> tuple[int, ...]:
    """How many bits of each source an instruction reads."""
    bits = instruction.type.bits
    match instruction.op:
        case Op.CVT:
            assert instruction.source_type is not None
            return (instruction.source_type.bits,)
        case Op.MUL | Op.MAD:
            last = fold.result_type(instruction).bits
            return (bits, bits, last)[: len(instruction.srcs)]
        case Op.SHL | Op.SHR:
            return (bits, 32)
        case Op.SELP:
            return (bits, bits, 1)
        case Op.SETP:
            return (bits, bits, 1)[: len(instruction.srcs)]
        case Op.LD | Op.ST:
            return (64, *[bits] * (len(instruction.srcs) - 1))[: len(instruction.srcs)]
        case _:
            return (bits,) * len(instruction.srcs)


class Transfer:
    """Elements of results. ``checked`` collects widenings that need a test at run time."""

    def __init__(
        self,
        algebra: Algebra,
        geometry: Geometry,
        lookup: Lookup,
        may_restart: Callable[[Operation], bool],
    ) -> None:
        self._algebra = algebra
        self._lookup = lookup
        self._may_restart = may_restart
        self.checked: set[Operation] = set()
        self._special = self._special_elements(geometry)

    def merge(self, node: Merge, block: int) -> Element | None:
        """The element of ``condition ? new : old``."""
        bits = node.result.bits
        condition = self._lookup(node.condition.value, block, 1)
        new = self._lookup(node.new, block, bits)
        old = self._lookup(node.old, block, bits)
        if condition is None or new is None or old is None:
            return None
        return self._choose(condition, new, old)

    def operation(self, node: Operation, block: int) -> Sequence[Element | None]:
        """The elements of all results; None while an operand is undecided."""
        instruction = node.instruction
        widths = operand_widths(instruction)
        elements = [
            self._lookup(source, block, bits)
            for source, bits in zip(node.sources, widths, strict=True)
        ]
        if any(element is None for element in elements):
            return [None] * len(node.results)
        known = [element for element in elements if element is not None]
        if instruction.op is Op.SETP:
            return self._compare(node, known, widths)
        if instruction.op is Op.LD:
            uniform = self._algebra.uniform()
            loaded = uniform if instruction.space is Space.PARAM else self._algebra.generic(known)
            return [
                None if result is None else self._fill(loaded, node, result.bits)
                for result in node.results
            ]
        if not node.results or node.results[0] is None:
            return [None] * len(node.results)
        register_bits = node.results[0].bits
        return [self._single(node, known, widths, register_bits)]

    def widen(self, element: Element, source: int, target: int, *, signed: bool) -> Element:
        """Sign- or zero-extend where that is exact at compile time; a vector elsewhere."""
        return self._widen(element, source, target, signed)[0]

    def _single(
        self, node: Operation, elements: list[Element], widths: Sequence[int], bits: int
    ) -> Element:
        instruction = node.instruction
        if instruction.op is Op.S2R:
            assert instruction.sreg is not None
            special = self._special.get(instruction.sreg, self._algebra.uniform())
            return self._fill(special, node, bits)
        type_ = fold.result_type(instruction)
        function = fold.integer_function(instruction)
        if instruction.op is Op.SELP:
            function = _select
        if function is not None:
            rows = self._algebra.evaluate(function, elements, widths)
            if rows is not None:
                extended = tuple(
                    tuple(fold.extend(value, type_, bits) for value in row) for row in rows
                )
                return self._algebra.from_lanes(extended, bits)
        if instruction.op is Op.CVT:
            return self._convert(node, elements[0], bits)
        if type_ is not instruction.type:
            return self._fill(self._wide_product(node, elements), node, bits)
        return self._fill(self._same_width(instruction, elements), node, bits)

    def _same_width(self, instruction: Instruction, elements: list[Element]) -> Element:
        algebra, bits = self._algebra, instruction.type.bits
        result: Element | None = None
        if instruction.op is Op.SELP:
            return self._choose(elements[2], elements[0], elements[1])
        if not instruction.type.is_integer:
            return elements[0] if instruction.op is Op.MOV else algebra.generic(elements)
        match instruction.op:
            case Op.MOV:
                result = elements[0]
            case Op.ADD | Op.SUB:
                sign = 1 if instruction.op is Op.ADD else -1
                result = algebra.add(elements[0], elements[1], sign, bits)
            case Op.MUL if instruction.mode is not MulMode.HI:
                result = algebra.multiply(elements[0], elements[1], bits)
            case Op.MAD if instruction.mode is not MulMode.HI:
                product = algebra.multiply(elements[0], elements[1], bits)
                result = algebra.add(product, elements[2], 1, bits)
            case Op.SHL:
                result = self._shift_left(elements, bits)
            case Op.SHR | Op.AND:
                result = self._cut(instruction, elements)
            case Op.OR:
                result = self.disjoint_or(elements, bits)
            case _:
                pass
        return result if result is not None else algebra.generic(elements)

    def _shift_left(self, elements: list[Element], bits: int) -> Element | None:
        count = _scalar(elements[1])
        if count is None:
            return None
        if count >= bits:
            return self._algebra.constant(0, bits)
        return self._algebra.scale(elements[0], 1 << count, bits)

    def _cut(self, instruction: Instruction, elements: list[Element]) -> Element | None:
        """``x >> k`` and ``x & (2^k - 1)`` where the base's low k bits are zeros."""
        a, operand = elements[0], _scalar(elements[1])
        if not isinstance(a, Affine) or operand is None:
            return None
        bits = instruction.type.bits
        shift = instruction.op is Op.SHR
        if not shift and operand & (operand + 1):
            if a.uniform:  # clearing low bits leaves an aligned scalar
                return self._algebra.uniform(align=operand & -operand)
            return None
        size = 1 << operand if shift and operand < bits else operand + 1
        low, high = self._algebra.extent(a)
        if a.align < size or (shift and (low < 0 or high >= a.align)):
            return None
        lanes = range(self._algebra.width)
        uncut = [[offset + a.stride * lane for lane in lanes] for offset in a.offsets]
        rows = tuple(tuple(v >> operand if shift else v & operand for v in row) for row in uncut)
        result = self._algebra.from_lanes(rows, bits)
        if not shift:  # nothing of the base is left
            return result
        if not isinstance(result, Affine):
            return None  # the base, shifted, is still to be added
        assert result.constant is not None
        offsets = [offset + result.constant for offset in result.offsets]
        return self._algebra.affine(offsets, result.stride, None, a.align // size, bits)

    def disjoint_or(self, elements: list[Element], bits: int) -> Element | None:
        """``x | y`` is ``x + y`` where y's lanes are known and fit below x's alignment."""
        for x, y in (elements, elements[::-1]):
            rows = self._algebra.lanes(y, bits)
            if (
                isinstance(x, Affine)
                and x.uniform
                and rows is not None
                and all(value < x.align for row in rows for value in row)
                and not isinstance(y, Vector)
            ):
                return self._algebra.add(x, y, 1, bits)
        return None

    def _wide_product(self, node: Operation, elements: list[Element]) -> Element:
        instruction = node.instruction
        is_signed, bits = instruction.type.is_signed, instruction.type.bits
        a, b = elements[:2]
        if _scalar(a) is not None:
            a, b = b, a
        factor = _scalar(b)
        if factor is None:
            product = self._algebra.generic([a, b])
        else:
            wide = self._checked_widening(node, a, bits, 2 * bits, is_signed)
            factor = signed(factor, bits) if is_signed else factor
            product = self._algebra.scale(wide, factor, 2 * bits)
        if instruction.op is Op.MAD:
            product = self._algebra.add(product, elements[2], 1, 2 * bits)
        return product

    def _convert(self, node: Operation, element: Element, register_bits: int) -> Element:
        instruction = node.instruction
        target, source = instruction.type, instruction.source_type
        assert source is not None
        if not (target.is_integer and source.is_integer) or instruction.saturate:
            return self._fill(self._algebra.generic([element]), node, register_bits)
        if target.bits <= source.bits:
            return self._fill(self._algebra.truncate(element, target.bits), node, register_bits)
        wide = self._checked_widening(node, element, source.bits, target.bits, source.is_signed)
        return self._fill(wide, node, register_bits)

    def _checked_widening(
        self, node: Operation, element: Element, source: int, target: int, is_signed: bool
    ) -> Element:
        wide, needs_check = self._widen(
            element, source, target, is_signed, may_check=self._may_restart(node)
        )
        (self.checked.add if needs_check else self.checked.discard)(node)
        return wide

    def _widen(
        self,
        element: Element,
        source: int,
        target: int,
        is_signed: bool,
        *,
        may_check: bool = False,
    ) -> tuple[Element, bool]:
        algebra = self._algebra
        rows = algebra.lanes(element, source)
        if rows is not None:
            wide = tuple(
                tuple(signed(value, source) if is_signed else value for value in row)
                for row in rows
            )
            return algebra.from_lanes(wide, target), False
        if isinstance(element, Vector):
            return element, False
        if isinstance(element, Affine):
            if element.uniform or algebra.fits(element):
                return element, False
            if element.stride == 0:
                return PerChunk(0), False
            return (element, True) if may_check else (Vector(), False)
        if element.stride == 0:
            return element, False
        return (element, True) if may_check else (Vector(), False)

    def _fill(self, element: Element, node: Operation, register_bits: int) -> Element:
        """A result of the instruction's type in a register of another width."""
        type_ = fold.result_type(node.instruction)
        if type_.bits > register_bits:
            return self._algebra.truncate(element, register_bits)
        if type_.bits < register_bits:
            return self.widen(element, type_.bits, register_bits, signed=type_.is_signed)
        return element

    def _choose(self, condition: Element, new: Element, old: Element) -> Element:
        if isinstance(condition, Affine) and condition.uniform:
            return self._algebra.join(new, old)
        if isinstance(condition, Vector) or condition.stride:
            return Vector()
        if isinstance(new, Vector) or isinstance(old, Vector) or new.stride != old.stride:
            return Vector()
        return PerChunk(new.stride)

    def _compare(
        self, node: Operation, elements: list[Element], widths: Sequence[int]
    ) -> list[Element | None]:
        generic = self._algebra.generic(elements)
        results: list[Element | None] = [generic] * len(node.results)
        function = fold.integer_function(node.instruction)
        if function is None or node.instruction.combine is not BoolOp.NONE:
            return results
        rows = self._algebra.evaluate(function, elements, widths)
        if rows is None:
            return results
        inverse = tuple(tuple(1 - value for value in row) for row in rows)
        both = [self._algebra.from_lanes(lanes, 1) for lanes in (rows, inverse)]
        return list(both[: len(node.results)])

    def _special_elements(self, geometry: Geometry) -> dict[SpecialRegister, Element]:
        algebra = self._algebra
        elements: dict[SpecialRegister, Element] = {}
        for place, axis in enumerate(geometry.axes()):
            elements[SpecialRegister(place)] = algebra.from_axis(axis.rows, axis.align)
            size = algebra.constant(geometry.block[place], 32)
            elements[SpecialRegister(SpecialRegister.NTID_X + place)] = size
        elements[SpecialRegister.WARPSIZE] = algebra.constant(32, 32)
        lanes = range(geometry.width)
        lane_ids = tuple(
            tuple((chunk * geometry.width + lane) % 32 for lane in lanes)
            for chunk in range(geometry.chunks)
        )
        if geometry.groups == 1 or geometry.span % 32 == 0:
            elements[SpecialRegister.LANEID] = algebra.from_lanes(lane_ids, 32)
        elif 32 % geometry.span == 0:  # the group's first lane id is a multiple of its span
            elements[SpecialRegister.LANEID] = algebra.from_axis(lane_ids, geometry.span)
        else:
            elements[SpecialRegister.LANEID] = Vector()
        return elements


def _select(a: int, b: int, chooser: int) -> int:
    return a if chooser & 1 else b


def _scalar(element: Element) -> int | None:
    if isinstance(element, Affine) and element.uniform:
        return element.constant
    return None
