"""LDMATRIX: one load per row of 16 bytes; in a group of one lane, the lane's own part of each
row.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from vgpu_sim.exec.jit.arithmetic.matrix_factors import LANES
from vgpu_sim.exec.jit.arithmetic.warps import WarpText
from vgpu_sim.exec.jit.emission.emitter import Emitter
from vgpu_sim.exec.jit.emission.warp_registers import (
    BALLOT,
    SHUFFLE,
    define,
    define_alone,
    emit_if_in_mask,
    read,
    shuffle_lane,
    vectors_of,
)
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.memory.access import Access
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.exec.jit.values.launch import THREAD_COLLECT
from vgpu_sim.hal.compute.limits import WARP_THREADS
from vgpu_sim.isa import Op

_EDGE: Final = 8
_ROW_BYTES: Final = 16


def load(emitter: Emitter, node: Operation, mask: Mask) -> None:
    """Emit LDMATRIX, a load of matrices."""
    geometry, instruction = emitter.analysis.geometry, node.instruction
    row = replace(instruction, op=Op.LD, vector=_ROW_BYTES // 4, transposed=False)
    access = emitter.memory.access(
        Operation(node.word, row, node.sources, node.results, node.guard)
    )
    if geometry.span == 1:
        _load_alone(emitter, node, access, mask)
        return
    registers: list[list[str]] = [[] for _ in node.results]
    per_warp = WARP_THREADS // geometry.width
    for first in range(0, geometry.vectors, per_warp):
        vectors = range(first, min(first + per_warp, geometry.vectors))
        rows = _rows(emitter, access, mask, vectors, _EDGE * instruction.vector)
        for place in range(instruction.vector):
            halves = _matrix(
                emitter.text,
                rows[_EDGE * place : _EDGE * (place + 1)],
                transposed=instruction.transposed,
            )
            registers[place] += vectors_of(emitter.text, halves, "i32", len(vectors))
    for place, result in enumerate(node.results):
        if result is not None:
            define(emitter, result, registers[place], "i32")


def _rows(emitter: Emitter, access: Access, mask: Mask, vectors: range, count: int) -> list[str]:
    """Load the rows whose addresses are in a warp's first lanes."""
    text, width = emitter.text, emitter.text.width
    flat = None if mask.full else emitter.masks.flat(mask)
    rows: list[str] = []
    for part in vectors:
        lanes = min(width, count - len(rows))
        if lanes <= 0:
            break
        pointers = emitter.memory.pointers.of_lanes(access, part, 0)
        for lane in range(lanes):
            place = text.let(f"extractelement <{width} x ptr> {pointers}, i64 {lane}")
            if flat is None:
                rows.append(text.let(f"load <4 x i32>, ptr {place}, align 1"))
                continue
            is_present = text.let(f"extractelement <{width} x i1> {flat[part]}, i64 {lane}")
            # An absent lane has an arbitrary address: read the thread state instead.
            place = text.let(f"select i1 {is_present}, ptr {place}, ptr %thread")
            row = text.let(f"load <4 x i32>, ptr {place}, align 1")
            rows.append(
                text.let(f"select i1 {is_present}, <4 x i32> {row}, <4 x i32> zeroinitializer")
            )
    return rows + ["zeroinitializer"] * (count - len(rows))


def _matrix(text: Text, rows: Sequence[str], *, transposed: bool) -> list[str]:
    """Return a warp register, in halves, from eight rows."""
    warp = WarpText(text)
    parts, lanes = list(rows), 4
    while len(parts) > 2:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [warp.shuffle(a, b, range(2 * lanes), "i32", lanes) for a, b in pairs]
        lanes *= 2
    if not transposed:
        return parts
    short = f"<{2 * LANES} x i16>"
    low, high = (text.let(f"bitcast <{LANES} x i32> {part} to {short}") for part in parts)
    turned = []
    for begin in (0, LANES):
        places = [
            _EDGE * (2 * (lane % 4) + odd) + lane // 4
            for lane in range(begin, begin + LANES)
            for odd in range(2)
        ]
        halves = warp.shuffle(low, high, places, "i16", 2 * LANES)
        turned.append(text.let(f"bitcast {short} {halves} to <{LANES} x i32>"))
    return turned


def _load_alone(emitter: Emitter, node: Operation, access: Access, mask: Mask) -> None:
    """Load a lane's own part of the rows, whose addresses it reads from the other lanes."""
    text, count = emitter.text, node.instruction.vector
    callee = emitter.launch.thread(THREAD_COLLECT, "ptr")
    how = str(SHUFFLE | node.word << 8)
    address = read(emitter, access.address, "i32", Form.BASE, 0)
    lane = text.let(f"and i32 {emitter.specials.first}, 31")
    group, place = text.let(f"lshr i32 {lane}, 2"), text.let(f"and i32 {lane}, 3")
    first, inside, scalar = group, text.let(f"shl i32 {place}, 2"), "i32"
    if node.instruction.transposed:
        first, inside = text.let(f"shl i32 {place}, 1"), text.let(f"shl i32 {group}, 1")
        scalar = "i16"
    # The mask lets LLVM prove that the offset is within a row.
    inside = text.let(f"and i32 {inside}, {_ROW_BYTES - 2}")
    distance = text.let(f"zext i32 {inside} to i64")

    present = ""  # mask of the lanes present

    def part(row: int) -> str:
        at = text.let(f"add i32 {first}, {row}") if row else first
        own = shuffle_lane(text, callee, how, address, at)
        pointer = emitter.launch.offset_pointer(
            emitter.memory.pointers.of_lane(access, own), distance
        )
        is_present = text.let(f"trunc i32 {text.let(f'lshr i32 {present}, {at}')} to i1")
        pointer = text.let(f"select i1 {is_present}, ptr {pointer}, ptr %thread")
        value = text.let(f"load {scalar}, ptr {pointer}, align 1")
        value = text.let(f"select i1 {is_present}, {scalar} {value}, {scalar} 0")
        return value if scalar == "i32" else text.let(f"zext i16 {value} to i32")

    def write() -> str:
        nonlocal present
        ballot = BALLOT | node.word << 8
        present = text.let(f"call i64 {callee}(ptr %thread, i32 {ballot}, i32 -1, i64 1, i64 0)")
        present = text.let(f"trunc i64 {present} to i32")
        aggregate = "poison"
        for matrix in range(count):
            word = part(_EDGE * matrix)
            if node.instruction.transposed:
                upper = text.let(f"shl i32 {part(_EDGE * matrix + 1)}, 16")
                word = text.let(f"or i32 {word}, {upper}")
            aggregate = text.let(f"insertvalue {results} {aggregate}, i32 {word}, {matrix}")
        return aggregate

    results = "{ " + ", ".join(["i32"] * count) + " }"
    loaded = emit_if_in_mask(emitter, mask, results, write)
    for place_, result in enumerate(node.results):
        if result is not None:
            value = text.let(f"extractvalue {results} {loaded}, {place_}")
            define_alone(emitter, result, value, "i32")
