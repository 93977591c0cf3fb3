"""The host's memory: the default budget of device memory, and how much of it can be taken now.

The kernel ends a process when memory runs out, often the worker, which is the largest. So an
allocation that the host cannot back must fail before it is filled (ADR 13). In a container, the
kernel does so when the limit of a control group is reached, however much the host has.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from vgpu_sim.gpud.limits.cgroups.own import find_groups
from vgpu_sim.records import dataclass

MEMINFO: Final = Path("/proc/meminfo")
# Programs, the page cache and all other processes of the host use its memory too.
SHARE_OF_HOST: Final = 0.5
# What stays for them at least, unless the host has little: then three quarters of what it has.
RESERVE_BYTES: Final = 2 << 30
_FEW: Final = 4
# The files of the limit and of the usage, in both versions of control groups.
_LIMITS: Final = (
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The memory of the host or of a control group, in bytes. ``shared_bytes`` includes the
    filled device memory.
    """

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


def read_group(group: Path) -> Reading | None:
    """Return the state of a control group's memory, or None if it has no limit.

    Pages of files that were not used lately count as usage there, but the kernel drops them before
    it ends a process.
    """
    for limit_name, usage_name in _LIMITS:
        with suppress(OSError):
            limit = group.joinpath(limit_name).read_text(encoding="ascii").strip()
            if limit == "max":
                return None
            usage = int(group.joinpath(usage_name).read_text(encoding="ascii"))
            text = group.joinpath("memory.stat").read_text(encoding="ascii")
            fields = dict(line.split() for line in text.splitlines())
            # Version 1 has the sums with the groups below as fields of their own.
            inactive, shared = (
                int(fields.get(f"total_{name}", fields.get(name, 0)))
                for name in ("inactive_file", "shmem")
            )
            available = int(limit) - max(0, usage - inactive)
            return Reading(int(limit), max(0, available), shared)
    return None


def available_bytes(meminfo: Path = MEMINFO, groups: Sequence[Path] | None = None) -> int:
    """Return what the host and the groups have available. Raises as ``read``."""
    return min(reading.available_bytes for reading in _read_all(meminfo, groups).values())


def default_budget_bytes(meminfo: Path = MEMINFO, groups: Sequence[Path] | None = None) -> int:
    """Return half of the memory, or less if less can be taken now.

    ``groups`` are control groups that limit this process, by default its own and their ancestors:
    the memory is the host's or a group's, whichever gives less.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has no MemTotal.
    """
    return min(
        min(int(reading.total_bytes * SHARE_OF_HOST), reading.spare_bytes)
        for reading in _read_all(meminfo, groups).values()
    )


def _read_all(meminfo: Path, groups: Sequence[Path] | None) -> dict[Path, Reading]:
    """Return the state of the host and of each group that has a limit."""
    readings = {meminfo: read(meminfo)}
    for group in find_groups() if groups is None else groups:
        reading = read_group(group)
        if reading is not None:
            readings[group] = reading
    return readings


class HostMemory:
    """Computes how many bytes a gpud of one user can grant at a moment."""

    def __init__(self, meminfo: Path = MEMINFO, groups: Sequence[Path] | None = None) -> None:
        """Remember the shared memory that exists before any device memory. Raises as ``read``."""
        self._meminfo = meminfo
        self._groups = find_groups() if groups is None else groups
        self._shared_before_bytes = {
            path: reading.shared_bytes for path, reading in self._read().items()
        }

    def free_bytes(self, used_bytes: int) -> int:
        """Return what can be granted beyond ``used_bytes``, which are granted already.

        A worker fills memory after its grant, so granted bytes may still count as available.
        """
        spare_bytes = []
        for path, reading in self._read().items():
            grown = reading.shared_bytes - self._shared_before_bytes.get(path, reading.shared_bytes)
            filled = min(max(grown, 0), used_bytes)
            spare_bytes.append(reading.spare_bytes - (used_bytes - filled))
        return max(0, min(spare_bytes))

    def _read(self) -> dict[Path, Reading]:
        return _read_all(self._meminfo, self._groups)
