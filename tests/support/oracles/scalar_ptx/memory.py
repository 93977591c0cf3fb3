"""Memory of the scalar machine, and the errors that end a thread that misuses it."""

from collections.abc import Callable
from dataclasses import dataclass


class Fault(Exception):
    """A thread accessed memory that does not exist (700) or is misaligned (716), or trapped (719).

    ``codes`` are all that apply: which of them a launch reports depends on the order of threads.
    """

    def __init__(self, codes: frozenset[int], what: str) -> None:
        super().__init__(what)
        self.codes = codes


class Race(Exception):
    """The result may depend on the order of threads, so this machine cannot compute it."""


@dataclass
class Region:
    """Bytes at an address. With ``share_bytes``, that many belong to each thread, in linear order
    from ``shares_from`` on; all other bytes may be read by any thread and written by none.
    """

    base: int
    data: bytearray
    share_bytes: int = 0
    shares_from: int = 0


class Shared:
    """The shared memory of a block, zero at first, with the threads that last stored and read each
    byte.
    """

    def __init__(self, size: int) -> None:
        self._data = bytearray(size)
        self._stored: dict[int, int] = {}
        self._read: dict[int, set[int]] = {}
        self._updated: dict[int, str] = {}

    def begin(self) -> None:
        """Discard the records of accesses before the barrier that all threads have passed."""
        self._stored.clear()
        self._read.clear()
        self._updated.clear()

    def load(self, thread: int, address: int, size: int) -> bytes:
        """Return bytes.

        Raises:
            Fault: some of the bytes do not exist.
            Race: another thread has stored one of them since the barrier.
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
            Fault: some of the bytes do not exist.
            Race: another thread has stored or read one of them since the barrier.
        """
        self._check(address, len(raw))
        for byte in range(address, address + len(raw)):
            others = self._read.get(byte, set()) - {thread}
            if byte in self._updated or others or self._stored.get(byte, thread) != thread:
                raise Race
            self._stored[byte] = thread
        self._data[address : address + len(raw)] = raw

    def update(self, address: int, size: int, kind: str, function: Callable[[int], int]) -> None:
        """Change bytes by an update that commutes with others of its kind.

        Raises:
            Fault: some of the bytes do not exist.
            Race: one was read, stored to, or updated by another operation since the barrier.
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
