"""Matrix products and loads: vector code if a group consists of whole warps.

A product is a call of a function for its shape and types, or one call for two products with the
same A. A lane that is a group of its own reads the factors of the others one by one, as SHFL
does.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from vgpu_sim.exec.jit.arithmetic.matrix_factors import LANES, Lanes
from vgpu_sim.exec.jit.arithmetic.matrix_products import (
    Halves,
    multiply,
    multiply_in_lane,
    prepare_left,
    prepare_right,
)
from vgpu_sim.exec.jit.emission import (
    matrix_functions,
    matrix_loads,
    matrix_scales,
    matrix_tiles,
)
from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.emission.warp_registers import (
    SHUFFLE,
    define,
    define_alone,
    emit_if_in_mask,
    halves_of,
    present,
    read,
    shuffle_lane,
    vectors_of,
)
from vgpu_sim.exec.jit.ir.ssa import Operation, Source, Value
from vgpu_sim.exec.jit.planning.tile_groups import operands
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.exec.jit.values.launch import THREAD_COLLECT
from vgpu_sim.isa import DataType, Instruction, Op


def _product(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    geometry, text = emitter.analysis.geometry, emitter.text
    scalar = _scalar(node.instruction)
    if geometry.span == 1:
        _product_alone(emitter, node, mask)
        return
    group = emitter.tile_groups.get(node)
    if group is not None:
        matrix_tiles.multiply(emitter, node, mask, group)
        return
    if node in emitter.ahead:
        return
    nodes = [node, *_partners(emitter, node)]
    emitter.ahead |= set(nodes)
    a = operands(node)[0]
    result_registers: list[list[list[str]]] = [[[] for _ in n.results] for n in nodes]
    for vectors in matrix_tiles.warps(emitter):
        flags = present(emitter, mask, vectors)
        left = matrix_tiles.prepare(emitter, node.instruction, prepare_left, a, vectors, flags)
        columns = []
        for each in nodes:
            _, b, c = operands(each)
            right = matrix_tiles.prepare(
                emitter, node.instruction, prepare_right, b, vectors, flags
            )
            columns.append((right, [halves_of(emitter, s, scalar, vectors, "") for s in c]))
        for n, results in enumerate(_multiply(emitter, node.instruction, left, columns)):
            for place, halves in enumerate(results):
                result_registers[n][place] += vectors_of(text, halves, scalar, len(vectors))
    for each, registers in zip(nodes, result_registers, strict=True):
        for result, register in zip(each.results, registers, strict=True):
            if result is not None:
                define(emitter, result, register, scalar)


def _partners(emitter: Emitter, node: Operation) -> list[Operation]:
    """Return another product of this block with the same A that can be computed now, if there is
    one.

    The prepared A serves both.
    """
    kind, left = _kind(node.instruction), operands(node)[0]
    nodes = emitter.analysis.ssa.blocks[emitter.values.block].nodes
    if node.guard is not None:
        return []
    for partner in nodes[nodes.index(node) + 1 :]:
        if (
            isinstance(partner, Operation)
            and _kind(partner.instruction) == kind
            and partner.guard is None
            and partner not in emitter.ahead
            and partner not in emitter.tile_groups
            and operands(partner)[0] == left
            and all(_is_held(emitter, source) for source in partner.sources)
        ):
            return [partner]
    return []


def _kind(instruction: Instruction) -> Instruction:
    return replace(instruction, dsts=(), srcs=())


def _is_held(emitter: Emitter, source: Source) -> bool:
    values = emitter.values
    if not isinstance(source, Value) or source in values.held:
        return True
    return source in values.analysis.shapes and values.form_of(source) is None


def _scalar(instruction: Instruction) -> str:
    return "float" if instruction.type is DataType.F32 else "i32"


def _multiply(
    emitter: Emitter,
    instruction: Instruction,
    left: str,
    columns: Sequence[tuple[str, Sequence[Halves]]],
) -> list[list[list[str]]]:
    """Call a function for products of this shape.

    Inlined, the code would exceed the instruction cache and the vector registers.
    """
    text = emitter.text
    total = f"<{LANES} x {_scalar(instruction)}>"
    name = _name(f"product.m{len(columns)}", instruction)
    each = len(columns[0][1])
    arguments = [(total, half) for _, c in columns for register in c for half in register]
    arguments += [("ptr", left), *(("ptr", right) for right, _ in columns)]
    if name not in text.shared.helpers:
        text.shared.helpers[name] = _function(text, name, instruction, each, len(columns))
    results = "{ " + ", ".join([total] * (2 * each * len(columns))) + " }"
    values = ", ".join(f"{type_} {value}" for type_, value in arguments)
    with text.known.keep_loads():  # the function reads prepared factors, and writes nothing
        aggregate = text.let(f"call {matrix_functions.convention()}{results} @{name}({values})")
    parts = [
        text.let(f"extractvalue {results} {aggregate}, {n}") for n in range(2 * each * len(columns))
    ]
    registers = [parts[n : n + 2] for n in range(0, len(parts), 2)]
    return [registers[n : n + each] for n in range(0, len(registers), each)]


def _name(head: str, instruction: Instruction) -> str:
    assert instruction.matrix is not None
    assert instruction.source_type is not None
    types = f"{instruction.type.name}.{instruction.source_type.name}"
    return f"{head}.{instruction.matrix.name}.{types}".lower()


def _function(
    text: Text, name: str, instruction: Instruction, registers: int, products: int
) -> str:
    """Emit a multiplication function for matrices and return its name.

    Its parameters are the halves of each product's C, then the addresses of the prepared A and
    of each product's prepared B.
    """
    own = Text(text.shared, 0, LANES)
    total = f"<{LANES} x {_scalar(instruction)}>"
    addends = [
        [[f"%c{n}x{r}low", f"%c{n}x{r}high"] for r in range(registers)] for n in range(products)
    ]
    parameters = [f"{total} {half}" for c in addends for halves in c for half in halves]
    parameters += ["ptr %left", *(f"ptr %right{n}" for n in range(products))]
    columns = [(f"%right{n}", c) for n, c in enumerate(addends)]
    products_totals = multiply(Lanes(own), instruction, "%left", columns)
    result_halves = [half for totals in products_totals for halves in totals for half in halves]
    return matrix_functions.define_function(
        own, name, parameters, total, result_halves, f"internal {matrix_functions.convention()}"
    )


def _product_alone(emitter: Emitter, node: Operation, mask: Mask) -> None:
    """Compute one lane's results of a product by a function.

    The function waits for the other lanes whenever it reads their registers.
    """
    text, instruction = emitter.text, node.instruction
    scalar = _scalar(instruction)
    a, b, c = operands(node)
    name = _name("product.alone", instruction)
    parameters = ["ptr %thread", "ptr %collect", "i32 %how", "i32 %lane"]
    for letter, sources, type_ in (("a", a, "i32"), ("b", b, "i32"), ("c", c, scalar)):
        parameters += [f"{type_} %{letter}{n}" for n in range(len(sources))]
    if name not in text.shared.helpers:
        own = Text(text.shared, 0, 1)
        x, y, z = (
            [f"%{letter}{n}" for n in range(len(sources))]
            for letter, sources in zip("abc", (a, b, c), strict=True)
        )

        def of_lane(value: str, lane: str) -> str:
            return shuffle_lane(own, "%collect", "%how", value, lane)

        totals = multiply_in_lane(Lanes(own, 1), instruction, of_lane, x, y, z, "%lane")
        text.shared.helpers[name] = matrix_functions.define_function(
            own, name, parameters, scalar, totals, "internal "
        )
    callee = emitter.launch.thread(THREAD_COLLECT, "ptr")
    lane = text.let(f"and i32 {emitter.specials.first}, 31")
    arguments = ["ptr %thread", f"ptr {callee}", f"i32 {SHUFFLE | node.word << 8}", f"i32 {lane}"]
    for sources, type_ in ((a, "i32"), (b, "i32"), (c, scalar)):
        arguments += [f"{type_} {read(emitter, s, type_, Form.BASE, 0)}" for s in sources]
    results = "{ " + ", ".join([scalar] * len(c)) + " }"
    aggregate = emit_if_in_mask(
        emitter, mask, results, lambda: text.let(f"call {results} @{name}({', '.join(arguments)})")
    )
    for place, result in enumerate(node.results):
        if result is not None:
            value = text.let(f"extractvalue {results} {aggregate}, {place}")
            define_alone(emitter, result, value, scalar)


def _load(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    matrix_loads.load(emitter, node, mask)


def _scale(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    matrix_scales.scale(emitter, node, mask)


LOWERING: Final[dict[Op, Lowering]] = {
    Op.MMA: _product,
    Op.MMA_SCALE: _scale,
    Op.LDMATRIX: _load,
}
