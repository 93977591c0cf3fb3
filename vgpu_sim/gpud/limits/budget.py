"""Accounting of device memory. Each slice is limited by its profile's memory, and the node by its
budget.

The compute instances of a GPU instance share its memory: what one reserves, no other can.

The memory of simulated GPUs is the host's. A reservation must fit both the slice and the node's
budget before anything is allocated, otherwise it is refused; memory is never over-committed.
A part of the budget is guaranteed to each slice (``parts``); what exceeds its part is taken from
the shared part of the budget, first come, first served.

A worker's end frees its reservations, but its pages are freed only when the client unmaps them
too. Memory that is still charged to the slice's control group then counts as *retained*, so that
a client cannot exceed the budget by ending workers and keeping their chunks. Retained memory
counts against the client whose context left it.
"""

from collections import Counter
from collections.abc import Callable
from typing import NewType, TypeVar

from vgpu_sim.gpud.limits.parts import Offer
from vgpu_sim.gpud.model import GpuInstanceKey, InstanceUuid, MigInstance
from vgpu_sim.records import dataclass

Account = NewType("Account", int)
T = TypeVar("T")

_UNLIMITED = 1 << 62

# A context's rings and pages, which are not device memory.
CONTEXT_SHARED_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer to a request to reserve memory. ``free_bytes`` is the amount that could be
    reserved now.
    """

    granted: bool
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Room:
    """The free and the total bytes of a slice, and those of the node's budget.

    ``node_free_bytes`` is what the slice could have of the node's budget now. It consists of
    ``shared_free_bytes``, which is first come, first served, and of what is left of the slice's
    ``guaranteed_bytes``.
    """

    slice_free_bytes: int
    slice_total_bytes: int
    node_free_bytes: int
    node_total_bytes: int
    shared_free_bytes: int
    shared_total_bytes: int
    guaranteed_free_bytes: int
    guaranteed_bytes: int

    @property
    def free_bytes(self) -> int:
        """What could be reserved now, in bytes."""
        return min(self.slice_free_bytes, self.node_free_bytes)


class Budget:
    """The memory reservations of all contexts: one account per context, within the limits of slices
    and node.

    ``held_bytes`` returns the shared memory that is charged to an instance's control group (0
    without a group).
    """

    def __init__(
        self,
        total_bytes: int,
        held_bytes: Callable[[InstanceUuid], int] = lambda _: 0,
        client_bytes: Callable[[MigInstance, str], int] = lambda one, _: one.profile.memory_bytes,
    ) -> None:
        """Create the accounts. ``client_bytes`` returns the memory limit of a client
        (``Owner.sharer``) on an instance.
        """
        self._total_bytes = total_bytes
        self._offer = Offer()
        self._parts: dict[GpuInstanceKey, int] = {}
        """By GPU instance: its guaranteed part in bytes, less its lien."""
        self._beyond_bytes = 0
        """The sum of what slices use beyond their parts."""
        self._reserved_bytes = 0
        """The sum of the guaranteed parts, also of slices that can still be created."""
        self._liens: Counter[GpuInstanceKey] = Counter()
        """By GPU instance: how much of its part backs memory that it has moved to another GPU."""
        self._held_bytes = held_bytes
        self._client_bytes = client_bytes
        self._clients: dict[Account, str] = {}
        self._retained: Counter[InstanceUuid] = Counter()
        self._retained_by: dict[InstanceUuid, Counter[str]] = {}
        self._accounts: dict[Account, tuple[MigInstance, int]] = {}
        self._open: Counter[InstanceUuid] = Counter()
        """By instance: how many accounts are open."""
        self._slices: Counter[InstanceUuid] = Counter()
        self._sharers: Counter[tuple[InstanceUuid, str]] = Counter()
        """By instance and client: the bytes reserved."""
        self._gpu_instances: dict[InstanceUuid, GpuInstanceKey] = {}
        """Of instances with open accounts or retained memory."""
        self._used: Counter[GpuInstanceKey] = Counter()
        """By GPU instance: the bytes reserved and retained."""
        self._next = 1
        self.host_free_bytes: Callable[[int], int] = lambda _used_bytes: _UNLIMITED
        """Return what the host can back beyond the bytes that are used; see ``HostMemory``."""

    @property
    def total_bytes(self) -> int:
        """The node's budget in bytes."""
        return self._total_bytes

    def set_limits(self, total_bytes: int, offer: Offer) -> None:
        """Set the node's budget, and the slices that the node offers. Memory that is reserved
        stays reserved, even if it exceeds the new limits.
        """
        self._total_bytes, self._offer = total_bytes, offer
        parts = offer.parts(total_bytes)
        self._liens = Counter(
            {key: min(lien, parts[key]) for key, lien in self._liens.items() if key in parts}
        )
        self._parts = {key: part - self._liens[key] for key, part in parts.items()}
        self._reserved_bytes = sum(self._parts.values())
        self._reserved_bytes += offer.further * offer.part_bytes(total_bytes)
        self._beyond_bytes = sum(
            max(0, used - self._parts.get(key, 0)) for key, used in self._used.items()
        )

    @property
    def used_bytes(self) -> int:
        """The bytes of memory that are reserved or retained on the whole node."""
        return self._used.total()

    def slice_used_bytes(self, uuid: InstanceUuid) -> int:
        """Return the bytes reserved by an instance's contexts, plus the memory that its ended
        contexts retain.
        """
        return self._slices[uuid] + self._retained[uuid]

    def shared_used_bytes(self, instance: MigInstance) -> int:
        """Return the bytes reserved and retained by all compute instances of an instance's GPU
        instance.
        """
        return self._used[instance.gpu_instance]

    def account_bytes(self, account: Account) -> int:
        """Return the bytes reserved by one context; 0 if its account is closed."""
        return self._accounts[account][1] if account in self._accounts else 0

    def open(self, instance: MigInstance, already_bytes: int = 0, client: str = "") -> Account:
        """Open an account for a context of a client (``Owner.sharer``).

        ``already_bytes`` is the memory that the context of an adopted worker already uses. This
        memory is counted even if it exceeds the limits.
        """
        account = Account(self._next)
        self._next += 1
        self._accounts[account] = (instance, 0)
        self._clients[account] = client
        self._open[instance.uuid] += 1
        self._gpu_instances[instance.uuid] = instance.gpu_instance
        self._change(account, already_bytes)
        return account

    def close(self, account: Account) -> None:
        """Close an account and release all its memory. Closing it twice has no effect."""
        if account not in self._accounts:
            return
        instance, held_bytes = self._accounts[account]
        # of other contexts, whose clients may have unmapped memory since
        if instance.uuid in self._retained:
            self._measure(instance.uuid)
        retained_bytes = self._retained[instance.uuid]
        self._change(account, -held_bytes)
        del self._accounts[account]
        client = self._clients.pop(account)
        self._open[instance.uuid] -= 1
        self._measure(instance.uuid)
        self._forget_unused(instance.uuid)
        grown = self._retained[instance.uuid] - retained_bytes
        if grown > 0:
            self._retained_by.setdefault(instance.uuid, Counter())[client] += grown

    def _change(self, account: Account, change_bytes: int) -> None:
        """Change what an account holds, and all sums of which it is a part."""
        instance, held_bytes = self._accounts[account]
        self._accounts[account] = (instance, held_bytes + change_bytes)
        sharer = (instance.uuid, self._clients[account])
        _add(self._slices, instance.uuid, change_bytes)
        _add(self._sharers, sharer, change_bytes)
        self._change_used(instance.gpu_instance, change_bytes)
        if self._liens and change_bytes < 0:
            self._redeem_liens()

    def _change_used(self, key: GpuInstanceKey, change_bytes: int) -> None:
        used, part = self._used[key], self._parts.get(key, 0)
        self._beyond_bytes += max(0, used + change_bytes - part) - max(0, used - part)
        _add(self._used, key, change_bytes)

    def _change_lien(self, key: GpuInstanceKey, change_bytes: int) -> None:
        used, part = self._used[key], self._parts.get(key, 0)
        self._beyond_bytes += max(0, used - part + change_bytes) - max(0, used - part)
        self._reserved_bytes -= change_bytes
        self._parts[key] = part - change_bytes
        _add(self._liens, key, change_bytes)

    def _forget_unused(self, uuid: InstanceUuid) -> None:
        if not self._open[uuid]:
            del self._open[uuid]
            if uuid not in self._retained:
                del self._gpu_instances[uuid]

    def measure_retained(self) -> None:
        """Measure the retained memory again, for slices that retained memory at the last
        measurement.
        """
        for uuid in tuple(self._retained):
            self._measure(uuid)
            if uuid not in self._retained and not self._open[uuid]:
                del self._gpu_instances[uuid]

    def _measure(self, uuid: InstanceUuid) -> None:
        expected = self._slices[uuid] + CONTEXT_SHARED_BYTES * (self._open[uuid] + 1)
        excess = max(0, self._held_bytes(uuid) - expected)
        self._change_used(self._gpu_instances[uuid], excess - self._retained[uuid])
        if excess > 0:
            self._retained[uuid] = excess
            clients = self._retained_by.get(uuid, Counter())
            # which client retains the rest is unknown
            for client, retained_bytes in clients.items():
                clients[client] = min(retained_bytes, excess)
        else:
            self._retained.pop(uuid, None)
            self._retained_by.pop(uuid, None)

    def free_bytes(self, instance: MigInstance) -> int:
        """Return the bytes that an instance could reserve now: the lesser of what its slice and the
        node have left.
        """
        return self._room_of(instance).free_bytes

    def client_used_bytes(self, uuid: InstanceUuid, client: str) -> int:
        """Return the bytes reserved by a client's contexts on an instance, plus the memory that the
        client's ended contexts retain.
        """
        return self._sharers[uuid, client] + self._retained_by.get(uuid, Counter())[client]

    def room(self, account: Account) -> Room:
        """Return the free bytes of an account's slice and node. Raises KeyError if the account is
        closed.
        """
        return self._room_of(self._accounts[account][0], self._clients[account])

    def _room_of(self, instance: MigInstance, client: str | None = None) -> Room:
        """Return the free bytes of an instance, or of a client's part of it."""
        total = instance.profile.memory_bytes
        free = total - self.shared_used_bytes(instance)
        if client is not None:
            total = min(total, self._client_bytes(instance, client))
            free = min(free, total - self.client_used_bytes(instance.uuid, client))
        part = self._parts.get(instance.gpu_instance, 0)
        unused_part = max(0, part - self._used[instance.gpu_instance])
        # Less than that is left if the layout, the budget or a restart has changed the parts of
        # slices that had more.
        physical = self._physical_free_bytes()
        guaranteed_free = min(unused_part, physical)
        shared_free = min(max(0, self._unreserved_bytes()), physical - guaranteed_free)
        return Room(
            slice_free_bytes=max(0, free),
            slice_total_bytes=total,
            node_free_bytes=guaranteed_free + shared_free,
            node_total_bytes=self.total_bytes,
            shared_free_bytes=shared_free,
            shared_total_bytes=self.total_bytes - self._reserved_bytes,
            guaranteed_free_bytes=guaranteed_free,
            guaranteed_bytes=part,
        )

    def _physical_free_bytes(self) -> int:
        """Return what the node's budget has left, and the host can back now."""
        used = self.used_bytes
        return max(0, min(self.total_bytes - used, self.host_free_bytes(used)))

    def _unreserved_bytes(self) -> int:
        """Return what is left of the shared part of the budget. The result is negative if slices
        have more than they could reserve now.
        """
        return self.total_bytes - self._reserved_bytes - self._beyond_bytes

    def _redeem_liens(self) -> None:
        for key in tuple(self._liens):
            self._change_lien(key, -min(self._liens[key], max(0, self._unreserved_bytes())))

    def most_bytes(self, instance: MigInstance) -> int:
        """Return the most memory in bytes that an instance could hold: the node's budget, or the
        instance's current use if that is larger.
        """
        return max(self.total_bytes, self.slice_used_bytes(instance.uuid))

    def possible_grant(self, account: Account) -> Grant:
        """Return how many bytes an account could reserve now, without reserving any. Raises
        KeyError if the account is closed.
        """
        room = self.room(account)
        return Grant(True, room.free_bytes, room.slice_total_bytes)

    def reserve(self, account: Account, amount_bytes: int) -> Grant:
        """Reserve memory for an account if it fits into the slice and the node's budget.

        Raises:
            KeyError: the account is closed.
            ValueError: the amount is not positive.
        """
        if amount_bytes <= 0:
            raise ValueError(f"cannot reserve {amount_bytes} bytes: the amount must be positive")
        grant = self.possible_grant(account)
        if amount_bytes > grant.free_bytes and self._retained:
            self.measure_retained()
            grant = self.possible_grant(account)
        free, total = grant.free_bytes, grant.total_bytes
        if amount_bytes > free:
            return Grant(False, free, total)
        self._change(account, amount_bytes)
        return Grant(True, free - amount_bytes, total)

    def tenant(self, account: Account) -> tuple[InstanceUuid, str]:
        """Return an account's instance and client. Raises KeyError if the account is closed."""
        return self._accounts[account][0].uuid, self._clients[account]

    def transfer(self, source: Account, target: Account, amount_bytes: int) -> None:
        """Move a part of an account's memory to another account, of the same instance or of another
        one. There it is counted even if it exceeds the limits. What then exceeds the shared part
        of the budget is backed by the guaranteed part of the instance that moved it.

        Raises:
            KeyError: an account is closed.
            ValueError: the source does not hold the amount.
        """
        held_bytes = self._accounts[source][1]
        if not 0 < amount_bytes <= held_bytes:
            raise ValueError(f"cannot move {amount_bytes} bytes: {held_bytes} are held")
        key = self._accounts[source][0].gpu_instance
        shortage = min(0, self._unreserved_bytes())
        self._change(target, amount_bytes)
        self._change(source, -amount_bytes)
        grown = shortage - min(0, self._unreserved_bytes())
        lien = min(max(0, grown), self._parts.get(key, 0))
        if lien:
            self._change_lien(key, lien)

    def release(self, account: Account, amount_bytes: int) -> None:
        """Release a part of an account's memory.

        Raises:
            KeyError: the account is closed.
            ValueError: the amount is not positive, or exceeds what the account holds.
        """
        held_bytes = self._accounts[account][1]
        if not 0 < amount_bytes <= held_bytes:
            raise ValueError(f"cannot release {amount_bytes} bytes: {held_bytes} are held")
        self._change(account, -amount_bytes)


def _add(sums: Counter[T], key: T, change_bytes: int) -> None:
    """Add to one of several sums, and drop a sum of 0."""
    sums[key] += change_bytes
    if not sums[key]:
        del sums[key]
