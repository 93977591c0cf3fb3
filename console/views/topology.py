"""How a node's GPUs are connected, from its GPU objects."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from console.views.faults import describe_health, is_sick
from console.views.traffic import LinkTraffic, format_rate
from drawing.documents import Figure
from drawing.network import Load, Network
from gpu_operator.controllers.common.world import World
from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.errors import PerfError
from vgpu_sim.perf.topology import FLAT, topology_named

SHOWN: Final = 200
NO_TRAFFIC: Final[Mapping[str, LinkTraffic]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Row:
    """A node with GPUs in the list of topologies."""

    name: str
    pool: str
    board: str
    topology: str
    gpus: int
    hcas: int


@dataclass(frozen=True, slots=True)
class NodeTopology:
    """The drawing of a node, or why there is none.

    ``unplaced`` counts HCAs of the pool to which the topology gives no place; ``sick`` has the
    health of GPUs that are not healthy. ``has_flat_hcas`` is whether HCAs are drawn at the PCIe
    roots that have their numbers.
    """

    figure: Figure | None
    problem: str = ""
    unplaced: int = 0
    sick: tuple[str, ...] = ()
    has_flat_hcas: bool = False
    network: Network | None = None
    """The devices of the drawing, which a narrow window has as a list."""


def rows(world: World, text: str) -> tuple[tuple[Row, ...], int]:
    """Return up to 200 nodes whose names contain a text, and how many more there are."""
    by_node = world.gpus_by_node()
    names = sorted(name for name in by_node if text in name)
    node_rows = []
    for name in names[:SHOWN]:
        first = by_node[name][0].spec
        topology = first.facts.topology if len(first.facts.topology) < 40 else "custom"
        hcas = _hcas(world, first.pool)
        node_rows.append(Row(name, first.pool, first.board, topology, len(by_node[name]), hcas))
    return tuple(node_rows), max(len(names) - SHOWN, 0)


def view(world: World, node: str, traffic: Mapping[str, LinkTraffic] = NO_TRAFFIC) -> NodeTopology:
    """Return the drawing of one node with GPUs, and with the traffic of its devices' links."""
    from vgpu_sim.perf.pictures import figure_of_network, network_of  # imports numpy

    gpus = sorted(world.gpus_by_node()[node], key=lambda gpu: gpu.spec.index)
    if len({(gpu.spec.facts.topology, gpu.spec.board) for gpu in gpus}) > 1:
        return NodeTopology(None, "the GPUs of this node do not share one board and one topology")
    spec = gpus[0].spec
    pages = {gpu.spec.index: f"/gpus/{quote(gpu.name, safe='')}" for gpu in gpus}
    try:
        topology = topology_named(spec.facts.topology, max(pages) + 1)
        board = board_named(spec.board)
    except PerfError as err:
        return NodeTopology(None, str(err))
    hcas = _hcas(world, spec.pool)
    sick = [gpu.spec.index for gpu in gpus if is_sick(gpu)]
    network = network_of(
        topology,
        board,
        tuple(pages),
        hcas,
        page_of=lambda index: pages[index],
        sick=sick,
    )
    loads = {
        name: Load(format_rate(link.down), format_rate(link.up), max(link.down, link.up))
        for name, link in traffic.items()
    }
    network = replace(network, loads=loads)
    figure = figure_of_network(network)
    words = tuple(
        f"GPU {gpu.spec.index} is {describe_health(gpu)[:200]}" for gpu in gpus if is_sick(gpu)
    )
    flat = topology.name == FLAT and hcas > 0
    return NodeTopology(figure, "", len(network.unplaced), words, flat, network)


def _hcas(world: World, pool: str) -> int:
    """Return how many HCAs the nodes of a pool have; 0 if the pool is not known."""
    gpu_pool = world.pools.get(pool)
    return (
        gpu_pool.spec.hcas.count if gpu_pool is not None and gpu_pool.spec.hcas is not None else 0
    )
