"""A board: its totals and its profiles."""

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
    """A GPU product as MIG sees it. Boards come from ``mig.geometry.BOARDS``."""

    key: str
    product_name: str
    """As ``nvidia-smi -L`` prints it."""
    architecture: str
    compute_capability: tuple[int, int]
    pci_device_id: int
    memory_bytes: int
    """Total frame buffer; the figure that names are derived from."""
    memory_provenance: Provenance
    sm_count: int
    """SMs without MIG; the profiles' sum can be less (98 of 108 on A100)."""
    placement_units: int
    compute_slices: int
    engines: Engines
    """What all instances together can own."""
    profiles: tuple[Profile, ...]
    """The profiles of MIG; ``whole`` is not among them."""
    whole: Profile
    """The GPU with MIG off: an instance of it excludes every other."""

    def __hash__(self) -> int:
        return hash(self.key)

    def profile(self, name: str) -> Profile:
        """Return the profile of this name, alias or Kubernetes spelling ("1g.10gb.me").

        "whole" is the whole GPU. Raises UnknownProfileError, which lists the profiles of MIG.
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
        """Return what a MIG device can be: each profile, then what is narrower inside it."""
        return tuple(
            DeviceProfile(profile, inner)
            for profile in self.profiles
            for inner in (None, *(one for one in profile.ci_profiles if not one.is_full))
        )

    def device_profile(self, name: str) -> DeviceProfile:
        """Return what a device of this name is: as ``profile``, and "1c.3g.40gb" (``-lcip``).

        Raises UnknownProfileError, which lists what the GPU instance profile has, if there is such.
        """
        match = _NARROW.match(name)
        if match is None:
            return DeviceProfile(self.profile(name))
        try:
            profile = self.profile(name[match.end() :])
        except UnknownProfileError as err:
            raise UnknownProfileError(self.key, name, err.legal) from None
        for one in profile.ci_profiles:
            if one.compute_slices == int(match[1]) and not one.is_full:
                return DeviceProfile(profile, one)
        raise UnknownProfileError(self.key, name, (one.name for one in profile.ci_profiles))

    def instance(self, name: str, start: int, compute_start: int | None = None) -> Instance:
        """Return the placed device of this name (``device_profile``).

        ``start`` is its GPU instance's, ``compute_start`` that of a narrower compute instance
        inside. Raises UnknownProfileError, IllegalLayoutError.
        """
        device = self.device_profile(name)
        if device.compute is None:
            if compute_start is not None:
                raise IllegalLayoutError(
                    self.key,
                    [f"{device} has all of its GPU instance: there is no place {compute_start}"],
                )
            return Instance(device.profile, start)
        if compute_start is None:
            starts = ", ".join(map(str, device.compute.starts))
            raise IllegalLayoutError(
                self.key, [f"{device} needs a place in its GPU instance; legal starts: {starts}"]
            )
        return Instance(device.profile, start, ComputePlace(device.compute, compute_start))

    @property
    def memory_gib(self) -> int:
        """Return the board's size in whole GiB, rounded up, as names use it."""
        return -(-self.memory_bytes // naming.GIB)

    def __str__(self) -> str:
        return self.key
