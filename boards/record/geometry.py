"""A board's MIG geometry as its driver prints it: MiB, SMs, engines, placements.

Names, resource names and compute instance profiles follow from that (``mig.geometry``).
"""

from dataclasses import dataclass

from boards.record.provenance import Provenance
from boards.record.shapes import Shape


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """What one instance of a shape holds, as printed. ``engines`` are CE, DEC, ENC, JPG, OFA."""

    shape: Shape
    memory_mib: int
    sm_count: int
    engines: tuple[int, int, int, int, int]
    provenance: Provenance
    other_memory_mib: tuple[int, ...] = ()
    aliases: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """How MIG divides a board. One row must be the whole GPU: its engines are the budget of all."""

    pci_device_id: int
    memory_mib: int
    memory_provenance: Provenance
    placement_units: int
    compute_slices: int
    ci_sm_per_slice: int
    """SMs per slice of a compute instance narrower than its GPU instance.

    No listing gives it for every board; where it is derived it is the SMs of the plain one-slice
    profile, which is what it is on every board whose listing is known.
    """
    ci_provenance: Provenance
    rows: tuple[ProfileRow, ...]
