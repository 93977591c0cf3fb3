"""Emission of groups of MMA instructions in tile registers (see ``planning.tile_groups``).

Between the configuration of the tiles and their release there is no call and no wait, so fibers
that share a thread never have tiles at the same time.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from vgpu_sim.exec.jit.arithmetic import matrix_tiles
from vgpu_sim.exec.jit.arithmetic.matrix_factors import Lanes
from vgpu_sim.exec.jit.arithmetic.matrix_products import VECTOR_BYTES, Halves
from vgpu_sim.exec.jit.emission.emitter import Emitter
from vgpu_sim.exec.jit.emission.warp_registers import define, halves_of, present, vectors_of
from vgpu_sim.exec.jit.ir.ssa import Operation, Source
from vgpu_sim.exec.jit.planning.tile_groups import TileGroup, operands
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.hal.compute.limits import WARP_THREADS
from vgpu_sim.isa import Instruction

Prepare = Callable[[Lanes, Instruction, Sequence[Halves], str], int]


def multiply(emitter: Emitter, node: Operation, mask: Mask, group: TileGroup) -> None:
    """Prepare the factors of one instruction; at the last one of its group, compute all totals."""
    for tile, pair in enumerate(group.pairs):
        for step, products in enumerate(zip(*pair, strict=True)):
            if products[-1] is node:
                _store_right(emitter, products, _name_of(tile, step), mask)
    if node is group.last:
        _compute(emitter, mask, group)


def _name_of(tile: int, step: int) -> str:
    return f"B of tile {tile} in step {step}"


def _store_right(
    emitter: Emitter, products: tuple[Operation, Operation], name: str, mask: Mask
) -> None:
    """Store B of a step of one tile in memory that later groups use again."""
    text = emitter.text
    for warp, vectors in enumerate(warps(emitter)):
        flags = present(emitter, mask, vectors)
        sources = [source for product in products for source in operands(product)[1]]
        registers = [halves_of(emitter, source, "i32", vectors, flags) for source in sources]
        place = matrix_tiles.scratch(text, f"{name}, warp {warp}", matrix_tiles.RIGHT_BYTES)
        with text.known.keep_loads():
            matrix_tiles.prepare_right(Lanes(text), registers, place)
    # LLVM's scheduler would delay all stores, and the factors would not fit the registers.
    text.call("void", "llvm.codeview.annotation", ("metadata", "!0"))


def _compute(emitter: Emitter, mask: Mask, group: TileGroup) -> None:
    text, pairs, instruction = emitter.text, group.pairs, group.last.instruction
    ends = [chain[-1] for chain in group.chains]
    result_registers: list[list[list[str]]] = [[[] for _ in end.results] for end in ends]
    ranges = warps(emitter)
    for warp, vectors in enumerate(ranges):
        flags = present(emitter, mask, vectors)
        left = [
            prepare(emitter, instruction, matrix_tiles.prepare_left, operands(s)[0], vectors, flags)
            for s in pairs[0][0]
        ]
        right = [
            [
                matrix_tiles.scratch(
                    text, f"{_name_of(tile, step)}, warp {warp}", matrix_tiles.RIGHT_BYTES
                )
                for step in range(len(left))
            ]
            for tile in range(len(pairs))
        ]
        with text.known.keep_loads():  # tiles are stored to memory that only this code loads
            if group.opens or len(ranges) > 1:
                matrix_tiles.configure(text)
            tiles = matrix_tiles.accumulate(text, instruction, left, right)
            if group.closes or len(ranges) > 1:
                matrix_tiles.release(text)
        for n, (pair, tile) in enumerate(zip(pairs, tiles, strict=True)):
            addends = [
                halves_of(emitter, source, "i32", vectors, "")
                for chain in pair
                for source in operands(chain[0])[2]
            ]
            totals = matrix_tiles.totals_at(text, tile, addends)
            each = len(totals) // 2
            for which in range(2):
                for place, halves in enumerate(totals[which * each : (which + 1) * each]):
                    parts = vectors_of(text, halves, "i32", len(vectors))
                    result_registers[2 * n + which][place] += parts
    for end, registers in zip(ends, result_registers, strict=True):
        for result, register in zip(end.results, registers, strict=True):
            if result is not None:
                define(emitter, result, register, "i32")


def prepare(
    emitter: Emitter,
    instruction: Instruction,
    how: Prepare,
    sources: Sequence[Source],
    vectors: range,
    flags: str,
) -> str:
    """Return the address of a prepared factor of a product.

    It is prepared once and used again as long as its value is available.
    """
    text = emitter.text
    registers = [halves_of(emitter, source, "i32", vectors, flags) for source in sources]
    kind = replace(instruction, dsts=(), srcs=())
    key = f"{how.__module__} {how.__name__} {kind.type.name} {kind.source_type} {registers}"
    place = text.known.find(key)
    if place is None:
        place = text.name()
        with text.known.keep_loads():
            size = how(Lanes(text), instruction, registers, place)
        text.prologue.append(f"  {place} = alloca [{size} x i8], align {VECTOR_BYTES}")
        text.known.add(key, place)
    return place


def warps(emitter: Emitter) -> list[range]:
    """Return the vectors of each warp of a group of lanes."""
    geometry = emitter.analysis.geometry
    per_warp = WARP_THREADS // geometry.width
    return [
        range(first, min(first + per_warp, geometry.vectors))
        for first in range(0, geometry.vectors, per_warp)
    ]
