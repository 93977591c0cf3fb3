"""The machine's NUMA nodes, to which simulated PCIe roots are dealt out."""

from pathlib import Path


def numa_nodes(directory: Path = Path("/sys/devices/system/node")) -> int:
    """Return how many NUMA nodes the machine has; where that cannot be told it is one."""
    return max(1, sum(1 for _ in directory.glob("node[0-9]*")))
