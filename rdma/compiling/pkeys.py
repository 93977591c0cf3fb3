"""Gives partitions their P_Keys: what is fixed, what was given before, and the rest by their names.

A key that is given stays given while its partition is there, so a new partition changes nobody's;
who starts again passes on what was given (an RDMANetwork's status). Without that a name alone says
which key is tried first, so most keys come out the same.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

from rdma.errors import PolicyError
from rdma.objects import Network
from rdma.tables import DEFAULT_PKEY

FIRST: Final = 0x0001
LAST: Final = 0x7FFE
Place = tuple[str, str]
"""A network's name and a partition's."""


def in_order(networks: Iterable[Network]) -> list[Network]:
    """Return networks, the first one made first: who was first keeps what two want."""
    return sorted(networks, key=lambda network: (network.created, network.name))


def allocate(
    networks: Iterable[Network], given: Mapping[Place, int]
) -> tuple[dict[Place, int], dict[Place, PolicyError]]:
    """Return the key of each partition, and why one has none. No key is there twice."""
    wanted = {
        (network.name, partition.name): (index, partition.pkey)
        for network in in_order(networks)
        for index, partition in enumerate(network.partitions)
    }
    holders: dict[int, Place] = {}
    refused: dict[Place, PolicyError] = {}
    for place, (_, fixed) in wanted.items():
        if fixed is None and FIRST <= given.get(place, 0) <= LAST:
            holders.setdefault(given[place], place)
    for place, (index, fixed) in wanted.items():
        if fixed is None:
            continue
        if not FIRST <= fixed <= DEFAULT_PKEY:
            refused[place] = _refusal(index, fixed, "is no P_Key of 15 bits")
        elif fixed in holders:
            refused[place] = _refusal(index, fixed, f"is partition {'/'.join(holders[fixed])}'s")
        else:
            holders[fixed] = place
    keys = {place: key for key, place in holders.items()}
    for place, (index, _) in wanted.items():
        if place in keys or place in refused:
            continue
        key = _free(place, holders)
        if key is None:
            field = f"spec.partitions[{index}].pkey"
            refused[place] = PolicyError(field, "all P_Keys are given", "remove a partition")
        else:
            holders[key] = place
            keys[place] = key
    return keys, refused


def _refusal(index: int, pkey: int, problem: str) -> PolicyError:
    field = f"spec.partitions[{index}].pkey"
    return PolicyError(field, f"{pkey:#06x} {problem}", "choose another, or leave it out")


def _free(place: Place, holders: Mapping[int, Place]) -> int | None:
    count = LAST - FIRST + 1
    start = int.from_bytes(sha256("/".join(place).encode()).digest()[:4]) % count
    keys = (FIRST + (start + step) % count for step in range(count))
    return next((key for key in keys if key not in holders), None)
