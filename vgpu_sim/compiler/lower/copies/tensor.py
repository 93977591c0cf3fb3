"""Lowers cp.async.bulk.tensor and cp.reduce.async.bulk.tensor in all modes (PTX ISA 9.7.10.28).

Like other bulk copies, they are complete when their instruction has executed.
"""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.addresses import whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import library, tensor_rows
from vgpu_sim.compiler.lower.copies.bulk import COMPLETES, MULTICAST, with_hint
from vgpu_sim.compiler.lower.copies.tensor_code import Direction, function
from vgpu_sim.compiler.lower.copies.tensor_map import Mode
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Op, Operand, Space, TrapCause

_MODES: Final = {
    "tile": Mode.TILE,
    "tile::gather4": Mode.ROWS,
    "tile::scatter4": Mode.ROWS,
    "im2col": Mode.IM2COL,
    "im2col_no_offs": Mode.IM2COL,
    "im2col::w": Mode.WIDE,
    "im2col_no_offs::w": Mode.WIDE,
    "im2col::w::128": Mode.WIDE_128,
}
_SLOTS: Final = ("boxes", "columns", "stored", "updated")
_MATRIX_RANK: Final = 2
_IMAGE_RANK: Final = 3


def load(context: Context, form: Form, match: Match) -> None:
    """Lower a copy of a part of a tensor from global to shared memory."""
    target, part, bar, *remaining_operands = context.operands
    mode, rank = _mode_and_rank(match)
    place = whole_address(context, target, Space.SHARED)
    map_, coordinates = _map_and_coordinates(context, part, rank, mode)
    actuals = [map_, place, *coordinates]
    if mode.has_columns:
        actuals += _offsets(context, remaining_operands.pop(0), rank, mode)
    actuals.append(whole_address(context, bar, Space.SHARED))
    multicast = MULTICAST in match
    if multicast:
        actuals.append(values.source(context, remaining_operands[0], DataType.U16))
    paired = multicast and match.get("group") == "cta_group::2"
    code = function(Direction.LOAD, rank, mode=mode, multicast=multicast, paired=paired)
    _emit(context, mode, code, actuals)


def store(context: Context, form: Form, match: Match) -> None:
    """Lower a copy of a part of a tensor from shared to global memory, or a reduction with one."""
    part, source, *_ = context.operands
    mode, rank = _mode_and_rank(match)
    map_, coordinates = _map_and_coordinates(context, part, rank, mode)
    actuals = [map_, whole_address(context, source, Space.SHARED), *coordinates]
    operation = match.get("fold") or ""
    direction = Direction.REDUCE if operation else Direction.STORE
    _emit(context, mode, function(direction, rank, operation, mode=mode), actuals)


def prefetch(context: Context, form: Form, match: Match) -> None:
    """Check the operands of a prefetch, and emit nothing: it is a hint."""
    mode, rank = _mode_and_rank(match)
    part, *remaining_operands = context.operands
    _map_and_coordinates(context, part, rank, mode)
    if mode.has_columns:
        _offsets(context, remaining_operands[0], rank, mode)


def _emit(context: Context, mode: Mode, code: tree.Function, actuals: list[Operand]) -> None:
    """Emit the code of a copy: for other parts than boxes, once for a kernel."""
    shared = mode is not Mode.TILE
    library.emit_checked(context, code, actuals, TrapCause.TENSOR_COPY, shared=shared)


def _mode_and_rank(match: Match) -> tuple[Mode, int]:
    word = next((match[slot] for slot in _SLOTS if slot in match), "tile")
    mode, rank = _MODES[word], int(match["dim"][0])
    if mode is Mode.ROWS and rank != _MATRIX_RANK:
        raise Invalid(f".{word} needs a tensor of 2 dimensions, not {rank}")
    if mode.has_columns and rank < _IMAGE_RANK:
        raise Invalid(f".{word} needs a tensor of 3 to 5 dimensions, not {rank}")
    return mode, rank


def _map_and_coordinates(
    context: Context, operand: tree.Operand, rank: int, mode: Mode
) -> tuple[Operand, list[Operand]]:
    """Return the address of the tensor map and the coordinates of a box, ``[map, {x, y}]``."""
    count = tensor_rows.coordinates_of(rank, mode)
    if not isinstance(operand, tree.Memory) or len(operand.parts) != 2:
        raise Invalid("expected a tensor map and its coordinates in brackets")
    base, vector = operand.parts
    if not isinstance(vector, tree.Vector) or len(vector.elements) != count:
        raise Invalid(f"expected a vector of {count} coordinates")
    map_ = whole_address(context, tree.Memory((base,)), Space.GENERIC)
    return map_, [values.source(context, element, DataType.S32) for element in vector.elements]


def _offsets(context: Context, operand: tree.Operand, rank: int, mode: Mode) -> list[Operand]:
    """Return the offsets of im2col, or the halo and the offset of its wide modes."""
    count = len(tensor_rows.offsets_of(rank, mode))
    if not isinstance(operand, tree.Vector) or len(operand.elements) != count:
        raise Invalid(f"expected a vector of {count} im2col offsets")
    return [values.source(context, element, DataType.U16) for element in operand.elements]


_LOAD = "loops of LD and ST of 16 bytes, at edges of one byte, then RED.TX"
_STORE = "loops of LD and ST of 16 bytes, at edges of one byte"
_REDUCE = "loops of LD and RED"
_HINT = "nothing: a hint"
_TO_NEAR = "cp.async.bulk.tensor.dim.near.global"
_TO_MANY = "cp.async.bulk.tensor.dim.shared::cluster.global"
_ONE = f"{COMPLETES}{{.group}}{{policy}}"
_CAST = f"{COMPLETES}.{MULTICAST}{{.group}}{{policy}}"

FORMS: Final = (
    *with_hint(f"{_TO_NEAR}{{.boxes}}.{_ONE}", "[d], [map], [bar]", Op.LD, load,
            _LOAD),
    *with_hint(f"{_TO_NEAR}.columns.{_ONE}", "[d], [map], [bar], offsets", Op.LD,
            load, _LOAD),
    *with_hint(f"{_TO_MANY}{{.boxes}}.{_CAST}", "[d], [map], [bar], mask", Op.LD, load, _LOAD),
    *with_hint(f"{_TO_MANY}.columns.{_CAST}", "[d], [map], [bar], offsets, mask", Op.LD, load,
            _LOAD),
    *with_hint("cp.async.bulk.tensor.dim.global.shared::cta{.stored}.bulk_group{policy}",
            "[map], [a]", Op.ST, store, _STORE),
    *with_hint("cp.reduce.async.bulk.tensor.dim.global.shared::cta.fold{.updated}.bulk_group"
            "{policy}", "[map], [a]", Op.RED, store, _REDUCE),
    *with_hint("cp.async.bulk.hint.tensor.dim.L2.global{.boxes}{policy}", "[map]", Op.NOP,
            prefetch, _HINT),
    *with_hint("cp.async.bulk.hint.tensor.dim.L2.global.columns{policy}", "[map], offsets", Op.NOP,
            prefetch, _HINT),
)  # fmt: skip
