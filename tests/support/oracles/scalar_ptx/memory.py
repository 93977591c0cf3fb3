"""Memory of the scalar machine, and what ends a thread that misuses it."""

from collections.abc import Callable
from dataclasses import dataclass


class Fault(Exception):
    """A thread touched memory that is not there (700) or not aligned (716), or trapped (719).

    ``codes`` are all that apply: which of them a launch ends with depends on the order of threads.
    """

    def __init__(self, codes: frozenset[int], what: str) -> None:
        super().__init__(what)
        self.codes = codes


class Race(Exception):
    """The result may depend on the order of threads: this machine cannot tell it."""


@dataclass
class Region:
    """Bytes at an address. With ``share_bytes``, that many belong to each thread, in linear order
    from ``shares_from`` on; all others any thread may read and none may write."""

    base: int
    data: bytearray
    share_bytes: int = 0
    shares_from: int = 0


class Shared:
    """The shared memory of a block, zero at first: who has stored and read which byte lately."""

    def __init__(self, size: int) -> None:
        self._data = bytearray(size)
        self._stored: dict[int, int] = {}
        self._read: dict[int, set[int]] = {}
        self._updated: dict[int, str] = {}

    def begin(self) -> None:
        """Forget who did what before the barrier that all have passed."""
        self._stored.clear()
        self._read.clear()
        self._updated.clear()

    def load(self, thread: int, address: int, size: int) -> bytes:
        """Return bytes.

        Raises:
            Fault: when they are not all there.
            Race: when another thread has stored to one since the barrier.
        """
        self._check(address, size)
        for byte in range(address, address + size):
            if self._stored.get(byte, thread) != thread or byte in self._updated:
                raise Race
            self._read.setdefault(byte, set()).add(thread)
        return bytes(self._data[address : address + size])

    def store(self, thread: int, address: int, raw: bytes) -> None:
        """Store bytes.

        Raises:
            Fault: when they are not all there.
            Race: when another thread has stored to or read one since the barrier.
        """
        self._check(address, len(raw))
        for byte in range(address, address + len(raw)):
            others = self._read.get(byte, set()) - {thread}
            if byte in self._updated or others or self._stored.get(byte, thread) != thread:
                raise Race
            self._stored[byte] = thread
        self._data[address : address + len(raw)] = raw

    def update(self, address: int, size: int, kind: str, function: Callable[[int], int]) -> None:
        """Change bytes by an update whose like may come in any order.

        Raises:
            Fault: when they are not all there.
            Race: when one was read, stored to, or updated otherwise since the barrier.
        """
        self._check(address, size)
        for byte in range(address, address + size):
            if byte in self._read or byte in self._stored:
                raise Race
            if self._updated.setdefault(byte, kind) != kind:
                raise Race
        before = int.from_bytes(self._data[address : address + size], "little")
        self._data[address : address + size] = function(before).to_bytes(size, "little")

    def _check(self, address: int, size: int) -> None:
        if address + size > len(self._data):
            raise Fault(frozenset({700}), f"shared {address:#x}")
