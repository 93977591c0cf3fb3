"""Quotas of functions for hcad's own resources: descriptors, mappings, rings and private memory.

One rule applies to all resources. Each function that hcad offers has an equal part of its own,
which no other function can take, however many functions one tenant has. What is not reserved in
this way is first come, first served: a function may hold, beyond its part, at most as much as then
remains of it.

A node reserves everything for the functions that it offers, because its functions belong to
different tenants. A fabric of one user does not know how many functions will join: it reserves half
for ``FABRIC_FUNCTIONS`` functions.
"""

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

RING_BYTES: Final = 2 << 30
"""Limit in bytes for all rings; the kernel charges the process that first touches a page, often
hcad.
"""
OBJECT_BYTES: Final = 512 << 20
"""Limit in bytes for the private memory that hcad uses for clients' objects."""
CLIENT_DESCRIPTORS: Final = 10
"""Number of descriptors of an open context, in hcad and in the engine: its socket, its page, and
both ends of two pipes.
"""
CLIENT_BYTES: Final = 32 << 10
"""Bytes, in hcad and in the engine, for the tables of a context or of a connection manager
client.
"""
FABRIC_FUNCTIONS: Final = 32
"""Number of functions for which a fabric reserves parts."""
_RESERVED: Final = 256
_OWN_MAPPINGS: Final = 4096
_MAX_MAP_COUNT: Final = Path("/proc/sys/vm/max_map_count")
_LIMITS: Final = ("memory.max", "memory/memory.limit_in_bytes")  # cgroup v2, v1
_UNLIMITED: Final = 1 << 60


class Pool:
    """One of hcad's resources: its total, the part of each function, and what functions hold."""

    def __init__(self, name: str, total: int) -> None:
        self.name = name
        self._total = total
        self._taken = 0
        self._part = 0
        self._unused = 0
        """The sum of what the functions with a part of their own may still take of it."""
        self._beyond = 0
        """The sum of what functions hold beyond their parts."""

    def reserve(self, functions: int, reserved: int, holdings: Sequence[int]) -> None:
        """Divide ``reserved`` into equal parts for so many functions.

        ``holdings`` is what each function holds now.
        """
        self._part = reserved // functions if functions else 0
        self._beyond = sum(max(0, holding - self._part) for holding in holdings)
        self._unused = functions * self._part - sum(
            min(holding, self._part) for holding in holdings
        )

    def can_add(self, holding: int, amount: int) -> bool:
        """Return whether a function that holds ``holding`` may take ``amount``."""
        total = holding + amount
        beyond = max(0, total - self._part)
        if not beyond:
            # Fails only if a part has shrunk since, because the node offers more functions now.
            return amount <= self._total - self._taken
        own = min(total, self._part) - min(holding, self._part)
        # A function beyond the number of parts finds only what the others do not use of theirs.
        free = self._total - self._taken - amount - max(0, self._unused - own)
        return beyond <= free

    def change(self, holding: int, amount: int) -> None:
        """Account for a function's change from ``holding`` by ``amount``."""
        total = holding + amount
        self._taken += amount
        self._unused -= min(total, self._part) - min(holding, self._part)
        self._beyond += max(0, total - self._part) - max(0, holding - self._part)

    @property
    def total(self) -> int:
        """Return the amount of the resource that all functions may hold together."""
        return self._total


class Share:
    """The amount of each resource that one function holds, for all its programs together."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        self._pools = pools
        self._held = [0] * len(pools)
        self._bounded = True

    @property
    def held(self) -> Sequence[int]:
        """Return the amount that the function holds of each resource."""
        return self._held

    def charge(self, descriptors: int, ring_bytes: int = 0, object_bytes: int = 0) -> None:
        """Charge the function for an amount of each resource.

        After the charge, the function holds at most its part, or beyond that at most as much as
        then remains of what is not reserved. Otherwise nothing is charged. Raises OSError (ENOMEM).
        """
        amounts = (descriptors, ring_bytes, object_bytes)
        for pool, holding, amount in zip(self._pools, self._held, amounts, strict=True):
            if self._bounded and amount and not pool.can_add(holding, amount):
                raise OSError(
                    errno.ENOMEM, f"no {pool.name} left for this function: it has {holding}"
                )
        self._change(amounts, 1)

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
            self._pools[i].change(self._held[i], sign * amount)
            self._held[i] += sign * amount


class Shares:
    """The pools of one hcad, from which its functions take their shares."""

    def __init__(
        self,
        descriptors: int,
        ring_bytes: int = RING_BYTES,
        object_bytes: int = OBJECT_BYTES,
        *,
        functions: int | None = FABRIC_FUNCTIONS,
    ) -> None:
        """Divide half of each resource into parts for ``functions``; the rest is first come.

        If ``functions`` is None, each new share is one of a function that the node offers, and all
        of each resource is divided into parts for these.
        """
        self._pools = (
            Pool("descriptors", descriptors),
            Pool("bytes of rings", ring_bytes),
            Pool("bytes of objects", object_bytes),
        )
        self._offered: list[Share] | None = None if functions is not None else []
        for pool in self._pools:
            pool.reserve(functions or 0, pool.total // 2, ())

    @classmethod
    def for_memory_limit(
        cls,
        descriptors: int,
        memory_bytes: int | None,
        *,
        functions: int | None = FABRIC_FUNCTIONS,
    ) -> Self:
        """Return the pools of an hcad with these limits.

        ``descriptors`` is the number of descriptors for all functions together. ``memory_bytes`` is
        the memory limit of hcad's control group, or None if there is no limit. Rings get at most
        half of this memory, because the kernel may charge hcad for every page of the rings. Objects
        get at most a quarter. The rest is for hcad itself.
        """
        if memory_bytes is None:
            return cls(descriptors, functions=functions)
        rings, objects = min(RING_BYTES, memory_bytes // 2), min(OBJECT_BYTES, memory_bytes // 4)
        return cls(descriptors, rings, objects, functions=functions)

    def new_share(self) -> Share:
        """Return an empty share of the pools for a new function."""
        share = Share(self._pools)
        if self._offered is not None:
            self._offered.append(share)
            for place, pool in enumerate(self._pools):
                holdings = [offered.held[place] for offered in self._offered]
                pool.reserve(len(holdings), pool.total, holdings)
        return share


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
    return Shares(1 << 62, 1 << 62, 1 << 62, functions=0).new_share()


def memory_limit(groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return this container's memory limit in bytes, or None if there is none.

    In a container, the container's own control group is the root of the hierarchy.
    """
    for name in _LIMITS:
        try:
            limit_text = (groups / name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if limit_text.isdecimal() and int(limit_text) < _UNLIMITED:
            return int(limit_text)
    return None
