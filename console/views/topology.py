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
    found = []
    for name in names[:SHOWN]:
        first = by_node[name][0].spec
        known = first.facts.topology if len(first.facts.topology) < 40 else "custom"
        hcas = _hcas(world, first.pool)
        found.append(Row(name, first.pool, first.board, known, len(by_node[name]), hcas))
    return tuple(found), max(len(names) - SHOWN, 0)


def view(world: World, node: str, traffic: Mapping[str, LinkTraffic] = NO_TRAFFIC) -> NodeTopology:
    """Return the drawing of one node with GPUs, and with the traffic of its devices' links."""
    from vgpu_sim.perf.pictures import figure_of_network, network_of  # imports numpy

    gpus = sorted(world.gpus_by_node()[node], key=lambda one: one.spec.index)
    if len({(one.spec.facts.topology, one.spec.board) for one in gpus}) > 1:
        return NodeTopology(None, "the GPUs of this node do not share one board and one topology")
    spec = gpus[0].spec
    pages = {one.spec.index: f"/gpus/{quote(one.name, safe='')}" for one in gpus}
    try:
        topology = topology_named(spec.facts.topology, max(pages) + 1)
        board = board_named(spec.board)
    except PerfError as err:
        return NodeTopology(None, str(err))
    hcas = _hcas(world, spec.pool)
    sick = [one.spec.index for one in gpus if is_sick(one)]
    network = network_of(
        topology,
        board,
        tuple(pages),
        hcas,
        page_of=lambda index: pages[index],
        sick=sick,
    )
    loads = {
        name: Load(format_rate(one.down), format_rate(one.up), max(one.down, one.up))
        for name, one in traffic.items()
    }
    network = replace(network, loads=loads)
    figure = figure_of_network(network)
    words = tuple(
        f"GPU {one.spec.index} is {describe_health(one)[:200]}" for one in gpus if is_sick(one)
    )
    flat = topology.name == FLAT and hcas > 0
    return NodeTopology(figure, "", len(network.unplaced), words, flat, network)


def _hcas(world: World, pool: str) -> int:
    """Return how many HCAs the nodes of a pool have; 0 if the pool is not known."""
    known = world.pools.get(pool)
    return known.spec.hcas.count if known is not None and known.spec.hcas is not None else 0
