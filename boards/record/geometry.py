"""A board's MIG geometry as its driver prints it: MiB, SMs, engines, placements.

Names, resource names and compute instance profiles are derived from it (``mig.geometry``).
"""

from dataclasses import dataclass

from boards.record.provenance import Provenance
from boards.record.shapes import Shape


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """The resources of one MIG instance on one board; ``shape`` is the instance's shape.

    ``engines`` has the numbers of CE, DEC, ENC, JPG and OFA engines, in this order.
    """

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
    """The ways in which MIG can divide a board.

    One entry of ``rows`` must describe the whole GPU. The engines of this entry are all engines
    of the board.
    """

    pci_device_id: int
    memory_mib: int
    memory_provenance: Provenance
    placement_units: int
    compute_slices: int
    ci_sm_per_slice: int
    """SMs per slice of a compute instance that is narrower than its GPU instance.

    For some boards no listing prints it; then it is derived from the plain one-slice profile,
    which has as many SMs on every board whose listing is known.
    """
    ci_provenance: Provenance
    rows: tuple[ProfileRow, ...]
