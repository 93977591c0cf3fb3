"""Figures that device attributes need and MIG geometry lacks, from the records in ``boards``."""

from collections.abc import Mapping
from types import MappingProxyType

from boards import RECORDS
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a whole GPU: its highest clocks in kHz, the width of its memory bus in bits, and
    the size of its second-level cache in bytes; and ``Silicon.async_engines``.
    """

    max_clock_khz: int
    memory_clock_khz: int
    bus_bits: int
    l2_bytes: int
    async_engines: int | None


BOARDS: Mapping[str, Figures] = MappingProxyType(
    {
        key: Figures(
            record.device.silicon.max_clock_khz,
            record.device.silicon.memory_clock_khz,
            record.device.silicon.bus_bits,
            record.l2_bytes,
            record.device.silicon.async_engines,
        )
        for key, record in RECORDS.items()
        if record.device is not None
    }
)
