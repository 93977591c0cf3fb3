"""The machine's NUMA nodes, over which simulated PCIe roots are distributed."""

from pathlib import Path


def numa_nodes(directory: Path = Path("/sys/devices/system/node")) -> int:
    """Return the number of the machine's NUMA nodes; 1 if the number cannot be read."""
    return max(1, sum(1 for _ in directory.glob("node[0-9]*")))
