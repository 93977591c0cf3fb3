"""Predictions and topologies as drawings, for the command line and for the console."""

from collections.abc import Callable, Sequence

from drawing.causes import Stack, draw_causes
from drawing.documents import Figure, make_table
from drawing.elements import Element
from drawing.network import Device, Network, draw_network
from drawing.roofline import Point, Roof, draw_roofline
from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.prediction import Prediction
from vgpu_sim.perf.topology import FLAT, Topology

_FLOP = "Tflop/s"
_BYTES = "GB/s"  # the names of rates of memory begin so
_NO_ADDRESS = "no PCI address"
_NOT_STATED = ("not stated", "not stated")
_NO_LINK: Callable[[int], str] = lambda index: ""  # noqa: E731 - a default of an argument


def figures_of(predictions: Sequence[Prediction], title: str) -> list[Figure]:
    """Return the causes of an operation's time on some boards, and its roofline if it has one."""
    stacks = [
        Stack(prediction.board.name, prediction.us, prediction.stack, prediction.interval, "us")
        for prediction in predictions
    ]
    table = _table(stacks, title)
    figures = [Figure(f"{title} (modelled)", draw_causes(stacks), (table,))]
    plot = draw_roofline(*_points(predictions, title))
    if plot is not None:
        figures.append(Figure("Roofline (modelled)", plot))
    return figures


def figure_of_stacks(stacks: Sequence[Stack], title: str) -> Figure:
    """Return the causes of some times, with a table of the same numbers."""
    return Figure(f"{title} (modelled)", draw_causes(stacks), (_table(stacks, title),))


def network_of(
    topology: Topology,
    board: Board,
    gpus: Sequence[int],
    hcas: int | None = None,
    *,
    page_of: Callable[[int], str] = _NO_LINK,
    sick: Sequence[int] = (),
) -> Network:
    """Return a node's devices for a drawing: the GPUs of these indices, and ``hcas`` HCAs.

    ``page_of`` gives the address behind a GPU, and ``sick`` are the indices of unhealthy GPUs. In
    the flat topology an HCA is at the PCIe root that has its number, as node agents report it to
    the kubelet. In others, HCAs for which the topology has no place are unplaced.
    """
    devices = []
    for index in gpus:
        place = topology.gpus[index]
        gpu = Device(
            name=f"GPU {index}",
            kind="gpu",
            numa=place.numa,
            switch=place.switch,
            more=place.bus_id,
            href=page_of(index),
            is_sick=index in sick,
        )
        devices.append(gpu)
    for index, place in enumerate(topology.hcas[:hcas]):
        devices.append(Device(f"HCA {index}", "hca", place.numa, place.switch, place.bus_id))
    unplaced = []
    for index in range(len(topology.hcas), hcas or 0):
        if topology.name == FLAT:
            devices.append(Device(f"HCA {index}", "hca", 0, index, _NO_ADDRESS))
        else:
            unplaced.append(Device(f"HCA {index}", "hca", 0, 0, _NO_ADDRESS))
    if hcas is None:
        for index, place in enumerate(topology.nvmes):
            devices.append(Device(f"NVMe {index}", "nvme", place.numa, place.switch, place.bus_id))
    links = topology.links_between(board.architecture.split()[0]) if board.has_nvlink else 0
    rate = f"PCIe {board.pcie_gb_per_s.value:g} GB/s"
    name = topology.name if len(topology.name) < 40 else "custom topology"
    described = f"{name}, {board.product}, {rate} one way"
    return Network(
        described,
        tuple(devices),
        links if len(gpus) > 1 else 0,
        topology.switched,
        unplaced=tuple(unplaced),
    )


def figure_of_network(network: Network) -> Figure:
    """Return the drawing of a node's devices with a list of them."""
    rows = [
        (device.name, device.more, str(device.numa), str(device.switch))
        for device in network.devices
    ]
    rows += [(device.name, device.more, *_NOT_STATED) for device in network.unplaced]
    head = ("Device", "PCI address", "NUMA node", "PCIe switch")
    table = make_table("Devices", head, rows, numbers_from=2)
    title = f"Topology: {network.name}; {network.nvlinks}"
    return Figure(title, draw_network(network), (table,))


def _points(predictions: Sequence[Prediction], title: str) -> tuple[list[Roof], list[Point]]:
    """Return the roofs of the boards, and a point for each prediction with both rates."""
    roofs, points = [], []
    for prediction in predictions:
        flop = prediction.rates.get(_FLOP, 0.0)
        moved = next((v for name, v in prediction.rates.items() if name.startswith(_BYTES)), 0.0)
        peak = prediction.board.tensor_tflops.get(
            prediction.dtype, prediction.board.vector_tflops
        ).value
        if flop > 0 and moved > 0:
            roofs.append(
                Roof(
                    f"{prediction.board.name} {prediction.dtype}",
                    prediction.board.dram_gb_per_s.value,
                    peak * 1e3,
                )
            )
            points.append(
                Point(f"{title} on {prediction.board.name}", flop * 1e3 / moved, flop * 1e3)
            )
    return roofs, points


def _table(stacks: Sequence[Stack], title: str) -> Element:
    causes = dict.fromkeys(cause for stack in stacks for cause in stack.parts)
    unit = stacks[0].unit
    rows = [(cause, *(f"{stack.parts.get(cause, 0):.2f}" for stack in stacks)) for cause in causes]
    rows.append((f"total ({unit})", *(f"{stack.total:.2f}" for stack in stacks)))
    ends = [
        "-" if stack.interval is None else f"{stack.interval[0]:.4g} to {stack.interval[1]:.4g}"
        for stack in stacks
    ]
    rows.append((f"90 % ({unit})", *ends))
    return make_table(f"Causes: {title}", ("Cause", *(stack.name for stack in stacks)), rows)
