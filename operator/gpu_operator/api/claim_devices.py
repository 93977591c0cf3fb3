"""Device names in ResourceSlices, in the allocations of claims and in DeviceClasses.

Each node has one pool, which has the node's name. A device is a whole GPU (``gpu-0``) or a MIG
profile at one placement (``gpu-0-mig-1g10gb-3``). NVIDIA's DRA driver uses the same names plus
the profile's number, which is redundant because the profiles of a board differ by name. A device
name is a DNS label, so a profile loses its dot, and the sign of an attribute becomes a word:
``+me`` becomes ``me``, ``-me`` becomes ``nome``.
"""

import re
from dataclasses import dataclass
from typing import Final

DRIVER: Final = "gpu.tessera.dev"
"""Name of the DRA driver, of the DeviceClass for whole GPUs and of the attributes' domain."""
CLASS_DOMAIN: Final = "tessera.dev"
"""Domain of Tessera's DeviceClasses; their names end with a dot and this domain."""
ANY_MIG: Final = "mig"
"""Resource name that stands for MIG devices of every profile."""
ANY: Final = "device"
"""Resource name that stands for devices of every kind."""

MEMORY: Final = "memory"
"""Name of a device's capacity of which each claim can take a share."""
MOST_SHARES: Final = 48
"""Maximum number of claims that share a device; gpud accepts no more (``devices.claim_shares``)."""
_GIB: Final = 1 << 30

_WORDS: Final = {"": "", "+me": "me", "-me": "nome", "+gfx": "gfx", "+me.all": "meall"}
_ATTRIBUTES: Final = {word: attribute for attribute, word in _WORDS.items()}
_PROFILE: Final = re.compile(r"([1-9]g)\.(0|[1-9][0-9]{0,3})gb([-+][a-z.]+)?", re.ASCII)
_NAME: Final = re.compile(
    r"gpu-(?P<gpu>0|[1-9][0-9]?)"
    r"(?:-mig-(?P<slices>[1-9]g)(?P<gb>0|[1-9][0-9]{0,3})gb(?:-(?P<word>[a-z]+))?"
    r"-(?P<start>0|[1-9][0-9]?))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Device:
    """A device in a node's pool.

    ``profile`` is the MIG profile's name ("1g.10gb+me"), ``start`` the first memory slice of its
    placement. Both are None for a whole GPU.
    """

    gpu_index: int
    profile: str | None = None
    start: int | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether the device is a whole GPU with MIG off."""
        return self.profile is None

    @property
    def name(self) -> str:
        """Return the device's name in the node's pool.

        Raises:
            ValueError: ``profile`` is not a valid MIG profile name.
        """
        if self.profile is None:
            return f"gpu-{self.gpu_index}"
        match = _PROFILE.fullmatch(self.profile)
        word = _WORDS.get(match[3] or "") if match else None
        if match is None or word is None:
            raise ValueError(f"not a MIG profile: {self.profile!r}")
        suffix = f"-{word}" if word else ""
        return f"gpu-{self.gpu_index}-mig-{match[1]}{match[2]}gb{suffix}-{self.start}"

    def __str__(self) -> str:
        return self.name


def parse(name: str) -> Device:
    """Parse a device name.

    Raises:
        ValueError: the name does not have this driver's format.
    """
    match = _NAME.fullmatch(name)
    attribute = _ATTRIBUTES.get(match["word"] or "") if match else None
    if match is None or attribute is None:
        raise ValueError(f"not a device of {DRIVER}: {name!r}")
    gpu = int(match["gpu"])
    if match["start"] is None:
        return Device(gpu)
    return Device(gpu, f"{match['slices']}.{match['gb']}gb{attribute}", int(match["start"]))


@dataclass(frozen=True, slots=True)
class SharePolicy:
    """The amounts of a device's memory that claims can request, in bytes (``requestPolicy``).

    A request is rounded up to ``least`` plus a multiple of ``step``. The full size is also a
    valid request.
    """

    least: int
    step: int

    def round_up(self, memory_bytes: int) -> int:
        """Return the bytes that the scheduler charges for a request of ``memory_bytes``."""
        above = max(0, memory_bytes - self.least)
        return self.least + -(-above // self.step) * self.step


def share_policy(memory_bytes: int) -> SharePolicy:
    """Return the request policy for a device with this much memory.

    The least share is a whole number of GiB. It is as small as possible, but large enough that
    at most MOST_SHARES shares fit on the device. The default share is the full size. The API
    requires that the default exceed the least share by a whole number of steps. So the step is
    the largest power of two, up to a GiB, that divides the memory size.
    """
    min_share_bytes = -(-memory_bytes // (MOST_SHARES * _GIB)) * _GIB
    return SharePolicy(min_share_bytes, min(_GIB, memory_bytes & -memory_bytes))
