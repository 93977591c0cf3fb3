"""MMA_SCALE: one call of a function for a warp, or for a lane that reads the scales of others."""

from collections.abc import Sequence
from typing import Final

from vgpu_sim.exec.jit.arithmetic.block_scales import accumulate, numbers_of
from vgpu_sim.exec.jit.arithmetic.matrix_factors import LANES, Lanes
from vgpu_sim.exec.jit.emission.emitter import Emitter
from vgpu_sim.exec.jit.emission.matrix_functions import convention, define_function
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
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.exec.jit.values.launch import THREAD_COLLECT
from vgpu_sim.hal.compute.limits import WARP_THREADS
from vgpu_sim.isa import Instruction
from vgpu_sim.isa.rules import matrix_registers

_QUAD: Final = 4
_TOTAL: Final = f"<{LANES} x float>"
_WORD: Final = f"<{LANES} x i32>"


def scale(emitter: Emitter, node: Operation, mask: Mask) -> None:
    """Emit MMA_SCALE."""
    geometry, text = emitter.analysis.geometry, emitter.text
    if geometry.span == 1:
        _scale_alone(emitter, node, mask)
        return
    scalars = _scalars(node.instruction)
    registers_of: list[list[str]] = [[] for _ in node.results]
    per_warp = WARP_THREADS // geometry.width
    for first in range(0, geometry.vectors, per_warp):
        vectors = range(first, min(first + per_warp, geometry.vectors))
        flags = present(emitter, mask, vectors)
        registers = [
            halves_of(emitter, source, scalar, vectors, flags if scalar == "i32" else "")
            for source, scalar in zip(node.sources, scalars, strict=True)
        ]
        for place, halves in enumerate(_call(text, node.instruction, registers)):
            registers_of[place] += vectors_of(text, halves, "float", len(vectors))
    for result, vector_names in zip(node.results, registers_of, strict=True):
        if result is not None:
            define(emitter, result, vector_names, "float")


def _scalars(instruction: Instruction) -> list[str]:
    sums, words, addends = matrix_registers(instruction)
    return ["float"] * sums + ["i32"] * words + ["float"] * addends


def _call(
    text: Text, instruction: Instruction, registers: Sequence[Sequence[str]]
) -> list[list[str]]:
    """Call the function for these blocks and scales; return the halves of the results."""
    scalars = _scalars(instruction)
    name = _name("product.scales", instruction)
    if name not in text.shared.helpers:
        text.shared.helpers[name] = _function(text, name, instruction)
    arguments = ", ".join(
        f"<{LANES} x {scalar}> {half}"
        for scalar, halves in zip(scalars, registers, strict=True)
        for half in halves
    )
    count = 2 * matrix_registers(instruction)[2]
    results = "{ " + ", ".join([_TOTAL] * count) + " }"
    with text.known.keep_loads():
        aggregate = text.let(f"call {convention()}{results} @{name}({arguments})")
    parts = [text.let(f"extractvalue {results} {aggregate}, {n}") for n in range(count)]
    return [parts[n : n + 2] for n in range(0, count, 2)]


def _name(head: str, instruction: Instruction) -> str:
    assert instruction.source_type is not None
    return f"{head}.x{instruction.vector}.{instruction.source_type.name}".lower()


def _function(text: Text, name: str, instruction: Instruction) -> str:
    assert instruction.source_type is not None
    own = Text(text.shared, 0, LANES)
    lanes = Lanes(own)
    sums, words, _ = matrix_registers(instruction)
    names = [[f"%r{n}low", f"%r{n}high"] for n in range(len(_scalars(instruction)))]
    parameters = [
        f"<{LANES} x {scalar}> {half}"
        for scalar, halves in zip(_scalars(instruction), names, strict=True)
        for half in halves
    ]
    left, right = names[sums : sums + words]
    result_halves: list[list[str]] = [[] for _ in names[sums + words :]]
    for half in range(2):
        rows = [_pick(own, left, [_row_lane(lane, n) for lane in _lanes(half)]) for n in range(2)]
        columns = [
            _pick(own, right, [_column_lane(lane, n) for lane in _lanes(half)]) for n in range(2)
        ]
        totals = accumulate(
            lanes,
            [halves[half] for halves in names[:sums]],
            [numbers_of(lanes, word, instruction.source_type) for word in rows],
            [numbers_of(lanes, word, instruction.source_type) for word in columns],
            [halves[half] for halves in names[sums + words :]],
        )
        for place, total in enumerate(totals):
            result_halves[place].append(total)
    flat = [half for halves in result_halves for half in halves]
    return define_function(own, name, parameters, _TOTAL, flat, f"internal {convention()}")


def _lanes(half: int) -> range:
    return range(LANES * half, LANES * (half + 1))


def _row_lane(lane: int, half: int) -> int:
    """Return the lane that holds the scales of a lane's upper or lower row of A."""
    return lane // _QUAD * _QUAD + half


def _column_lane(lane: int, odd: int) -> int:
    """Return the lane that holds the scales of a lane's even or odd column of B."""
    return _QUAD * (2 * (lane % _QUAD) + odd)


def _pick(text: Text, halves: Sequence[str], lanes: Sequence[int]) -> str:
    order = ", ".join(f"i32 {lane}" for lane in lanes)
    return text.let(
        f"shufflevector {_WORD} {halves[0]}, {_WORD} {halves[1]}, <{LANES} x i32> <{order}>"
    )


def _scale_alone(emitter: Emitter, node: Operation, mask: Mask) -> None:
    """Compute one lane's results by a function, which waits for the lanes that hold scales."""
    text, instruction = emitter.text, node.instruction
    assert instruction.source_type is not None
    sums, words, _ = matrix_registers(instruction)
    scalars = _scalars(instruction)
    name = _name("product.alone.scales", instruction)
    if name not in text.shared.helpers:
        own = Text(text.shared, 0, 1)
        lanes = Lanes(own, 1)
        names = [f"%r{n}" for n in range(len(scalars))]
        parameters = ["ptr %thread", "ptr %collect", "i32 %how", "i32 %lane"]
        parameters += [f"{scalar} {n}" for scalar, n in zip(scalars, names, strict=True)]
        quad = own.let("and i32 %lane, -4")
        first = own.let(f"shl i32 {own.let('and i32 %lane, 3')}, 3")
        read_from = [own.let(f"or i32 {quad}, {n}") for n in range(2)]
        columns_from = [own.let(f"or i32 {first}, {_QUAD * n}") for n in range(2)]
        left, right = names[sums : sums + words]
        rows, columns = (
            [shuffle_lane(own, "%collect", "%how", word, lane) for lane in places]
            for word, places in ((left, read_from), (right, columns_from))
        )
        totals = accumulate(
            lanes,
            names[:sums],
            [numbers_of(lanes, word, instruction.source_type) for word in rows],
            [numbers_of(lanes, word, instruction.source_type) for word in columns],
            names[sums + words :],
        )
        text.shared.helpers[name] = define_function(
            own, name, parameters, "float", totals, "internal "
        )
    callee = emitter.launch.thread(THREAD_COLLECT, "ptr")
    lane = text.let(f"and i32 {emitter.specials.first}, 31")
    arguments = ["ptr %thread", f"ptr {callee}", f"i32 {SHUFFLE | node.word << 8}", f"i32 {lane}"]
    for source, scalar in zip(node.sources, scalars, strict=True):
        arguments.append(f"{scalar} {read(emitter, source, scalar, Form.BASE, 0)}")
    results = "{ " + ", ".join(["float"] * len(node.results)) + " }"
    aggregate = emit_if_in_mask(
        emitter, mask, results, lambda: text.let(f"call {results} @{name}({', '.join(arguments)})")
    )
    for place, result in enumerate(node.results):
        if result is not None:
            value = text.let(f"extractvalue {results} {aggregate}, {place}")
            define_alone(emitter, result, value, "float")
