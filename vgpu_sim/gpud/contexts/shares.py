"""Memory that several contexts of one slice share: who holds it, and who is charged for it.

A worker *offers* a chunk under a random key. Another worker that presents the key becomes a holder
if it is of the same slice and client, or if both contexts are on whole GPUs and of one process
(peer access). gpud then connects the two workers, so that one passes the chunk's descriptor to the
other; gpud itself accepts no descriptors. The chunk is charged once. If the holder that is charged
leaves, the charge moves to another holder, of the same slice if there is one, so the memory stays
charged until the last one leaves.
"""

import secrets
import socket
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import field
from typing import Any, Final

from vgpu_sim.gpud.limits.budget import Account, Budget
from vgpu_sim.hal.compute import spawn
from vgpu_sim.records import dataclass
from vgpu_sim.system import descriptors, seqpacket

KEY_CHARACTERS: Final = 64
MOST_KEYS: Final = 4096  # of one context
MOST_HOLDS: Final = 4096  # of one context: what it offers, and what it has opened
_FLAGS: Final = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL


@dataclass(slots=True, eq=False)
class Share:
    """A shared chunk. ``payer`` is the holder that is charged; ``bytes`` is 0 if the key stands for
    no memory. A holder that opens the chunk several times holds it as often.
    """

    number: int
    exporter: Account
    payer: Account
    bytes: int
    holders: Counter[Account] = field(default_factory=Counter)
    keys: set[str] = field(default_factory=set)


class Shares:
    """The shared memory of all slices. Used on gpud's loop only.

    Each operation takes time in proportion to what its own context shares, so that no tenant can
    delay another.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._keys: dict[str, Share] = {}
        self._live: dict[int, Share] = {}
        self._channels: dict[Account, socket.socket] = {}
        self._processes: dict[Account, int] = {}
        """By account of a context on a whole GPU: the process id of its client."""
        self._exported: Counter[Account] = Counter()
        """The number of keys that a context has offered."""
        self._holds: Counter[Account] = Counter()
        self._held: defaultdict[Account, Counter[int]] = defaultdict(Counter)
        """By account: how often it holds each share. ``_holds`` are the sums."""
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
        known = self._live.get(number)
        mine = known is not None and known.exporter == account and known.bytes == size
        if len(key) != KEY_CHARACTERS or key in self._keys or self._exported[account] >= MOST_KEYS:
            return 0
        if number and (not mine or not self._held[account][number]):
            return 0
        if known is None:
            if size > self._budget.account_bytes(account) or not self._may_hold(account):
                return 0
            known = Share(self._next, account, account, size)
            self._live[known.number] = known
            self._hold(known, account)
            self._next += 1
        self._keys[key] = known
        known.keys.add(key)
        self._exported[account] += 1
        return known.number

    def withdraw(self, account: Account, key: str) -> None:
        """Forget a key of the account; those that have opened the memory keep it."""
        share = self._keys.get(key)
        if share is None or share.exporter != account:
            return
        self._forget(share, key)
        if share.bytes == 0 and not share.keys:
            self.leave(account, share.number)

    def open(self, account: Account, key: str) -> tuple[Share, socket.socket] | None:
        """Make an account a holder of the chunk with this key. Return the share and one end of a
        connection to the exporter's worker; None if there is no such memory for this account.
        """
        share = self._keys.get(key)
        if share is None or share.exporter == account or not self._may_hold(account):
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

    def leave(self, account: Account, number: int) -> tuple[bool, bool, int]:
        """Remove one hold of an account. Return whether the share is known, whether that was the
        last hold, and how many bytes the account is no longer charged for.
        """
        share = self._live.get(number)
        if share is None or not share.holders[account]:
            return False, False, 0
        self._release(share, account)
        if account == share.exporter:
            for key in list(share.keys):
                self._forget(share, key)
        paid = 0
        if share.payer == account and account not in share.holders:
            paid = min(share.bytes, self._budget.account_bytes(account))
            self._move_charge(share, account, paid)
        if not share.holders:
            del self._live[number]
        return True, not share.holders, paid

    def _may_open(self, exporter: Account, account: Account) -> bool:
        if self._budget.tenant(exporter) == self._budget.tenant(account):
            return True
        process = self._processes.get(exporter)
        return process is not None and process == self._processes.get(account)

    def _may_hold(self, account: Account) -> bool:
        return self._holds[account] < MOST_HOLDS

    def _hold(self, share: Share, account: Account) -> None:
        share.holders[account] += 1
        self._held[account][share.number] += 1
        self._holds[account] += 1

    def _release(self, share: Share, account: Account) -> None:
        self._holds[account] -= 1
        held = self._held[account]
        share.holders[account] -= 1
        held[share.number] -= 1
        if not share.holders[account]:
            del share.holders[account], held[share.number]

    def _forget(self, share: Share, key: str) -> None:
        del self._keys[key]
        share.keys.remove(key)
        self._exported[share.exporter] -= 1

    def _move_charge(self, share: Share, account: Account, paid: int) -> None:
        if not share.holders:
            if paid:
                self._budget.release(account, paid)
            return
        slice_of = self._budget.tenant
        same = (one for one in share.holders if slice_of(one)[0] == slice_of(account)[0])
        share.payer = next(same, next(iter(share.holders)))
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

    def leave_all(self, account: Account) -> int:
        """Remove all holds of an account; return how many bytes it is no longer charged for."""
        paid = 0
        for number, count in list(self._held[account].items()):
            for _ in range(count):
                paid += self.leave(account, number)[2]
        return paid

    def drop(self, account: Account) -> None:
        """Remove an account that is about to be closed."""
        self.leave_all(account)
        for table in (self._channels, self._processes, self._held, self._holds, self._exported):
            table.pop(account, None)
