"""Memory that several contexts of one slice share: who holds it, and who is charged for it.

A worker *offers* a chunk under a random key. Another worker of the same slice and client that
presents the key becomes a holder, and gpud connects the two workers, so that one passes the
chunk's descriptor to the other; gpud itself accepts no descriptors. The chunk is charged once. If
the holder that is charged leaves, the charge moves to another holder, so the memory stays charged
until the last one leaves.
"""

import socket
from dataclasses import dataclass, field
from typing import Any, Final

from vgpu_sim.gpud.limits.budget import Account, Budget
from vgpu_sim.hal.compute import spawn
from vgpu_sim.system import descriptors, seqpacket

KEY_CHARACTERS: Final = 64
MOST_KEYS: Final = 4096  # of one context
_FLAGS: Final = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL


@dataclass(slots=True, eq=False)
class Share:
    """A shared chunk. ``payer`` is the holder that is charged; ``bytes`` is 0 if the key stands for
    no memory.
    """

    number: int
    exporter: Account
    payer: Account
    bytes: int
    holders: list[Account] = field(default_factory=list)


class Shares:
    """The shared memory of all slices. Used on gpud's loop only."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._keys: dict[str, Share] = {}
        self._live: dict[int, Share] = {}
        self._channels: dict[Account, socket.socket] = {}
        self._next = 1

    def enter(self, account: Account, channel: socket.socket) -> None:
        """Note the channel of a context's worker."""
        self._channels[account] = channel

    def offer(self, account: Account, key: str, number: int, size: int) -> int:
        """Let other contexts open a chunk with ``key``; return the share's number, or 0.

        ``number`` is that of an earlier offer of the same chunk, or 0.
        """
        own = sum(share.exporter == account for share in self._keys.values())
        known = self._live.get(number)
        mine = known is not None and account in known.holders and known.bytes == size
        if len(key) != KEY_CHARACTERS or key in self._keys or own >= MOST_KEYS:
            return 0
        if number and not mine:
            return 0
        if size > self._budget.account_bytes(account) and known is None:
            return 0
        if known is None:
            known = Share(self._next, account, account, size, [account])
            self._live[known.number] = known
            self._next += 1
        self._keys[key] = known
        return known.number

    def withdraw(self, account: Account, key: str) -> None:
        """Forget a key of the account; those that have opened the memory keep it."""
        share = self._keys.get(key)
        if share is not None and share.exporter == account:
            del self._keys[key]

    def open(self, account: Account, key: str) -> tuple[Share, socket.socket] | None:
        """Make an account a holder of the chunk with this key. Return the share and one end of a
        connection to the exporter's worker; None if there is no such memory for this account.
        """
        share = self._keys.get(key)
        if share is None or share.exporter == account:
            return None
        if self._budget.tenant(share.exporter) != self._budget.tenant(account):
            return None
        exporter = self._channels.get(share.exporter)
        if exporter is None:
            return None
        ours, theirs = seqpacket.pair()
        message: dict[str, Any] = {"type": "export", "address": 0, "bytes": 0, "key": key}
        try:
            with theirs:
                descriptors.send(exporter, [spawn.encode(message)], [theirs.fileno()], _FLAGS)
        except OSError:  # its queue is full, or it has just ended
            ours.close()
            return None
        share.holders.append(account)
        return share, ours

    def leave(self, account: Account, number: int) -> tuple[bool, bool, int]:
        """Remove one hold of an account. Return whether the share is known, whether that was the
        last hold, and how many bytes the account is no longer charged for.
        """
        share = self._live.get(number)
        if share is None or account not in share.holders:
            return False, False, 0
        share.holders.remove(account)
        if account == share.exporter:
            for key in [key for key, one in self._keys.items() if one is share]:
                del self._keys[key]
        paid = 0
        if share.payer == account and account not in share.holders:
            paid = min(share.bytes, self._budget.account_bytes(account))
            self._move_charge(share, account, paid)
        if not share.holders:
            del self._live[number]
        return True, not share.holders, paid

    def _move_charge(self, share: Share, account: Account, paid: int) -> None:
        if not share.holders:
            if paid:
                self._budget.release(account, paid)
            return
        share.payer = share.holders[0]
        if not paid:
            return
        self._budget.transfer(account, share.payer, paid)
        channel = self._channels.get(share.payer)
        if channel is not None:
            message = spawn.encode({"type": "charged", "bytes": paid})
            try:
                channel.send(message, _FLAGS)
            except OSError:
                return  # the worker has ended, or ends because it does not read

    def leave_all(self, account: Account) -> int:
        """Remove all holds of an account; return how many bytes it is no longer charged for."""
        paid = 0
        for number, share in list(self._live.items()):
            for _ in range(share.holders.count(account)):
                paid += self.leave(account, number)[2]
        return paid

    def drop(self, account: Account) -> None:
        """Remove an account that is about to be closed."""
        self.leave_all(account)
        self._channels.pop(account, None)
