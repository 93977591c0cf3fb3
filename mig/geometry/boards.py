"""A board: its totals and its profiles."""

from dataclasses import dataclass

from mig.errors import UnknownProfileError
from mig.geometry import naming
from mig.geometry.profiles import Engines, Profile
from mig.geometry.provenance import Provenance


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

    def __hash__(self) -> int:
        return hash(self.key)

    def profile(self, name: str) -> Profile:
        """Return the profile of this name, alias or Kubernetes spelling ("1g.10gb.me").

        Raises UnknownProfileError, which lists the legal names.
        """
        for profile in self.profiles:
            dotted = profile.resource_name.removeprefix("mig-")
            if name in (profile.name, dotted) or name in profile.aliases:
                return profile
        raise UnknownProfileError(self.key, name, (profile.name for profile in self.profiles))

    @property
    def memory_gib(self) -> int:
        """Return the board's size in whole GiB, rounded up, as names use it."""
        return -(-self.memory_bytes // naming.GIB)

    def __str__(self) -> str:
        return self.key
