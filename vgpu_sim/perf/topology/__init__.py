"""How a node's GPUs, HCAs and CPUs are connected, as data, and the effect on transfers.

This package imports only the standard library, because gpud and the node agent import it too.
"""

from vgpu_sim.perf.topology.fairness import bottlenecks, finish_us, max_min
from vgpu_sim.perf.topology.places import Expander, Level, Place, Topology
from vgpu_sim.perf.topology.presets import FLAT, PRESETS, topology_named

__all__ = [
    "FLAT",
    "PRESETS",
    "Expander",
    "Level",
    "Place",
    "Topology",
    "bottlenecks",
    "finish_us",
    "max_min",
    "topology_named",
]
