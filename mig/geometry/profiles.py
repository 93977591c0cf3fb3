"""Parts of a slice: engines, placements, GPU instance profiles and placed instances.

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
        """Return the numbers of the five kinds of engines, in the order of the fields."""
        return (self.copy, self.decoder, self.encoder, self.jpeg, self.ofa)

    def __add__(self, other: "Engines") -> "Engines":
        return Engines(*map(add, self.counts(), other.counts()))

    def __sub__(self, other: "Engines") -> "Engines":
        return Engines(*map(sub, self.counts(), other.counts()))

    def within(self, budget: "Engines") -> bool:
        """Return whether there are at most as many engines of each kind as in ``budget``."""
        return all(map(le, self.counts(), budget.counts()))


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """A run of placement units: ``start`` is the first, ``size`` their number."""

    start: int
    size: int

    @property
    def end(self) -> int:
        """Return the number of the first placement unit after this placement."""
        return self.start + self.size

    def overlaps(self, other: "Placement") -> bool:
        """Return whether the two placements share a unit."""
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class Profile:
    """A GPU instance profile of one board: a row of ``nvidia-smi mig -lgip`` and of ``-lgipp``.

    A whole GPU with MIG off is represented in the same way. No driver lists it as a profile, so it
    has neither a ``driver_id`` nor an ``nvml_gi_enum``, and no board has it among its ``profiles``.
    """

    board_key: str
    name: str
    attribute: str
    """The profile's attribute with its sign: "+me", "+gfx", "+me.all", "-me"; "" without one."""
    driver_id: int | None
    nvml_gi_enum: GpuInstanceProfile | None
    compute_slices: int
    size: int
    """Number of placement units that one instance occupies."""
    memory_bytes: int
    """Memory of one instance as the driver prints it; the figure in the name is larger."""
    other_memory_bytes: tuple[int, ...]
    """Other values of ``memory_bytes``, from other driver branches or ECC settings."""
    sm_count: int
    max_count: int
    starts: tuple[int, ...]
    engines: Engines
    aliases: tuple[str, ...]
    provenance: Provenance
    derived_fields: tuple[str, ...]
    """Fields that are computed, although the row's ``provenance`` is better."""
    note: str
    ci_profiles: tuple[ComputeProfile, ...]

    def __hash__(self) -> int:
        return hash((self.board_key, self.name))

    @property
    def resource_name(self) -> str:
        """Return the profile's Kubernetes resource without domain: "mig-1g.10gb.me", "gpu"."""
        return naming.WHOLE_RESOURCE if self.is_whole else naming.resource_name(self.name)

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Return every placement that the board allows for this profile, ordered by start."""
        return tuple(Placement(start, self.size) for start in self.starts)

    @property
    def is_whole(self) -> bool:
        """Return whether this is the whole GPU with MIG off, and not a MIG profile."""
        return self.nvml_gi_enum is None

    @property
    def is_plain(self) -> bool:
        """Return whether the profile has no attribute (media, graphics)."""
        return not self.attribute

    @property
    def is_classic(self) -> bool:
        """Return whether the profile has no attribute and is not the profile with one compute slice
        and twice the memory of "1g".
        """
        return self.is_plain and self.nvml_gi_enum is not GpuInstanceProfile.SLICE_1_REV2

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """The profile of a MIG device: a GPU instance profile, and perhaps a compute instance profile.

    If ``compute`` is None, the device has all compute slices and the name of its GPU instance.
    Otherwise ``compute`` is one of ``profile.ci_profiles`` and has fewer compute slices than the
    GPU instance.
    """

    profile: Profile
    compute: ComputeProfile | None = None

    @property
    def name(self) -> str:
        """Return the device's name: "3g.40gb", or "1c.3g.40gb" for a narrower compute instance."""
        return self.profile.name if self.compute is None else self.compute.name

    @property
    def resource_name(self) -> str:
        """Return the device's Kubernetes resource without its domain: "mig-1c.3g.40gb"."""
        if self.compute is None:
            return self.profile.resource_name
        return self.compute.resource_name

    @property
    def compute_slices(self) -> int:
        """Return the number of compute slices that the device has to itself."""
        if self.compute is None:
            return self.profile.compute_slices
        return self.compute.compute_slices

    @property
    def sm_count(self) -> int:
        """Return how many SMs the device has to itself.

        A device that is narrower than its GPU instance still shares the GPU instance's memory.
        """
        return self.profile.sm_count if self.compute is None else self.compute.sm_count

    @property
    def places(self) -> "tuple[Instance, ...]":
        """Return every legal place of the device. Each place is an ``Instance``.

        The places are ordered by the start of the GPU instance, then by the start of the compute
        instance in the GPU instance.
        """
        starts = self.profile.starts
        if self.compute is None:
            return tuple(Instance(self.profile, start) for start in starts)
        inner = [ComputePlace(self.compute, start) for start in self.compute.starts]
        return tuple(Instance(self.profile, start, place) for start in starts for place in inner)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Instance:
    """A placed MIG device: a whole GPU instance, or a narrower compute instance in a GPU instance.

    If ``compute`` is None, the device is the whole GPU instance. Otherwise the device is the
    compute instance at ``compute``. The same GPU instance (the same ``profile`` and ``start``)
    can contain further compute instances. Raises IllegalLayoutError for an illegal start.
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
            narrower = [
                ci_profile.name for ci_profile in self.profile.ci_profiles if not ci_profile.is_full
            ]
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

    def _refuse(self, subject: str, start: int, legal: tuple[int, ...]) -> None:
        starts = ", ".join(map(str, legal))
        raise IllegalLayoutError(
            self.profile.board_key,
            [f"{subject} cannot start at {start}; legal starts: {starts}"],
        )

    @property
    def compute_start(self) -> int | None:
        """Return the device's first compute slice in its GPU instance.

        The result is None if the device has all of the GPU instance's compute slices.
        """
        return None if self.compute is None else self.compute.start

    @property
    def placement(self) -> Placement:
        """Return the placement units that the device's GPU instance occupies."""
        return Placement(self.start, self.profile.size)

    @property
    def gpu_instance(self) -> "Instance":
        """Return the device's GPU instance; if the device is a whole GPU instance, return the
        device.
        """
        return self if self.compute is None else Instance(self.profile, self.start)

    @property
    def device(self) -> DeviceProfile:
        """Return the device's profile, without its place."""
        return DeviceProfile(self.profile, None if self.compute is None else self.compute.profile)

    def overlaps(self, other: "Instance") -> bool:
        """Return whether this device and ``other`` use the same hardware and so cannot exist
        together.

        If each of the two devices has only some of the compute slices of the same GPU instance,
        they overlap if they share a compute slice. Any other two devices overlap if their GPU
        instances share a placement unit.
        """
        if self.compute is None or other.compute is None or self.profile != other.profile:
            return self.placement.overlaps(other.placement)
        if self.start != other.start:
            return self.placement.overlaps(other.placement)
        return self.compute.overlaps(other.compute)

    def __str__(self) -> str:
        return naming.place_name(self.device.name, self.start, self.compute_start)
