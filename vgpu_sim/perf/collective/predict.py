"""Predicts one collective among the GPUs of a node."""

from dataclasses import replace
from typing import Final

import numpy as np

from vgpu_sim.perf import parameters
from vgpu_sim.perf.boards import Board, board_named
from vgpu_sim.perf.collective.model import OPS, Calls, Model
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.prediction import Prediction
from vgpu_sim.perf.topology import topology_named
from vgpu_sim.perf.topology.rings import Bound, exchange, ring
from vgpu_sim.perf.topology.routes import Routes

ELEMENTS: Final = {"bf16": 2, "fp16": 2, "int8": 1}


_NO_SWITCH: Final = (
    "not measured without NVSwitches: starts and steps are those with NVSwitches, bytes are sent at"
    " the data sheets' rates of the links; the interval is unchecked"
)


def predict(
    board: str, op: str, dtype: str, gpus: int, size: int, topology: str | None = None
) -> Prediction:
    """Predict the time of a collective of ``size`` bytes per rank among the first ``gpus`` GPUs of
    one node.

    ``topology`` is a name or a description; without one, the node is assumed to be like the
    measured nodes.

    Raises:
        PerfError: no such board, operation, type or topology, no fitted parameters, or sizes out
            of range.
    """
    hardware = board_named(board)
    if dtype not in ELEMENTS:
        raise BadShape(f"collectives were measured with {', '.join(ELEMENTS)}, not with {dtype}")
    if op not in OPS:
        raise BadShape(f"no collective {op!r}; known: {', '.join(OPS)}")
    hardware.require_room(size)
    which = "all_reduce" if op == "all_reduce" else "all"
    fitted = parameters.nearest("collective", board, which, "nccl")
    element = ELEMENTS[dtype]
    calls = Calls(np.array([op]), *(np.array([value]) for value in (gpus, size, element)))
    bound = None if topology is None else _link_bound(hardware, op, gpus, topology)
    model = Model(hardware, calls, bound)
    stack = model.stack(fitted.values, np.array([0]))
    choice = {"protocol": model.protocol(fitted.values)[0]}
    if bound is not None:
        choice["bound by"] = "{} to {}".format(*bound.link)
        if bound.order:
            choice["ring"] = "-".join(map(str, bound.order))
        fitted = replace(fitted, note="; ".join(filter(None, (fitted.note, _NO_SWITCH))))
    wire = (2 if op == "all_reduce" else 1) * (gpus - 1) / gpus * size / 1e3
    rates = {"GB/s (algorithm)": size / 1e3, "GB/s (bus)": wire}
    shape = {"collective": op, "gpus": gpus, "bytes": size}
    if topology is not None:
        shape["topology"] = topology
    return Prediction.of("allreduce", hardware, dtype, shape, stack, fitted, choice, rates)


def _link_bound(board: Board, op: str, gpus: int, topology: str) -> Bound | None:
    """Return the limit that the node's links set on a collective; None with NVSwitches, for which
    the fitted rates hold.
    """
    routes = Routes(topology_named(topology, gpus), board)
    if routes.switched:
        return None
    return exchange(routes, gpus) if op == "alltoall" else ring(routes, gpus)


def predict_send(board: str, size: int) -> Prediction:
    """Predict the time of sending ``size`` bytes to another GPU of the node. Raises the errors of
    ``predict``.

    Single sends were not measured. The prediction is that of an all-to-all between two GPUs with
    twice the bytes, of which each GPU sends half to the other.
    """
    prediction = predict(board, "alltoall", "bf16", 2, 2 * size)
    note = "send was not measured: taken to run as an all-to-all of two GPUs"
    fitted = replace(
        prediction.fitted, note="; ".join(filter(None, (prediction.fitted.note, note)))
    )
    shape = {"collective": "send", "gpus": 2, "bytes": size}
    return replace(prediction, shape=shape, fitted=fitted)
