"""Device memory as promised: per slice what its profile holds, per node what the host can give.

Compute instances of one GPU instance have its memory in common: what one reserves, no other can.

A simulated GPU's memory is the host's. So a reservation must fit both the slice and the node's
budget before anything is allocated; it is refused otherwise, and never over-committed.

A worker's end frees what it reserved, but its pages only when the client lets go of them too. What
a slice's control group still holds then is counted as *retained*: nobody can hold memory beyond the
budget by ending workers and keeping their chunks. It counts as theirs whose context's end left it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NewType

from vgpu_sim.gpud.model import GpuInstanceKey, InstanceUuid, MigInstance

Account = NewType("Account", int)

# Host memory is also the programs' own, the page cache's and everybody else's on the node.
DEFAULT_SHARE_OF_HOST = 0.5

# Rings and pages of a context, which are not device memory.
CONTEXT_SHARED_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer to a reservation. ``free_bytes`` is what could be reserved now."""

    granted: bool
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Room:
    """What is free of a slice, and of the node's budget that all slices share; and of how much."""

    slice_free_bytes: int
    slice_total_bytes: int
    node_free_bytes: int
    node_total_bytes: int


class Budget:
    """Reservations by account (one per context) within slices and the node.

    ``held_bytes`` measures the shared memory charged to an instance's control group (0 where there
    is none).
    """

    def __init__(
        self,
        total_bytes: int,
        held_bytes: Callable[[InstanceUuid], int] = lambda _: 0,
        client_bytes: Callable[[MigInstance, str], int] = lambda one, _: one.profile.memory_bytes,
    ) -> None:
        """``client_bytes`` says what a client (``Owner.sharer``) of an instance may have of it."""
        self.total_bytes = total_bytes
        self._held_bytes = held_bytes
        self._client_bytes = client_bytes
        self._clients: dict[Account, str] = {}
        self._retained: Counter[InstanceUuid] = Counter()
        self._retained_by: dict[InstanceUuid, Counter[str]] = {}
        self._accounts: dict[Account, tuple[MigInstance, int]] = {}
        self._slices: Counter[InstanceUuid] = Counter()
        self._gpu_instances: dict[InstanceUuid, GpuInstanceKey] = {}  # of which somebody had memory
        self._next = 1

    @property
    def used_bytes(self) -> int:
        """Reserved or retained on the whole node."""
        return self._slices.total() + self._retained.total()

    def slice_used_bytes(self, uuid: InstanceUuid) -> int:
        """Reserved by all contexts of an instance, and what is retained of ended ones."""
        return self._slices[uuid] + self._retained[uuid]

    def shared_used_bytes(self, instance: MigInstance) -> int:
        """Reserved and retained by all compute instances of an instance's GPU instance."""
        key = instance.gpu_instance
        return sum(
            self.slice_used_bytes(uuid) for uuid, its in self._gpu_instances.items() if its == key
        )

    def account_bytes(self, account: Account) -> int:
        """Reserved by one context; 0 when it is closed."""
        return self._accounts[account][1] if account in self._accounts else 0

    def open(self, instance: MigInstance, already_bytes: int = 0, client: str = "") -> Account:
        """Open an account of a client (``Owner.sharer``).

        ``already_bytes`` is in use whether it fits or not (a found worker).
        """
        account = Account(self._next)
        self._next += 1
        self._accounts[account] = (instance, already_bytes)
        self._clients[account] = client
        self._slices[instance.uuid] += already_bytes
        self._gpu_instances[instance.uuid] = instance.gpu_instance
        return account

    def close(self, account: Account) -> None:
        """Give everything of an account back; closing twice does nothing."""
        if account not in self._accounts:
            return
        instance, held = self._accounts[account]
        if instance.uuid in self._retained:  # of others, who may have let go since
            self._measure(instance.uuid)
        before = self._retained[instance.uuid]
        del self._accounts[account]
        client = self._clients.pop(account)
        self._slices[instance.uuid] -= held
        if not self._slices[instance.uuid]:
            del self._slices[instance.uuid]
        self._measure(instance.uuid)
        self._forget_unused()
        grown = self._retained[instance.uuid] - before
        if grown > 0:
            self._retained_by.setdefault(instance.uuid, Counter())[client] += grown

    def _forget_unused(self) -> None:
        live = {instance.uuid for instance, _ in self._accounts.values()} | set(self._retained)
        self._gpu_instances = {u: key for u, key in self._gpu_instances.items() if u in live}

    def measure_retained(self) -> None:
        """Look again at slices of which memory was retained when last looked at."""
        for uuid in tuple(self._retained):
            self._measure(uuid)

    def _measure(self, uuid: InstanceUuid) -> None:
        contexts = sum(instance.uuid == uuid for instance, _ in self._accounts.values())
        expected = self._slices[uuid] + CONTEXT_SHARED_BYTES * (contexts + 1)
        excess = self._held_bytes(uuid) - expected
        if excess > 0:
            self._retained[uuid] = excess
            clients = self._retained_by.get(uuid, Counter())
            for client, kept in clients.items():  # whose it was that has gone, nobody can tell
                clients[client] = min(kept, excess)
        else:
            self._retained.pop(uuid, None)
            self._retained_by.pop(uuid, None)

    def free_bytes(self, instance: MigInstance) -> int:
        """Return what this instance could reserve now: the lesser of slice and node."""
        room = self._room_of(instance)
        return min(room.slice_free_bytes, room.node_free_bytes)

    def client_used_bytes(self, uuid: InstanceUuid, client: str) -> int:
        """Reserved by all contexts of one client of an instance, and retained of ended ones."""
        reserved = sum(
            held
            for account, (one, held) in self._accounts.items()
            if one.uuid == uuid and self._clients[account] == client
        )
        return reserved + self._retained_by.get(uuid, Counter())[client]

    def room(self, account: Account) -> Room:
        """Return what is free for an account, and why not more. Raises KeyError when closed."""
        return self._room_of(self._accounts[account][0], self._clients[account])

    def _room_of(self, instance: MigInstance, client: str | None = None) -> Room:
        """Return what is free of an instance; for a client, of its part."""
        total = instance.profile.memory_bytes
        free = total - self.shared_used_bytes(instance)
        if client is not None:
            total = min(total, self._client_bytes(instance, client))
            free = min(free, total - self.client_used_bytes(instance.uuid, client))
        return Room(
            slice_free_bytes=max(0, free),
            slice_total_bytes=total,
            node_free_bytes=max(0, self.total_bytes - self.used_bytes),
            node_total_bytes=self.total_bytes,
        )

    def most_bytes(self, instance: MigInstance) -> int:
        """Return what an instance could ever hold: the node's budget, or what it holds already."""
        return max(self.total_bytes, self.slice_used_bytes(instance.uuid))

    def report(self, account: Account) -> Grant:
        """Return what is free for an account, reserving nothing. Raises KeyError when closed."""
        room = self.room(account)
        free = min(room.slice_free_bytes, room.node_free_bytes)
        return Grant(True, free, room.slice_total_bytes)

    def reserve(self, account: Account, amount_bytes: int) -> Grant:
        """Reserve if it fits slice and node.

        Raises:
            KeyError: the account is closed.
            ValueError: the amount is not positive.
        """
        if amount_bytes <= 0:
            raise ValueError(f"reserve of {amount_bytes} bytes")
        instance, held = self._accounts[account]
        grant = self.report(account)
        if amount_bytes > grant.free_bytes and self._retained:
            self.measure_retained()
            grant = self.report(account)
        free, total = grant.free_bytes, grant.total_bytes
        if amount_bytes > free:
            return Grant(False, free, total)
        self._accounts[account] = (instance, held + amount_bytes)
        self._slices[instance.uuid] += amount_bytes
        return Grant(True, free - amount_bytes, total)

    def release(self, account: Account, amount_bytes: int) -> None:
        """Give a part back.

        Raises:
            KeyError: the account is closed.
            ValueError: not positive, or more than the account holds.
        """
        instance, held = self._accounts[account]
        if not 0 < amount_bytes <= held:
            raise ValueError(f"release of {amount_bytes} bytes, {held} are held")
        self._accounts[account] = (instance, held - amount_bytes)
        self._slices[instance.uuid] -= amount_bytes


def default_budget_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return half of the host's memory. Raises OSError or ValueError where it cannot be read."""
    for line in meminfo.read_text(encoding="ascii").splitlines():
        if line.startswith("MemTotal:"):
            return int(int(line.split()[1]) * 1024 * DEFAULT_SHARE_OF_HOST)
    raise ValueError(f"{meminfo} has no MemTotal")
