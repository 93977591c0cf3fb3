"""Loads and stores: a scalar access, a vector access or a gather, by the address's shape.

``pointers`` computes and clamps addresses; ``local_memory`` handles local memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from vgpu_sim.exec.jit.analysis.assumptions import Family
from vgpu_sim.exec.jit.analysis.comparison_outcomes import ReachingLanes
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir.ssa import Operation, Value
from vgpu_sim.exec.jit.memory import adjacent_loads, rows
from vgpu_sim.exec.jit.memory.access import Access, Where
from vgpu_sim.exec.jit.memory.combined_sums import Table
from vgpu_sim.exec.jit.memory.joined_accesses import REACH_BYTES, Joined, JoinedAccesses
from vgpu_sim.exec.jit.memory.loads import Loads
from vgpu_sim.exec.jit.memory.local_memory import LocalMemory
from vgpu_sim.exec.jit.memory.pointers import Pointers
from vgpu_sim.exec.jit.memory.stores import Stores
from vgpu_sim.exec.jit.numbers.known_bits import WINDOW
from vgpu_sim.exec.jit.numbers.known_values import KnownValues
from vgpu_sim.exec.jit.numbers.local_reach import LocalReach, Reach
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Vector
from vgpu_sim.exec.jit.text.masks import FULL, Mask, MaskWriter
from vgpu_sim.exec.jit.text.writer import Text, integer
from vgpu_sim.exec.jit.values.environment import FLOATS, Form, Values
from vgpu_sim.exec.jit.values.launch import EntryArguments
from vgpu_sim.isa import Op, Space


class Memory:
    """Emits the accesses of one function version."""

    def __init__(
        self,
        text: Text,
        values: Values,
        masks: MaskWriter,
        launch: EntryArguments,
        known: KnownValues,
        local: LocalMemory,
        table: Table | None = None,
    ) -> None:
        self._text = text
        self._values = values
        self._masks = masks
        self._launch = launch
        self._known = known
        self.pointers = Pointers(text, values, launch)
        self._local = local
        self.table = table
        self._reach = LocalReach(values.analysis.ssa, known)
        self._analysis: Analysis = values.analysis
        self.reaching_lanes = ReachingLanes(values.analysis)
        self._stores = Stores(text, values, masks, self.pointers, self.reaching_lanes)
        self._loads = Loads(
            text, values, masks, self.pointers, known, self.reaching_lanes, self._stores.rows
        )
        self._joined = JoinedAccesses(text, values, self.pointers, self._describe)

    def load(self, node: Operation, mask: Mask, *, occupied: bool) -> None:
        """Emit a load; ``occupied`` states that the mask is known not to be empty."""
        instruction = node.instruction
        if instruction.space is Space.PARAM:
            self._load_parameters(node, mask)
            return
        if mask.full and (joined := self._joined.find_joined_set(node)) is not None:
            if joined.accesses[0].node is node:
                self._load_joined(joined)
            return
        access = self.access(node)
        self._fence(node)
        reach = self._reach.of(node)
        if self.table is not None and reach is not Reach.NAMED:
            self._settle(access, self.table)
        if reach is not Reach.NEVER:
            self._load_local(access, mask, reach)
        elif isinstance(access.shape, Vector) or access.shape.stride:
            columns = self._loads.load_lanes(access, mask)
            self._define(node, lambda place, _form, part: columns[part][place])
        else:
            self._load_scalars(access, mask, occupied)
        self._fence(node)

    def load_together(self, nodes: Sequence[Operation]) -> bool:
        """Emit adjacent loads as one load for all lanes.

        If the loads must stay separate, emit nothing and return False.
        """
        access = self.access(adjacent_loads.combined_load(nodes))
        alone = self.access(nodes[0])
        access = replace(alone, node=access.node, parts=len(nodes))
        if self.table is not None or alone.tested or self._reach.of(nodes[0]) is not Reach.NEVER:
            return False
        if access.where not in (Where.SHARED, Where.GLOBAL) or not rows.is_contiguous(access):
            return False
        if access.where is Where.GLOBAL and not self._confine(access):
            return False
        columns = self._loads.load_lanes(access, FULL)
        self._define(access.node, lambda place, _form, part: columns[part][place])
        return True

    def load_family(self, family: Family) -> Access | None:
        """Emit the loads of a family as one combined load, and return the combined access. If an
        index wraps around at run time, the emitted code executes the loads one by one.

        Return None if one combined load is impossible or would not be faster.
        """
        alone = [self.access(node) for node in family.loads]
        first = alone[0]
        if self.table is not None or first.tested or not isinstance(first.shape, Vector):
            return None
        if any(self._reach.of(node) is not Reach.NEVER for node in family.loads):
            return None
        node = adjacent_loads.combined_load(family.loads)
        access = replace(first, node=node, parts=len(family.loads))
        if access.where is not Where.GLOBAL or not self._confine(access):
            return None
        columns = self._loads.load_family(access, alone, family)
        if columns is None:
            return None
        self._define(node, lambda place, _form, part: columns[part][place])
        return access

    def _confine(self, access: Access) -> bool:
        source = self._known.trace(access.address)
        whole = access.count * access.element_bytes
        return source is None or source.is_confined(access.displacement, whole)

    def store(self, node: Operation, mask: Mask) -> None:
        """Emit a store."""
        if mask.full and (joined := self._joined.find_joined_set(node)) is not None:
            if joined.accesses[-1].node is node:
                self._joined.store(joined, self._stores.elements)
            return
        access = self.access(node)
        self._fence(node)
        reach = self._reach.of(node)
        if reach is not Reach.NEVER:
            self._store_local(access, mask, reach)
        else:
            self._stores.store(access, mask)
        self._fence(node)

    def _load_joined(self, joined: Joined) -> None:
        for access, columns in self._joined.load(joined):

            def produce(
                place: int, _form: Form, part: int, columns: list[list[str]] = columns
            ) -> str:
                return columns[part][place]

            self._define(access.node, produce)

    def _describe(self, node: Operation) -> Access | None:
        """Return an access if its rows may be moved, else None."""
        if self.table is not None or self._reach.of(node) is not Reach.NEVER:
            return None
        access = self.access(node)
        source = self._known.trace(access.address) if access.origin is not None else None
        further = abs(access.displacement) + 2 * REACH_BYTES
        return access if source is None or source.is_confined(further, access.size) else None

    def _settle(self, access: Access, table: Table) -> None:
        """Write delayed sums to memory that the access may read."""
        if access.where in (Where.SHARED, Where.WINDOW):
            return
        shape, vectors = access.shape, range(self._values.vectors)
        if isinstance(shape, Vector) or not (rows.is_contiguous(access) or not shape.stride):
            places = [self.pointers.of_lanes(access, part, 0) for part in vectors]
            table.write_sums_before((place, True, access.size) for place in places)
            return
        size = access.size * (self._text.width if shape.stride else 1)
        places = [self.pointers.of_vector(access, part) for part in vectors]
        table.write_sums_before((place, False, size) for place in dict.fromkeys(places))

    def access(self, node: Operation) -> Access:
        """Return the description of a load or store."""
        instruction = node.instruction
        bits = instruction.type.bits
        scalar = integer(bits)  # also for stores: see ``environment.storage_types``
        if instruction.op is Op.LD:
            scalar = FLOATS.get(instruction.type, scalar)
        address = node.sources[0]
        displacement, size = instruction.displacement, instruction.vector * bits // 8
        if instruction.space in (Space.SHARED, Space.LOCAL):
            grain = self._known.known_divisor(address)
            aligned = grain % size == 0 and displacement % size == 0
            shape = self._values.shape(address, 32)
            return Access(node, scalar, address, shape, None, None, aligned, Where.SHARED)
        shape = self._values.shape(address, 64)
        source = self._known.trace(address)
        generic = instruction.space is Space.GENERIC
        if source is None or source.origin == WINDOW:
            aligned = source is not None and source.is_aligned(displacement, size)
            where = Where.GLOBAL
            if generic and source is not None:
                where = Where.WINDOW
            elif generic and self._known.window_known:
                where = Where.EITHER
            return Access(node, scalar, address, shape, None, None, aligned, where)
        origin = source.origin if source.is_confined(displacement, size) else None
        is_aligned = size > 1 and source.is_aligned(displacement, size)
        aligned_as = source.origin if is_aligned else None
        return Access(node, scalar, address, shape, origin, aligned_as)

    def _fence(self, node: Operation) -> None:
        if node.instruction.volatile:
            self._text.do('fence syncscope("singlethread") seq_cst')

    def _load_local(self, access: Access, mask: Mask, reach: Reach) -> None:
        window = reach is not Reach.NAMED
        if reach is Reach.PERHAPS:
            inside = self._local.local_lanes(access)
            mine, outer_mask = self._masks.split(mask, inside)
            spread = replace(access, shape=Vector())
            columns = [
                [
                    self._text.select(flags, a, b, access.scalar, vector=True)
                    for a, b in zip(own, outer_row, strict=True)
                ]
                for flags, own, outer_row in zip(
                    inside,
                    self._local.load(spread, mine, window=True),
                    self._loads.load_lanes(spread, outer_mask),
                    strict=True,
                )
            ]
        else:
            columns = self._local.load(access, mask, window=window)

        def produce(place: int, form: Form, part: int) -> str:
            result = access.node.results[place]
            shape = None if result is None else self._values.analysis.shapes[result]
            if form is not Form.VECTOR and isinstance(shape, Affine) and shape.uniform:
                return self._any_lane(access, mask, [column[place] for column in columns])
            return self._values.in_form(columns[part][place], access.scalar, form)

        self._define(access.node, produce)

    def _any_lane(self, access: Access, mask: Mask, rows: list[str]) -> str:
        """Return the uniform value loaded by the lanes of the mask, which may lack the first
        lane.
        """
        if mask.full:
            return self._values.in_form(rows[0], access.scalar, Form.SCALAR)
        text, bits = self._text, integer(8 * access.element_bytes)
        wide = text.type_of(bits, vector=True)
        loaded = ""
        for flags, row in zip(self._masks.flat(mask), rows, strict=True):
            if access.scalar != bits:
                row = text.let(
                    f"bitcast {text.type_of(access.scalar, vector=True)} {row} to {wide}"
                )
            own = text.select(flags, row, "zeroinitializer", bits, vector=True)
            loaded = text.let(f"or {wide} {loaded}, {own}") if loaded else own
        suffix = Text.mangle(bits, text.width)
        value = text.call(bits, f"llvm.vector.reduce.or.{suffix}", (wide, loaded))
        return (
            value
            if access.scalar == bits
            else text.let(f"bitcast {bits} {value} to {access.scalar}")
        )

    def _store_local(self, access: Access, mask: Mask, reach: Reach) -> None:
        elements = self._stores.elements(access)
        if reach is Reach.PERHAPS:
            access = replace(access, shape=Vector())
            mask, outer_mask = self._masks.split(mask, self._local.local_lanes(access))
            self._stores.scatter(access, outer_mask)
        self._local.store(access, mask, elements, window=reach is not Reach.NAMED)

    def split_local(self, access: Access, mask: Mask) -> tuple[Mask, Mask | None] | None:
        """Return the lanes of a mask that access local memory, and the others.

        The others are None if there are none. The result is None if no lane accesses local memory.
        """
        reach = self._reach.of(access.node)
        if reach is Reach.NEVER:
            return None
        if reach is Reach.PERHAPS:
            return self._masks.split(mask, self._local.local_lanes(access))
        return mask, None

    def update_local(
        self, access: Access, mask: Mask, change: Callable[[int, list[str]], list[str]]
    ) -> list[list[str]]:
        """Replace elements of local memory, by generic addresses. Return the former values of all
        elements, for each vector of lanes.

        ``change`` emits the new values of a vector of lanes, given its number and former values.
        """
        access = replace(access, shape=Vector())
        former_values = self._local.load(access, mask, window=True)
        changed = [change(part, row) for part, row in enumerate(former_values)]
        self._local.store(access, mask, changed, window=True)
        return former_values

    def _load_parameters(self, node: Operation, mask: Mask) -> None:
        instruction = node.instruction
        scalar = FLOATS.get(instruction.type, integer(instruction.type.bits))
        if instruction.displacement % (instruction.vector * instruction.type.bytes):
            has_lanes, text = self._masks.any(mask), self._text
            place = self._launch.misaligned_pointer(instruction.displacement)
            place = text.let(f"select i1 {has_lanes}, ptr {place}, ptr %thread")
            text.let(f"load volatile i8, ptr {place}, align 1")

        def produce(place: int, form: Form, _part: int) -> str:
            offset = instruction.displacement + place * instruction.type.bytes
            value = self._launch.parameter(offset, scalar)
            return self._text.splat(scalar, value) if form is Form.VECTOR else value

        self._define(node, produce)

    def is_scalar(self, access: Access) -> bool:
        """Return whether all lanes of a vector load from the same location, and that location is
        outside local memory.
        """
        is_uniform = not isinstance(access.shape, Vector) and not access.shape.stride
        return is_uniform and self._reach.of(access.node) is Reach.NEVER

    def reaches(self, access: Access, distance: int) -> bool:
        """Return whether clamping the address of ``access`` also suffices for a second access,
        ``distance`` bytes further. The second access then needs no clamp of its own.
        """
        source = self._known.trace(access.address) if access.origin is not None else None
        return source is None or source.is_confined(access.displacement + distance, access.size)

    def _define(self, node: Operation, produce: Callable[[int, Form, int], str]) -> None:
        scalar = FLOATS.get(node.instruction.type, integer(node.instruction.type.bits))
        for place, result in enumerate(node.results):
            if result is not None:
                self._define_one(node, result, scalar, place, produce)

    def _define_one(
        self,
        node: Operation,
        result: Value,
        scalar: str,
        place: int,
        produce: Callable[[int, Form, int], str],
    ) -> None:
        signed = node.instruction.type.is_signed

        def fill(form: Form, part: int) -> str:
            value = produce(place, form, part)
            return self._values.extend_to_storage(value, scalar, result, form, signed=signed)

        self._values.define(result, fill)

    def load_parts(self, access: Access, flags: list[list[str]]) -> list[list[str]]:
        """Load the elements that masks select, as ``Loads.load_parts`` does."""
        return self._loads.load_parts(access, flags)

    def _load_scalars(self, access: Access, mask: Mask, occupied: bool) -> None:
        text = self._text
        uniform = isinstance(access.shape, Affine) and access.shape.uniform
        loaded: dict[int, list[str]] = {}

        def fetch(part: int) -> list[str]:
            pointer = self.pointers.of_vector(access, part)
            if mask.vector is not None and not (uniform and occupied):
                has_lanes = self._masks.any(Mask((mask.vector[part],), mask.scalar))
                if uniform:
                    has_lanes = self._masks.any(mask)
                # If no lane is active, the address is arbitrary: read the thread state instead.
                pointer = text.let(f"select i1 {has_lanes}, ptr {pointer}, ptr %thread")
            elif mask.scalar is not None and not occupied:
                pointer = text.let(f"select i1 {mask.scalar}, ptr {pointer}, ptr %thread")
            size = access.element_bytes
            places = [
                self.pointers.offset_pointer(pointer, place * size) for place in range(access.count)
            ]
            with text.marking_accesses(None if uniform else part, access.memory):
                return [
                    text.let(f"{access.load_keyword} {access.scalar}, ptr {p}, align 1")
                    for p in places
                ]

        for part in range(1 if uniform else self._values.vectors):
            loaded[part] = fetch(part)

        def produce(place: int, form: Form, part: int) -> str:
            value = loaded[0 if uniform else part][place]
            return text.splat(access.scalar, value) if form is Form.VECTOR else value

        self._define(access.node, produce)
