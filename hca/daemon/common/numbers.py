"""Allocate unpredictable numbers for queue pairs and keys, unique in an hcad."""

import secrets

from hca.contract.hca import HCA_QPN_MASK

_FIRST_QPN = 2  # 0 and 1 are the general ones, for subnet management and connection management


class Numbers:
    """Allocates numbers at random, because sequential numbers make forged requests easy
    (ReDMArk).
    """

    def __init__(self) -> None:
        self._qpns: set[int] = set()
        self._keys: set[int] = set()
        self._pds = 0

    @property
    def last_pd(self) -> int:
        """Return the number of the newest protection domain."""
        return self._pds

    def adopt_pds(self, last: int) -> None:
        """Allocate only protection domain numbers above ``last`` from now on.

        ``last`` is the number of a predecessor's newest protection domain.
        """
        self._pds = max(self._pds, last)

    def adopt_qpn(self, number: int) -> None:
        """Reserve the number of a predecessor's queue pair. Raises ValueError if it is in use."""
        _adopt(self._qpns, number)

    def adopt_key(self, key: int) -> None:
        """Reserve the key of a predecessor's object. Raises ValueError if the key is in use."""
        _adopt(self._keys, key >> 8)

    def new_pd(self) -> int:
        """Return a new number for a protection domain; numbers are never reused."""
        self._pds += 1
        return self._pds

    def new_qpn(self) -> int:
        """Return a new queue pair's number, which has 24 bits."""
        return _draw(self._qpns, _FIRST_QPN, HCA_QPN_MASK)

    def free_qpn(self, number: int) -> None:
        """Free a queue pair's number for new queue pairs."""
        self._qpns.remove(number)

    def new_key(self) -> int:
        """Return a key of 32 bits for a new memory region, window or address handle.

        The upper 24 bits differ from those of all other keys, because a window's owner chooses
        the lowest 8 bits.
        """
        return _draw(self._keys, 1, (1 << 24) - 1) << 8 | secrets.randbelow(1 << 8)

    def free_key(self, key: int) -> None:
        """Free the key of a memory region, window or address handle."""
        self._keys.remove(key >> 8)


def _draw(used_numbers: set[int], minimum: int, maximum: int) -> int:
    while True:
        number = minimum + secrets.randbelow(maximum - minimum + 1)
        if number not in used_numbers:
            used_numbers.add(number)
            return number


def _adopt(used_numbers: set[int], number: int) -> None:
    if number in used_numbers:
        raise ValueError(f"number {number} occurs twice")
    used_numbers.add(number)
