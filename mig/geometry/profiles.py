"""What a slice is: engines, placements, GPU instance profiles and placed instances.

Placement units are memory slices, not compute slices: a "3g" occupies four of eight units.
"""

from dataclasses import dataclass
from operator import add, le, sub

from mig.errors import IllegalLayoutError
from mig.geometry import naming
from mig.geometry.compute import ComputeProfile
from mig.geometry.nvml import GpuInstanceProfile
from mig.geometry.provenance import Provenance


@dataclass(frozen=True, slots=True)
class Engines:
    """Numbers of fixed-function engines: copy, video decode and encode, JPEG, optical flow."""

    copy: int = 0
    decoder: int = 0
    encoder: int = 0
    jpeg: int = 0
    ofa: int = 0

    def counts(self) -> tuple[int, int, int, int, int]:
        """Return the five numbers in the order of the fields."""
        return (self.copy, self.decoder, self.encoder, self.jpeg, self.ofa)

    def __add__(self, other: "Engines") -> "Engines":
        return Engines(*map(add, self.counts(), other.counts()))

    def __sub__(self, other: "Engines") -> "Engines":
        return Engines(*map(sub, self.counts(), other.counts()))

    def within(self, budget: "Engines") -> bool:
        """Tell whether no number exceeds the budget's."""
        return all(map(le, self.counts(), budget.counts()))


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """A run of placement units: ``start`` is the first, ``size`` their number."""

    start: int
    size: int

    @property
    def end(self) -> int:
        """Return the unit after the last."""
        return self.start + self.size

    def overlaps(self, other: "Placement") -> bool:
        """Tell whether both claim a unit."""
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class Profile:
    """A GPU instance profile of one board: a row of ``nvidia-smi mig -lgip`` and of ``-lgipp``."""

    board_key: str
    name: str
    attribute: str
    """"" or "+me", "+gfx", "+me.all", "-me"."""
    driver_id: int
    nvml_gi_enum: GpuInstanceProfile
    compute_slices: int
    size: int
    """Placement units that one instance occupies."""
    memory_bytes: int
    """Memory that the driver prints for one instance; the name's figure is larger."""
    other_memory_bytes: tuple[int, ...]
    """What other driver branches or ECC settings print for the same profile."""
    sm_count: int
    max_count: int
    starts: tuple[int, ...]
    engines: Engines
    aliases: tuple[str, ...]
    provenance: Provenance
    derived_fields: tuple[str, ...]
    """Fields of this row that are arithmetic although the row's ``provenance`` is better."""
    note: str
    ci_profiles: tuple[ComputeProfile, ...]

    def __hash__(self) -> int:
        return hash((self.board_key, self.name))

    @property
    def resource_name(self) -> str:
        """Return the Kubernetes resource without its domain: "mig-1g.10gb.me"."""
        return naming.resource_name(self.name)

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Return every place where an instance may be, by rising start."""
        return tuple(Placement(start, self.size) for start in self.starts)

    @property
    def is_plain(self) -> bool:
        """Return whether it has no attribute (media, graphics)."""
        return not self.attribute

    @property
    def is_classic(self) -> bool:
        """Return whether it is plain and not the one-slice profile with double memory."""
        return self.is_plain and self.nvml_gi_enum is not GpuInstanceProfile.SLICE_1_REV2

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Instance:
    """A GPU instance: a profile at a start. Raises IllegalLayoutError at a start it cannot have."""

    profile: Profile
    start: int

    def __post_init__(self) -> None:
        if self.start not in self.profile.starts:
            legal = ", ".join(map(str, self.profile.starts))
            raise IllegalLayoutError(
                self.profile.board_key,
                [f"{self.profile.name} cannot start at {self.start}; legal starts: {legal}"],
            )

    @property
    def placement(self) -> Placement:
        """Return the units that it occupies."""
        return Placement(self.start, self.profile.size)

    def __str__(self) -> str:
        return naming.place_name(self.profile.name, self.start)
