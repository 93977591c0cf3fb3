"""Numbers that are unique on a fabric and that nobody can guess: queue pairs' and keys."""

import secrets

from hca.contract.hca import HCA_QPN_MASK

_FIRST_QPN = 2  # 0 and 1 are the subnet's and the communication manager's


class Numbers:
    """Hands out numbers at random: sequential ones invite forged requests (ReDMArk)."""

    def __init__(self) -> None:
        self._qpns: set[int] = set()
        self._keys: set[int] = set()
        self._pds = 0

    @property
    def last_pd(self) -> int:
        """The newest number of a protection domain."""
        return self._pds

    def adopt_pds(self, last: int) -> None:
        """Go on after a predecessor's newest protection domain."""
        self._pds = max(self._pds, last)

    def adopt_qpn(self, number: int) -> None:
        """Keep a number of a predecessor's. Raises ValueError where it is taken."""
        _adopt(self._qpns, number)

    def adopt_key(self, key: int) -> None:
        """Keep a key of a predecessor's. Raises ValueError where it is taken."""
        _adopt(self._keys, key >> 8)

    def new_pd(self) -> int:
        """Return a number for a protection domain that none had before."""
        self._pds += 1
        return self._pds

    def new_qpn(self) -> int:
        """Return the number of a new queue pair: 24 bits."""
        return _draw(self._qpns, _FIRST_QPN, HCA_QPN_MASK)

    def free_qpn(self, number: int) -> None:
        """Let a number be another's."""
        self._qpns.remove(number)

    def new_key(self) -> int:
        """Return the key of a new memory region, window or address handle: 32 bits.

        No two have the same upper 24: the lowest 8 of a window's key are its owner's to choose.
        """
        return _draw(self._keys, 1, (1 << 24) - 1) << 8 | secrets.randbelow(1 << 8)

    def free_key(self, key: int) -> None:
        """Let a key be another's."""
        self._keys.remove(key >> 8)


def _draw(taken: set[int], least: int, greatest: int) -> int:
    while True:
        number = least + secrets.randbelow(greatest - least + 1)
        if number not in taken:
            taken.add(number)
            return number


def _adopt(taken: set[int], number: int) -> None:
    if number in taken:
        raise ValueError(f"{number} twice")
    taken.add(number)
