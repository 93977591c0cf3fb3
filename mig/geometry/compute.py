"""Compute instances: the division of a GPU instance's compute slices.

Their places are in compute slices inside the GPU instance; memory and engines stay shared. The
shapes below are those of ``nvidia-smi mig -lcip``. Compute instances can coexist if their runs
of slices do not overlap: there is no other rule.
"""

from dataclasses import dataclass

from boards.record import Provenance
from boards.record.nvml import ComputeInstanceProfile as Ci
from mig.geometry import naming

# GPU instance slices -> compute instance slices -> starts inside the GPU instance.
_STARTS: dict[int, dict[int, tuple[int, ...]]] = {
    1: {1: (0,)},
    2: {1: (0, 1), 2: (0,)},
    3: {1: (0, 1, 2), 2: (0,), 3: (0,)},
    4: {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)},
    7: {1: (0, 1, 2, 3, 4, 5, 6), 2: (0, 2, 4), 3: (0, 4), 4: (0,), 7: (0,)},
}
_ENUMS = {1: Ci.SLICE_1, 2: Ci.SLICE_2, 3: Ci.SLICE_3, 4: Ci.SLICE_4, 7: Ci.SLICE_7}


@dataclass(frozen=True, slots=True)
class ComputeProfile:
    """A compute instance profile that one GPU instance profile supports."""

    name: str
    """The profile's name, such as "1c.3g.40gb"; at full width it is the GPU instance's own name."""
    nvml_ci_enum: Ci
    compute_slices: int
    starts: tuple[int, ...]
    """The compute slices of the GPU instance at which the compute instance may begin."""
    gi_slices: int
    """Number of compute slices that the GPU instance has."""
    sm_count: int
    """Number of SMs that the compute instance has to itself."""
    provenance: Provenance
    """Source of the figure ``sm_count``."""

    @property
    def driver_id(self) -> int:
        """Return the profile's NVML enumeration value, which ``nvidia-smi mig -cci`` takes."""
        return int(self.nvml_ci_enum)

    @property
    def max_count(self) -> int:
        """Return how many compute instances of this profile fit into one GPU instance."""
        return len(self.starts)

    @property
    def is_full(self) -> bool:
        """Return whether the profile has all compute slices of its GPU instance.

        If it does, a compute instance with this profile has the same name as its GPU instance.
        """
        return self.compute_slices == self.gi_slices

    @property
    def resource_name(self) -> str:
        """Return the profile's Kubernetes resource without domain: "mig-1c.3g.40gb"."""
        return naming.resource_name(self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ComputePlace:
    """Place of a compute instance inside its GPU instance: ``start`` is its first compute slice.

    ``Instance`` checks that the GPU instance has such a place.
    """

    profile: ComputeProfile
    start: int

    @property
    def end(self) -> int:
        """Return the number of the first compute slice after the compute instance."""
        return self.start + self.profile.compute_slices

    def overlaps(self, other: "ComputePlace") -> bool:
        """Return whether two places in the same GPU instance have a compute slice in common.

        The caller ensures that both places are in the same GPU instance.
        """
        return self.start < other.end and other.start < self.end


def compute_profiles(
    gi_name: str,
    gi_slices: int,
    gi_sm_count: int,
    gi_provenance: Provenance,
    sm_per_slice: int,
    sm_provenance: Provenance,
) -> tuple[ComputeProfile, ...]:
    """Return the compute instance profiles of a GPU instance, narrowest first.

    A compute instance of full width owns all SMs of its GPU instance. A narrower one owns
    ``sm_per_slice`` SMs for each of its slices. A GPU instance can have more SMs than
    ``sm_per_slice`` for each of its slices: Hopper's 3g has 60. Narrower compute instances leave
    these extra SMs unused.
    """
    profiles = []
    for slices, starts in _STARTS[gi_slices].items():
        full = slices == gi_slices
        profiles.append(
            ComputeProfile(
                name=gi_name if full else f"{slices}c.{gi_name}",
                nvml_ci_enum=_ENUMS[slices],
                compute_slices=slices,
                starts=starts,
                gi_slices=gi_slices,
                sm_count=gi_sm_count if full else slices * sm_per_slice,
                provenance=gi_provenance if full else sm_provenance,
            )
        )
    return tuple(profiles)
