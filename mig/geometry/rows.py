"""The form in which boards are written down, and how a board is built from it.

A table says what a driver prints (MiB, SMs, engines, placements); names, resource names and compute
instance profiles follow from that.
"""

from dataclasses import dataclass

from mig.geometry import naming
from mig.geometry.boards import Board
from mig.geometry.compute import compute_profiles
from mig.geometry.profiles import Engines, Profile
from mig.geometry.provenance import Provenance
from mig.geometry.shapes import Shape


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


@dataclass(frozen=True, slots=True)
class BoardTable:
    """A board as printed. One row must be the whole GPU: its engines are the budget of all."""

    key: str
    product_name: str
    architecture: str
    compute_capability: tuple[int, int]
    pci_device_id: int
    memory_mib: int
    memory_provenance: Provenance
    sm_count: int
    placement_units: int
    compute_slices: int
    ci_sm_per_slice: int
    """SMs per slice of a compute instance narrower than its GPU instance.

    No listing gives it for every board; where it is derived it is the SMs of the plain one-slice
    profile, which is what it is on every board whose listing is known.
    """
    ci_provenance: Provenance
    rows: tuple[ProfileRow, ...]


def build(table: BoardTable) -> Board:
    """Return the board that a table describes."""
    board_bytes = table.memory_mib * naming.MIB
    return Board(
        key=table.key,
        product_name=table.product_name,
        architecture=table.architecture,
        compute_capability=table.compute_capability,
        pci_device_id=table.pci_device_id,
        memory_bytes=board_bytes,
        memory_provenance=table.memory_provenance,
        sm_count=table.sm_count,
        placement_units=table.placement_units,
        compute_slices=table.compute_slices,
        engines=Engines(*_whole_gpu(table).engines),
        profiles=tuple(_profile(table, row, board_bytes) for row in table.rows),
        whole=_undivided(table, board_bytes),
    )


def _undivided(table: BoardTable, board_bytes: int) -> Profile:
    """Return the GPU with MIG off: everything that the board has, in one instance."""
    return Profile(
        board_key=table.key,
        name=naming.WHOLE,
        attribute="",
        driver_id=None,
        nvml_gi_enum=None,
        compute_slices=table.compute_slices,
        size=table.placement_units,
        memory_bytes=board_bytes,
        other_memory_bytes=(),
        sm_count=table.sm_count,
        max_count=1,
        starts=(0,),
        engines=Engines(*_whole_gpu(table).engines),
        aliases=(),
        provenance=table.memory_provenance,
        derived_fields=("engines",),
        note="MIG off: the board's own memory and SMs; engines as its largest profile prints them",
        ci_profiles=(),
    )


def _whole_gpu(table: BoardTable) -> ProfileRow:
    for row in table.rows:
        if row.shape.size == table.placement_units:
            return row
    raise ValueError(f"table {table.key} has no row for the whole GPU")


def _profile(table: BoardTable, row: ProfileRow, board_bytes: int) -> Profile:
    memory_bytes = row.memory_mib * naming.MIB
    name = naming.profile_name(
        row.shape.compute_slices, memory_bytes, board_bytes, row.shape.attribute
    )
    return Profile(
        board_key=table.key,
        name=name,
        attribute=row.shape.attribute,
        driver_id=row.shape.driver_id,
        nvml_gi_enum=row.shape.gi_enum,
        compute_slices=row.shape.compute_slices,
        size=row.shape.size,
        memory_bytes=memory_bytes,
        other_memory_bytes=tuple(mib * naming.MIB for mib in row.other_memory_mib),
        sm_count=row.sm_count,
        max_count=row.shape.max_count,
        starts=row.shape.starts,
        engines=Engines(*row.engines),
        aliases=row.aliases,
        provenance=row.provenance,
        derived_fields=row.derived,
        note=row.note,
        ci_profiles=compute_profiles(
            name,
            row.shape.compute_slices,
            row.sm_count,
            row.provenance,
            table.ci_sm_per_slice,
            table.ci_provenance,
        ),
    )
