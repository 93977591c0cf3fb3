"""How devices are called in ResourceSlices, in the allocations of claims, and by DeviceClasses.

One pool a node, of the node's name. A device is a whole GPU, ``gpu-0``, or a MIG profile at one
place of it, ``gpu-0-mig-1g10gb-3``: what the DRA driver for NVIDIA GPUs calls them but for the
profile's number, which no two profiles of a board need to be told apart. A name is a DNS label, so
a profile loses its dot, and the sign of an attribute becomes a word: ``+me`` is ``me``, ``-me``
``nome``.
"""

import re
from dataclasses import dataclass
from typing import Final

DRIVER: Final = "gpu.tessera.dev"
"""Name of the driver, of its attributes' domain, and of the class of whole GPUs."""
CLASS_DOMAIN: Final = "tessera.dev"
"""What the name of each of our DeviceClasses ends with, after a dot."""
ANY_MIG: Final = "mig"
"""MIG devices of every profile, where a resource is named."""
ANY: Final = "device"
"""Devices of every kind, likewise."""

MEMORY: Final = "memory"
"""Name of the capacity that claims can share."""
MOST_SHARES: Final = 48
"""Claims that can share a device at most; gpud takes no more (``devices.claim_shares``)."""
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
    """A device of a node's pool.

    ``profile`` is the MIG profile by its name ("1g.10gb+me") and ``start`` the first placement unit
    that it occupies; both are None for the whole GPU.
    """

    gpu_index: int
    profile: str | None = None
    start: int | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether it is the GPU with MIG off."""
        return self.profile is None

    @property
    def name(self) -> str:
        """Return its name in the pool.

        Raises:
            ValueError: the profile has no name that a driver could have given it.
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
    """Return the device of this name.

    Raises:
        ValueError: it is not the name of a device of ours.
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
    """Which parts of a device's memory claims can ask for, in bytes (``requestPolicy``).

    Requests are rounded up to ``least`` and a multiple of ``step`` above it; the whole is one, too.
    """

    least: int
    step: int

    def rounded(self, memory_bytes: int) -> int:
        """Return what a claim consumes that asks for so much, as the scheduler rounds it."""
        above = max(0, memory_bytes - self.least)
        return self.least + -(-above // self.step) * self.step


def share_policy(memory_bytes: int) -> SharePolicy:
    """Return the policy for a device with so much memory.

    The least share is a multiple of a GiB of which no more than MOST_SHARES fit. A step is the
    largest power of two up to a GiB that the memory is a multiple of: the API wants the default,
    which is the whole, to be a number of steps above the least.
    """
    least = -(-memory_bytes // (MOST_SHARES * _GIB)) * _GIB
    return SharePolicy(least, min(_GIB, memory_bytes & -memory_bytes))
