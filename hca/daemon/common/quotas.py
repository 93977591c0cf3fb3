"""Who may have how much of what hcad itself has: descriptors, mappings, rings and private memory.

One rule for all: a function may hold no more than what is then still free. One alone gets
half of everything; whoever comes after it finds the other half, and so on: nobody can take the last
of anything, and nothing lies idle for members that never come.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

RING_BYTES: Final = 1 << 30
"""Whoever touches a page first is charged for it: of rings that may be hcad."""
OBJECT_BYTES: Final = 256 << 20
"""Private memory, for what clients have that is no ring."""
CLIENT_DESCRIPTORS: Final = 10
"""Of an open context: its socket, page, two ends of two pipes here and in the engine."""
CLIENT_BYTES: Final = 32 << 10
"""Of an open context or a connection manager's client: its tables, here and in the engine."""
_RESERVED: Final = 256
_OWN_MAPPINGS: Final = 4096
_MAX_MAP_COUNT: Final = Path("/proc/sys/vm/max_map_count")
_LIMITS: Final = ("memory.max", "memory/memory.limit_in_bytes")  # cgroup v2, v1
_UNLIMITED: Final = 1 << 60


@dataclass(slots=True)
class Pool:
    """What there is of one thing, and how much of it is taken."""

    name: str
    total: int
    taken: int = 0

    @property
    def free(self) -> int:
        """Return what is left."""
        return self.total - self.taken


class Share:
    """What one function holds of each pool; all its programs together."""

    def __init__(self, descriptors: Pool, ring_bytes: Pool, object_bytes: Pool) -> None:
        self._pools = (descriptors, ring_bytes, object_bytes)
        self._held = [0] * len(self._pools)
        self._bounded = True

    def take(self, descriptors: int, ring_bytes: int = 0, object_bytes: int = 0) -> None:
        """Take some of each. Raises OSError (ENOMEM) where that is more than would be left."""
        wanted = (descriptors, ring_bytes, object_bytes)
        for pool, held, more in zip(self._pools, self._held, wanted, strict=True):
            if self._bounded and more and held + more > pool.free - more:
                raise OSError(errno.ENOMEM, f"no {pool.name} left for this function: it has {held}")
        self._change(wanted, 1)

    @contextmanager
    def adopting(self) -> Iterator[None]:
        """Take what a predecessor has given already, however much that is, meanwhile."""
        self._bounded = False
        try:
            yield
        finally:
            self._bounded = True

    def give(self, descriptors: int, ring_bytes: int = 0, object_bytes: int = 0) -> None:
        """Give back what was taken."""
        self._change((descriptors, ring_bytes, object_bytes), -1)

    @contextmanager
    def paying(self, object_bytes: int) -> Iterator[None]:
        """Take private memory, and give it back where something goes wrong. Raises OSError."""
        self.take(0, 0, object_bytes)
        try:
            yield
        except BaseException:
            self.give(0, 0, object_bytes)
            raise

    def _change(self, amounts: tuple[int, int, int], sign: int) -> None:
        for i, amount in enumerate(amounts):
            self._held[i] += sign * amount
            self._pools[i].taken += sign * amount


class Shares:
    """The pools of one hcad."""

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
    def within(cls, descriptors: int, memory_bytes: int | None) -> Self:
        """Return those of an hcad whose control group has so much memory; None: no limit.

        A half is for rings, of which hcad may be charged for every page, a quarter for objects;
        the rest is hcad's own.
        """
        if memory_bytes is None:
            return cls(descriptors)
        rings, objects = memory_bytes // 2, memory_bytes // 4
        return cls(descriptors, min(RING_BYTES, rings), min(OBJECT_BYTES, objects))

    def share(self) -> Share:
        """Return the share of a new function, which holds nothing."""
        return Share(self._descriptors, self._ring_bytes, self._object_bytes)


def usable(max_descriptors: int, max_map_count: Path = _MAX_MAP_COUNT) -> int:
    """Return how many descriptors objects may have: each may be mapped, too. Raises OSError."""
    mappings = int(max_map_count.read_text(encoding="ascii"))
    return max(0, min(max_descriptors - _RESERVED, mappings - _OWN_MAPPINGS))


def unbounded() -> Share:
    """Return a share for who is not limited: a test's or a benchmark's own engine."""
    return Shares(1 << 62, 1 << 62, 1 << 62).share()


def memory_limit(groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return how many bytes this process's container may use; None where nothing says so.

    A container sees its own control group where others have the root.
    """
    for name in _LIMITS:
        try:
            said = (groups / name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if said.isdecimal() and int(said) < _UNLIMITED:
            return int(said)
    return None
