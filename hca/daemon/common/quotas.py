"""Quotas of functions for hcad's own resources: descriptors, mappings, rings and private memory.

One rule applies to all resources: a function may hold at most as much as remains free after
that. The only function in use gets half of everything, the next one half of the rest, and so on.
So no function can exhaust a resource, and nothing is reserved for functions that are never used.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from vgpu_sim.records import dataclass

RING_BYTES: Final = 1 << 30
"""Limit in bytes for all rings; the kernel charges the process that first touches a page, often
hcad.
"""
OBJECT_BYTES: Final = 256 << 20
"""Limit in bytes for the private memory that hcad uses for clients' objects."""
CLIENT_DESCRIPTORS: Final = 10
"""Number of descriptors of an open context, in hcad and in the engine: its socket, its page, and
both ends of two pipes.
"""
CLIENT_BYTES: Final = 32 << 10
"""Bytes, in hcad and in the engine, for the tables of a context or of a connection manager
client.
"""
_RESERVED: Final = 256
_OWN_MAPPINGS: Final = 4096
_MAX_MAP_COUNT: Final = Path("/proc/sys/vm/max_map_count")
_LIMITS: Final = ("memory.max", "memory/memory.limit_in_bytes")  # cgroup v2, v1
_UNLIMITED: Final = 1 << 60


@dataclass(slots=True)
class Pool:
    """One of hcad's resources: its total, and how much of it functions have taken."""

    name: str
    total: int
    taken: int = 0

    @property
    def free(self) -> int:
        """Return the amount of the resource that is left."""
        return self.total - self.taken


class Share:
    """The amount of each resource that one function holds, for all its programs together."""

    def __init__(self, descriptors: Pool, ring_bytes: Pool, object_bytes: Pool) -> None:
        self._pools = (descriptors, ring_bytes, object_bytes)
        self._held = [0] * len(self._pools)
        self._bounded = True

    def charge(self, descriptors: int, ring_bytes: int = 0, object_bytes: int = 0) -> None:
        """Charge the function for an amount of each resource.

        After the charge, a function may hold at most as much of a resource as is still free for
        other functions. If it would hold more, nothing is charged. Raises OSError (ENOMEM).
        """
        wanted = (descriptors, ring_bytes, object_bytes)
        for pool, held, more in zip(self._pools, self._held, wanted, strict=True):
            if self._bounded and more and held + more > pool.free - more:
                raise OSError(errno.ENOMEM, f"no {pool.name} left for this function: it has {held}")
        self._change(wanted, 1)

    @contextmanager
    def suspending_limits(self) -> Iterator[None]:
        """Suspend the limits in the body of the ``with`` statement.

        In the body, the function is charged for resources that a predecessor has granted.
        """
        self._bounded = False
        try:
            yield
        finally:
            self._bounded = True

    def refund(self, descriptors: int, ring_bytes: int = 0, object_bytes: int = 0) -> None:
        """Give amounts of the resources back to the pools."""
        self._change((descriptors, ring_bytes, object_bytes), -1)

    @contextmanager
    def charging(self, object_bytes: int) -> Iterator[None]:
        """Charge the function for ``object_bytes`` of private memory.

        If the body of the ``with`` statement raises, the charge is undone. Raises OSError.
        """
        self.charge(0, 0, object_bytes)
        try:
            yield
        except BaseException:
            self.refund(0, 0, object_bytes)
            raise

    def _change(self, amounts: tuple[int, int, int], sign: int) -> None:
        for i, amount in enumerate(amounts):
            self._held[i] += sign * amount
            self._pools[i].taken += sign * amount


class Shares:
    """The pools of one hcad, from which its functions take their shares."""

    def __init__(
        self,
        descriptors: int,
        ring_bytes: int = RING_BYTES,
        object_bytes: int = OBJECT_BYTES,
    ) -> None:
        self._descriptors = Pool("descriptors", descriptors)
        self._ring_bytes = Pool("bytes of rings", ring_bytes)
        self._object_bytes = Pool("bytes of objects", object_bytes)

    @classmethod
    def for_memory_limit(cls, descriptors: int, memory_bytes: int | None) -> Self:
        """Return the pools of an hcad with these limits.

        ``descriptors`` is the number of descriptors for all functions together. ``memory_bytes`` is
        the memory limit of hcad's control group, or None if there is no limit. Rings get at most
        half of this memory, because the kernel may charge hcad for every page of the rings. Objects
        get at most a quarter. The rest is for hcad itself.
        """
        if memory_bytes is None:
            return cls(descriptors)
        rings, objects = memory_bytes // 2, memory_bytes // 4
        return cls(descriptors, min(RING_BYTES, rings), min(OBJECT_BYTES, objects))

    def new_share(self) -> Share:
        """Return an empty share of the pools for a new function."""
        return Share(self._descriptors, self._ring_bytes, self._object_bytes)


def usable_descriptors(max_descriptors: int, max_map_count: Path = _MAX_MAP_COUNT) -> int:
    """Return how many of hcad's descriptors remain for objects of the functions.

    ``max_descriptors`` is the limit on hcad's descriptors. The kernel's limit on memory mappings
    (``max_map_count``) applies as well, because the memory of each descriptor may be mapped. Raises
    OSError.
    """
    mappings = int(max_map_count.read_text(encoding="ascii"))
    return max(0, min(max_descriptors - _RESERVED, mappings - _OWN_MAPPINGS))


def new_unlimited_share() -> Share:
    """Return a share without limits, for the engine of a test or benchmark."""
    return Shares(1 << 62, 1 << 62, 1 << 62).new_share()


def memory_limit(groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return this container's memory limit in bytes, or None if there is none.

    In a container, the container's own control group is the root of the hierarchy.
    """
    for name in _LIMITS:
        try:
            said = (groups / name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if said.isdecimal() and int(said) < _UNLIMITED:
            return int(said)
    return None
