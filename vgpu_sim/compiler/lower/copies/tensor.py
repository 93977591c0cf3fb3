"""Lowers cp.async.bulk.tensor and cp.reduce.async.bulk.tensor in tile mode (PTX ISA 9.7.10.28).

Like other bulk copies, they are complete when their instruction has executed.
"""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.addresses import whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.copies.bulk import COMPLETES, MULTICAST, with_hint
from vgpu_sim.compiler.lower.copies.tensor_code import Direction, function
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Op, Operand, Space


def load(context: Context, form: Form, match: Match) -> None:
    """Lower a copy of a box from global to shared memory."""
    target, box, bar, *rest = context.operands
    place = whole_address(context, target, Space.SHARED)
    map_, coordinates = _map_and_coordinates(context, box, match)
    given = [map_, place, *coordinates, whole_address(context, bar, Space.SHARED)]
    multicast = MULTICAST in match
    if multicast:
        given.append(values.source(context, rest[0], DataType.U16))
    code = function(Direction.LOAD, len(coordinates), multicast=multicast)
    library.emit(context, code, given)


def store(context: Context, form: Form, match: Match) -> None:
    """Lower a copy of a box from shared to global memory, or a reduction with one."""
    box, source, *_ = context.operands
    map_, coordinates = _map_and_coordinates(context, box, match)
    given = [map_, whole_address(context, source, Space.SHARED), *coordinates]
    operation = match.get("fold") or ""
    direction = Direction.REDUCE if operation else Direction.STORE
    library.emit(context, function(direction, len(coordinates), operation), given)


def prefetch(context: Context, form: Form, match: Match) -> None:
    """Check the operands of a prefetch, and emit nothing: it is a hint."""
    _map_and_coordinates(context, context.operands[0], match)


def _map_and_coordinates(
    context: Context, operand: tree.Operand, match: Match
) -> tuple[Operand, list[Operand]]:
    """Return the address of the tensor map and the coordinates of a box, ``[map, {x, y}]``."""
    rank = int(match["dim"][0])
    if not isinstance(operand, tree.Memory) or len(operand.parts) != 2:
        raise Invalid("expected a tensor map and its coordinates in brackets")
    base, given = operand.parts
    if not isinstance(given, tree.Vector) or len(given.elements) != rank:
        raise Invalid(f"expected a vector of {rank} coordinates")
    map_ = whole_address(context, tree.Memory((base,)), Space.GENERIC)
    return map_, [values.source(context, one, DataType.S32) for one in given.elements]


_LOAD = "loops of LD and ST of 16 bytes, at edges of one byte, then RED.TX"
_STORE = "loops of LD and ST of 16 bytes, at edges of one byte"
_REDUCE = "loops of LD and RED"

FORMS: Final = (
    *with_hint(f"cp.async.bulk.tensor.dim.near.global{{.mode}}.{COMPLETES}{{policy}}",
            "[d], [map], [bar]", Op.LD, load, _LOAD),
    *with_hint(f"cp.async.bulk.tensor.dim.shared::cluster.global{{.mode}}.{COMPLETES}.{MULTICAST}"
            "{policy}", "[d], [map], [bar], mask", Op.LD, load, _LOAD),
    *with_hint("cp.async.bulk.tensor.dim.global.shared::cta{.mode}.bulk_group{policy}",
            "[map], [a]", Op.ST, store, _STORE),
    *with_hint("cp.reduce.async.bulk.tensor.dim.global.shared::cta.fold{.mode}.bulk_group{policy}",
            "[map], [a]", Op.RED, store, _REDUCE),
    *with_hint("cp.async.bulk.hint.tensor.dim.L2.global{.mode}{policy}", "[map]", Op.NOP, prefetch,
            "nothing: a hint"),
)  # fmt: skip
