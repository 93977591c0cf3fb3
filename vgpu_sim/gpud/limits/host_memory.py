"""The host's memory: the default budget of device memory, and how much of it can be taken now.

The kernel ends a process when memory runs out, often the worker, which is the largest. So an
allocation that the host cannot back must fail before it is filled (ADR 13).
"""

from pathlib import Path
from typing import Final

from vgpu_sim.records import dataclass

MEMINFO: Final = Path("/proc/meminfo")
# Programs, the page cache and all other processes of the host use its memory too.
SHARE_OF_HOST: Final = 0.5
# What stays for them at least, unless the host has little: then three quarters of what it has.
RESERVE_BYTES: Final = 2 << 30
_FEW: Final = 4


@dataclass(frozen=True, slots=True)
class Reading:
    """Fields of /proc/meminfo, in bytes. ``shared_bytes`` includes the filled device memory."""

    total_bytes: int
    available_bytes: int
    shared_bytes: int

    @property
    def spare_bytes(self) -> int:
        """What device memory can take, in bytes."""
        available = self.available_bytes
        return max(available - RESERVE_BYTES, available // _FEW)


def read(meminfo: Path = MEMINFO) -> Reading:
    """Return the state of the host's memory. Raises OSError, or ValueError if a field is missing.

    A kernel without MemAvailable is taken to have all memory available.
    """
    fields = {}
    for line in meminfo.read_text(encoding="ascii").splitlines():
        name, _, text = line.partition(":")
        if text.endswith(" kB"):
            fields[name] = int(text.split()[0]) << 10
    if "MemTotal" not in fields:
        raise ValueError(f"{meminfo} has no MemTotal")
    total = fields["MemTotal"]
    return Reading(total, fields.get("MemAvailable", total), fields.get("Shmem", 0))


def default_budget_bytes(meminfo: Path = MEMINFO) -> int:
    """Return half of the host's memory, or less if less can be taken now.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has no MemTotal.
    """
    reading = read(meminfo)
    return min(int(reading.total_bytes * SHARE_OF_HOST), reading.spare_bytes)


class HostMemory:
    """Computes how many bytes a gpud of one user can grant at a moment."""

    def __init__(self, meminfo: Path = MEMINFO) -> None:
        """Remember the shared memory that exists before any device memory. Raises as ``read``."""
        self._meminfo = meminfo
        self._shared_before_bytes = read(meminfo).shared_bytes

    def free_bytes(self, used_bytes: int) -> int:
        """Return what can be granted beyond ``used_bytes``, which are granted already.

        A worker fills memory after its grant, so granted bytes may still count as available.
        """
        reading = read(self._meminfo)
        grown = reading.shared_bytes - self._shared_before_bytes
        filled = min(max(grown, 0), used_bytes)
        return max(0, reading.spare_bytes - (used_bytes - filled))
