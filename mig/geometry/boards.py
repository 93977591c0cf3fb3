"""The MIG data of a board: the totals of its resources, and its profiles."""

import re
from dataclasses import dataclass

from boards.record import Provenance
from mig.errors import IllegalLayoutError, UnknownProfileError
from mig.geometry import naming
from mig.geometry.compute import ComputePlace
from mig.geometry.profiles import DeviceProfile, Engines, Instance, Profile

_NARROW = re.compile(r"([1-9])c\.", re.ASCII)


@dataclass(frozen=True, slots=True)
class Board:
    """A GPU product with its MIG geometry. Boards come from ``mig.geometry.BOARDS``."""

    key: str
    product_name: str
    """The name that ``nvidia-smi -L`` prints."""
    architecture: str
    compute_capability: tuple[int, int]
    pci_device_id: int
    memory_bytes: int
    """The size of the whole frame buffer, from which the memory figures in names are derived."""
    memory_provenance: Provenance
    sm_count: int
    """Number of SMs without MIG; profiles can own fewer in total (98 of 108 on A100)."""
    placement_units: int
    compute_slices: int
    engines: Engines
    """The engines that all instances together can own."""
    profiles: tuple[Profile, ...]
    """The MIG profiles; ``whole`` is not among them."""
    whole: Profile
    """The GPU with MIG off, as a profile: its only instance excludes every other instance."""

    def __hash__(self) -> int:
        return hash(self.key)

    def profile(self, name: str) -> Profile:
        """Return the profile with this name, alias or Kubernetes spelling ("1g.10gb.me").

        The name "whole" stands for the whole GPU. Raises UnknownProfileError, which lists the
        MIG profiles.
        """
        if name == self.whole.name:
            return self.whole
        for profile in self.profiles:
            dotted = profile.resource_name.removeprefix("mig-")
            if name in (profile.name, dotted) or name in profile.aliases:
                return profile
        raise UnknownProfileError(self.key, name, (profile.name for profile in self.profiles))

    @property
    def device_profiles(self) -> tuple[DeviceProfile, ...]:
        """Return the profiles of all MIG devices that the board supports.

        Each GPU instance profile is followed by the profiles of its narrower devices, which have
        only some of its compute slices.
        """
        return tuple(
            DeviceProfile(profile, inner)
            for profile in self.profiles
            for inner in (
                None,
                *(ci_profile for ci_profile in profile.ci_profiles if not ci_profile.is_full),
            )
        )

    def device_profile(self, name: str) -> DeviceProfile:
        """Return the device profile with this name.

        The name is one that ``profile`` accepts, or one like "1c.3g.40gb", as ``nvidia-smi mig
        -lcip`` prints. Raises UnknownProfileError, which lists the narrower devices if the GPU
        instance profile exists.
        """
        match = _NARROW.match(name)
        if match is None:
            return DeviceProfile(self.profile(name))
        try:
            profile = self.profile(name[match.end() :])
        except UnknownProfileError as err:
            raise UnknownProfileError(self.key, name, err.legal) from None
        for ci_profile in profile.ci_profiles:
            if ci_profile.compute_slices == int(match[1]) and not ci_profile.is_full:
                return DeviceProfile(profile, ci_profile)
        raise UnknownProfileError(
            self.key, name, (ci_profile.name for ci_profile in profile.ci_profiles)
        )

    def instance(self, name: str, start: int, compute_start: int | None = None) -> Instance:
        """Return the device with the profile ``name`` (see ``device_profile``) at the given place.

        ``start`` is the first placement unit of the device's GPU instance. ``compute_start`` is
        given only for a device that is narrower than its GPU instance: it is the first of the
        GPU instance's compute slices that the device has. Raises UnknownProfileError,
        IllegalLayoutError.
        """
        device = self.device_profile(name)
        if device.compute is None:
            if compute_start is not None:
                raise IllegalLayoutError(
                    self.key,
                    [f"{device} has all of its GPU instance, and no place {compute_start} inside"],
                )
            return Instance(device.profile, start)
        if compute_start is None:
            starts = ", ".join(map(str, device.compute.starts))
            raise IllegalLayoutError(
                self.key, [f"{device} needs a place in its GPU instance; legal starts: {starts}"]
            )
        return Instance(device.profile, start, ComputePlace(device.compute, compute_start))

    def number_of(self, start: int, size: int) -> int:
        """Return the number of the GPU instance with these placement units: NVML's instance ID.

        The possible placements of aligned sizes form a binary tree. They are numbered row by
        row, from the whole GPU (0), so that instances that exist together never have the same
        number.
        """
        return self.placement_units // size - 1 + start // size

    @property
    def memory_gib(self) -> int:
        """Return the board's memory in GiB, rounded up to an integer as in profile names."""
        return -(-self.memory_bytes // naming.GIB)

    def __str__(self) -> str:
        return self.key
