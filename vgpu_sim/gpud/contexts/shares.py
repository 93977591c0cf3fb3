"""Memory that several contexts of one slice share: who holds it, and who is charged for it.

A worker *offers* a chunk under a random key. Another worker that presents the key becomes a holder
if it is of the same slice and client, or if both contexts are on whole GPUs and of one process
(peer access). gpud then connects the two workers, so that one passes the chunk's descriptor to the
other; gpud itself accepts no descriptors. The chunk is charged once. If the holder that is charged
leaves, the charge moves to another holder, of the same slice if there is one, so the memory stays
charged until the last one leaves.

A *name* is a key without memory. All names of a context are keys of one share.
"""

import secrets
import socket
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from dataclasses import field
from typing import Any, Final

from vgpu_sim.gpud.limits.budget import Account, Budget
from vgpu_sim.gpud.model import InstanceUuid
from vgpu_sim.hal.compute import spawn
from vgpu_sim.records import dataclass
from vgpu_sim.system import descriptors, seqpacket

KEY_CHARACTERS: Final = 64
MOST_KEYS: Final = 4096  # of one context
MOST_NAMES: Final = 64  # of one context: one per pool whose descriptor a program exports
MOST_HOLDS: Final = 4096  # of one context: what it offers, and what it has opened
MOST_ENTRIES: Final = 16384  # of one slice: keys and holds of all its contexts
LEAST_ENTRIES: Final = 64  # that every context gets, whatever the slice's other contexts have
_FLAGS: Final = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL


@dataclass(slots=True, eq=False)
class Share:
    """A shared chunk. ``payer`` is the holder that is charged; ``bytes`` is 0 if the keys stand for
    no memory. A holder that opens the chunk several times holds it as often.

    ``keys`` is an ordered set. Dictionaries of numbers and texts, unlike sets, cost Python's
    garbage collector no time.
    """

    number: int
    exporter: Account
    payer: Account
    bytes: int
    holders: dict[Account, int] = field(default_factory=dict)
    keys: dict[str, None] = field(default_factory=dict)


class Shares:
    """The shared memory of all slices. Used on gpud's loop only.

    An operation whose duration depends on what a context shares is a generator, which yields
    after each key or hold that it has removed. gpud runs a few such steps in an iteration of its
    loop (``system.pacing.StepQueue``).
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._keys: dict[str, Share] = {}
        self._live: dict[int, Share] = {}
        self._channels: dict[Account, socket.socket] = {}
        self._processes: dict[Account, int] = {}
        """By account of a context on a whole GPU: the process id of its client."""
        self._names: dict[Account, Share] = {}
        """By account: the share of its names."""
        self._exported: Counter[Account] = Counter()
        """The number of keys that a context has offered."""
        self._holds: Counter[Account] = Counter()
        self._held: dict[Account, dict[int, int]] = {}
        """By account: how often it holds each share. ``_holds`` are the sums."""
        self._entries: Counter[InstanceUuid] = Counter()
        """By instance: the sum of its contexts' keys and holds."""
        # Workers keep their numbers when gpud restarts: no number may then name another share.
        self._next = secrets.randbits(62)

    def enter(self, account: Account, channel: socket.socket) -> None:
        """Note the channel of a context's worker."""
        self._channels[account] = channel

    def allow_peers(self, account: Account, client_pid: int) -> None:
        """Let the other contexts on whole GPUs of a context's client process open its memory, and
        the other way around.
        """
        if client_pid > 0:
            self._processes[account] = client_pid

    def offer(self, account: Account, key: str, number: int, size: int) -> int:
        """Let other contexts open a chunk with ``key``; return the share's number, or 0.

        ``number`` is that of an earlier offer of the same chunk, or 0. Only the context that made
        the chunk may offer it.
        """
        if len(key) != KEY_CHARACTERS or key in self._keys or self._exported[account] >= MOST_KEYS:
            return 0
        share = self._live.get(number) if size else self._names.get(account)
        if number and (share is None or not self._is_offered(share, account, number, size)):
            return 0
        if not size and share is not None and len(share.keys) >= MOST_NAMES:
            return 0
        if share is None:
            share = self._new_share(account, size)
        elif not self._has_room(account, 1):
            return 0
        if share is None:
            return 0
        self._keys[key] = share
        share.keys[key] = None
        self._exported[account] += 1
        self._count_entries(account, 1)
        return share.number

    @staticmethod
    def _is_offered(share: Share, account: Account, number: int, size: int) -> bool:
        """Return whether an account has offered a share as a chunk of this size, and holds it."""
        mine = share.exporter == account and share.bytes == size
        return mine and share.number == number and account in share.holders

    def _new_share(self, account: Account, size: int) -> Share | None:
        """Create the share of a chunk, or that of an account's names; None if the account may not
        have another one, or has less memory than the chunk.
        """
        if size > self._budget.account_bytes(account) or not self._may_hold(account, 2):
            return None
        share = Share(self._next, account, account, size)
        self._live[share.number] = share
        self._hold(share, account)
        self._next += 1
        if not size:
            self._names[account] = share
        return share

    def withdraw(self, account: Account, key: str) -> None:
        """Forget a key of the account; those that have opened the memory keep it."""
        share = self._keys.get(key)
        if share is None or share.exporter != account:
            return
        self._forget(share, key)
        if share is self._names.get(account) and not share.keys:
            del self._names[account]
            self._release(share, account, 1)
            if not share.holders:
                del self._live[share.number]

    def open(self, account: Account, key: str) -> tuple[Share, socket.socket] | None:
        """Make an account a holder of the chunk with this key. Return the share and one end of a
        connection to the exporter's worker; None if there is no such memory for this account.
        """
        share = self._keys.get(key)
        if share is None or share.exporter == account or not self._may_hold(account, 1):
            return None
        if not self._may_open(share.exporter, account):
            return None
        exporter = self._channels.get(share.exporter)
        if exporter is None:
            return None
        message: dict[str, Any] = {"type": "export", "address": 0, "bytes": 0, "key": key}
        try:
            ours, theirs = seqpacket.pair()
        except OSError:  # gpud has no descriptors left
            return None
        try:
            with theirs:
                descriptors.send(exporter, [spawn.encode(message)], [theirs.fileno()], _FLAGS)
        except OSError:  # its queue is full, or it has just ended
            ours.close()
            return None
        self._hold(share, account)
        return share, ours

    def leave_in_steps(
        self, account: Account, number: int
    ) -> Generator[None, None, tuple[bool, bool, int]]:
        """Remove one hold of an account. Return whether the share is known, whether that was the
        last hold, and how many bytes the account is no longer charged for.
        """
        share = self._live.get(number)
        if share is None or account not in share.holders:
            return False, False, 0
        paid = yield from self._leave(share, account, 1)
        return True, not share.holders, paid

    def leave_all_in_steps(self, account: Account) -> Generator[None, None, int]:
        """Remove all holds of an account; return how many bytes it is no longer charged for."""
        paid = 0
        for number, count in list(self._held.get(account, {}).items()):
            paid += yield from self._leave(self._live[number], account, count)
        return paid

    def drop_in_steps(self, account: Account) -> Generator[None, None, None]:
        """Remove an account that is about to be closed. No other context opens its memory from the
        first step on.
        """
        self._channels.pop(account, None)
        self._processes.pop(account, None)
        yield from self.leave_all_in_steps(account)
        for table in (self._held, self._holds, self._exported):
            table.pop(account, None)

    def drop(self, account: Account) -> None:
        """Remove an account that is about to be closed, in a single step."""
        for _ in self.drop_in_steps(account):
            pass

    def _leave(self, share: Share, account: Account, count: int) -> Generator[None, None, int]:
        """Remove ``count`` holds of an account, and the keys of the share if the account is its
        exporter. Return how many bytes the account is no longer charged for.
        """
        if account == share.exporter:
            for key in list(share.keys):
                self._forget(share, key)
                yield
            if self._names.get(account) is share:
                del self._names[account]
        self._release(share, account, count)
        paid = 0
        if share.payer == account and account not in share.holders:
            paid = min(share.bytes, self._budget.account_bytes(account))
            self._move_charge(share, account, paid)
        if not share.holders:
            del self._live[share.number]
        yield
        return paid

    def _may_open(self, exporter: Account, account: Account) -> bool:
        if self._budget.tenant(exporter) == self._budget.tenant(account):
            return True
        process = self._processes.get(exporter)
        return process is not None and process == self._processes.get(account)

    def _may_hold(self, account: Account, entries: int) -> bool:
        return self._holds[account] < MOST_HOLDS and self._has_room(account, entries)

    def _has_room(self, account: Account, entries: int) -> bool:
        own = self._holds[account] + self._exported[account] + entries
        slice_entries = self._entries[self._budget.tenant(account)[0]] + entries
        return own <= LEAST_ENTRIES or slice_entries <= MOST_ENTRIES

    def _count_entries(self, account: Account, change: int) -> None:
        uuid = self._budget.tenant(account)[0]
        self._entries[uuid] += change
        if not self._entries[uuid]:
            del self._entries[uuid]

    def _hold(self, share: Share, account: Account) -> None:
        share.holders[account] = share.holders.get(account, 0) + 1
        hold_counts = self._held.setdefault(account, {})
        hold_counts[share.number] = hold_counts.get(share.number, 0) + 1
        self._holds[account] += 1
        self._count_entries(account, 1)

    def _release(self, share: Share, account: Account, count: int) -> None:
        self._holds[account] -= count
        self._count_entries(account, -count)
        hold_counts = self._held[account]
        share.holders[account] -= count
        hold_counts[share.number] -= count
        if not share.holders[account]:
            del share.holders[account], hold_counts[share.number]

    def _forget(self, share: Share, key: str) -> None:
        del self._keys[key], share.keys[key]
        self._exported[share.exporter] -= 1
        self._count_entries(share.exporter, -1)

    def _move_charge(self, share: Share, account: Account, paid: int) -> None:
        if not share.holders:
            if paid:
                self._budget.release(account, paid)
            return
        slice_of = self._budget.tenant
        slice_holders = (
            holder for holder in share.holders if slice_of(holder)[0] == slice_of(account)[0]
        )
        share.payer = next(slice_holders, next(iter(share.holders)))
        if not paid:
            return
        self._budget.transfer(account, share.payer, paid)
        channel = self._channels.get(share.payer)
        if channel is not None:
            message = spawn.encode({"type": "charged", "bytes": paid})
            try:
                channel.send(message, _FLAGS)
            except OSError:  # it has ended, or does not read: then its context ends
                with suppress(OSError):
                    channel.shutdown(socket.SHUT_RDWR)
