"""What a slice is: engines, placements, GPU instance profiles and placed instances.

Placement units are memory slices, not compute slices: a "3g" occupies four of eight units. A GPU
that MIG does not divide is an instance too, of the profile ``Board.whole``.
"""

from dataclasses import dataclass
from operator import add, le, sub

from boards.record import Provenance
from boards.record.nvml import GpuInstanceProfile
from mig.errors import IllegalLayoutError
from mig.geometry import naming
from mig.geometry.compute import ComputePlace, ComputeProfile


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
    """A GPU instance profile of one board: a row of ``nvidia-smi mig -lgip`` and of ``-lgipp``.

    The whole GPU, MIG off, has the same form. No driver lists it as a profile, so it has neither
    a ``driver_id`` nor an ``nvml_gi_enum``, and no board has it among its ``profiles``.
    """

    board_key: str
    name: str
    attribute: str
    """"" or "+me", "+gfx", "+me.all", "-me"."""
    driver_id: int | None
    nvml_gi_enum: GpuInstanceProfile | None
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
        """Return the Kubernetes resource without its domain: "mig-1g.10gb.me", "gpu"."""
        return naming.WHOLE_RESOURCE if self.is_whole else naming.resource_name(self.name)

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Return every place where an instance may be, by rising start."""
        return tuple(Placement(start, self.size) for start in self.starts)

    @property
    def is_whole(self) -> bool:
        """Return whether it is the whole GPU with MIG off, and no profile of MIG."""
        return self.nvml_gi_enum is None

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
class DeviceProfile:
    """What a MIG device is asked for by: a GPU instance profile, and how much of it to compute on.

    ``compute`` None is all of it: the device is called as its GPU instance. Else it is one of
    ``profile.ci_profiles`` that is narrower.
    """

    profile: Profile
    compute: ComputeProfile | None = None

    @property
    def name(self) -> str:
        """Return "3g.40gb", or of a narrower compute instance "1c.3g.40gb"."""
        return self.profile.name if self.compute is None else self.compute.name

    @property
    def resource_name(self) -> str:
        """Return the Kubernetes resource without its domain: "mig-1c.3g.40gb"."""
        if self.compute is None:
            return self.profile.resource_name
        return self.compute.resource_name

    @property
    def compute_slices(self) -> int:
        """Return the compute slices that are the device's own."""
        if self.compute is None:
            return self.profile.compute_slices
        return self.compute.compute_slices

    @property
    def sm_count(self) -> int:
        """Return the SMs that are the device's own; memory is its GPU instance's."""
        return self.profile.sm_count if self.compute is None else self.compute.sm_count

    @property
    def places(self) -> "tuple[Instance, ...]":
        """Return every place that it has, by start, then by its start in the GPU instance."""
        starts = self.profile.starts
        if self.compute is None:
            return tuple(Instance(self.profile, start) for start in starts)
        inner = [ComputePlace(self.compute, start) for start in self.compute.starts]
        return tuple(Instance(self.profile, start, place) for start in starts for place in inner)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Instance:
    """A placed MIG device: a GPU instance, with a compute instance of full width or a narrower one.

    ``compute`` None is the GPU instance with all that it has; else the compute instance inside it,
    beside which others can exist in the same GPU instance (same ``profile``, same ``start``).
    Raises IllegalLayoutError at a start that it cannot have.
    """

    profile: Profile
    start: int
    compute: ComputePlace | None = None

    def __post_init__(self) -> None:
        if self.start not in self.profile.starts:
            self._refuse(self.profile.name, self.start, self.profile.starts)
        if self.compute is None:
            return
        inner, start = self.compute.profile, self.compute.start
        if inner not in self.profile.ci_profiles or inner.is_full:
            narrower = [one.name for one in self.profile.ci_profiles if not one.is_full]
            raise IllegalLayoutError(
                self.profile.board_key,
                [
                    f"{self.profile.name} has no narrower compute instance {inner.name}; "
                    f"it has {', '.join(narrower) or 'none'}"
                ],
            )
        if start not in inner.starts:
            where = f"{inner.name} in the GPU instance at {self.start}"
            self._refuse(where, start, inner.starts)

    def _refuse(self, what: str, start: int, legal: tuple[int, ...]) -> None:
        starts = ", ".join(map(str, legal))
        raise IllegalLayoutError(
            self.profile.board_key,
            [f"{what} cannot start at {start}; legal starts: {starts}"],
        )

    @property
    def compute_start(self) -> int | None:
        """Return its first compute slice in the GPU instance; None: it has all of them."""
        return None if self.compute is None else self.compute.start

    @property
    def placement(self) -> Placement:
        """Return the units that its GPU instance occupies."""
        return Placement(self.start, self.profile.size)

    @property
    def gpu_instance(self) -> "Instance":
        """Return the GPU instance that it is in: itself when it is of full width."""
        return self if self.compute is None else Instance(self.profile, self.start)

    @property
    def device(self) -> DeviceProfile:
        """Return what it is called by, without its place."""
        return DeviceProfile(self.profile, None if self.compute is None else self.compute.profile)

    def overlaps(self, other: "Instance") -> bool:
        """Tell whether both claim a placement unit, or a compute slice of one GPU instance."""
        if self.compute is None or other.compute is None or self.profile != other.profile:
            return self.placement.overlaps(other.placement)
        if self.start != other.start:
            return self.placement.overlaps(other.placement)
        return self.compute.overlaps(other.compute)

    def __str__(self) -> str:
        return naming.place_name(self.device.name, self.start, self.compute_start)
