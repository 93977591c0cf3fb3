"""Builds a board from its record.

A record contains what a driver prints (MiB, SMs, engines, placements). Names, resource names and
compute instance profiles are derived from that.
"""

from boards.record import BoardRecord, Geometry, ProfileRow
from mig.geometry import naming
from mig.geometry.boards import Board
from mig.geometry.compute import compute_profiles
from mig.geometry.profiles import Engines, Profile


def build(record: BoardRecord, geometry: Geometry) -> Board:
    """Return the board that ``geometry`` describes."""
    board_bytes = geometry.memory_mib * naming.MIB
    return Board(
        key=record.key,
        product_name=record.product_name,
        architecture=record.architecture,
        compute_capability=record.compute_capability,
        pci_device_id=geometry.pci_device_id,
        memory_bytes=board_bytes,
        memory_provenance=geometry.memory_provenance,
        sm_count=record.sm_count,
        placement_units=geometry.placement_units,
        compute_slices=geometry.compute_slices,
        engines=Engines(*_whole_gpu(record, geometry).engines),
        profiles=tuple(_profile(record, geometry, row, board_bytes) for row in geometry.rows),
        whole=_whole_gpu_profile(record, geometry, board_bytes),
    )


def _whole_gpu_profile(record: BoardRecord, geometry: Geometry, board_bytes: int) -> Profile:
    """Return the profile of the GPU with MIG off; one instance has all that the board has."""
    return Profile(
        board_key=record.key,
        name=naming.WHOLE,
        attribute="",
        driver_id=None,
        nvml_gi_enum=None,
        compute_slices=geometry.compute_slices,
        size=geometry.placement_units,
        memory_bytes=board_bytes,
        other_memory_bytes=(),
        sm_count=record.sm_count,
        max_count=1,
        starts=(0,),
        engines=Engines(*_whole_gpu(record, geometry).engines),
        aliases=(),
        provenance=geometry.memory_provenance,
        derived_fields=("engines",),
        note="MIG off: the board's own memory and SMs; engines as its largest profile prints them",
        ci_profiles=(),
    )


def _whole_gpu(record: BoardRecord, geometry: Geometry) -> ProfileRow:
    for row in geometry.rows:
        if row.shape.size == geometry.placement_units:
            return row
    raise ValueError(f"record {record.key} has no row for the whole GPU")


def _profile(record: BoardRecord, geometry: Geometry, row: ProfileRow, board_bytes: int) -> Profile:
    memory_bytes = row.memory_mib * naming.MIB
    name = naming.profile_name(
        row.shape.compute_slices, memory_bytes, board_bytes, row.shape.attribute
    )
    return Profile(
        board_key=record.key,
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
            geometry.ci_sm_per_slice,
            geometry.ci_provenance,
        ),
    )
