"""Allocate P_Keys to partitions: keys in use first, then fixed keys, then new keys from names.

A partition keeps its key as long as it exists, so a new partition changes no other key. A
restarted operator passes the previous keys, which it reads from the status of RDMANetworks.
Without previous keys, a hash of the partition's name selects the first key to try, so most
partitions get the same key again.
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
"""A partition's place: the name of its network, and its own name in that network."""


def sort_by_age(networks: Iterable[Network]) -> list[Network]:
    """Return the networks sorted by age, oldest first.

    The order matters if two partitions claim the same P_Key: the partition in the older network
    gets it.
    """
    return sorted(networks, key=lambda network: (network.created, network.name))


def allocate(
    networks: Iterable[Network], earlier_pkeys: Mapping[Place, int]
) -> tuple[dict[Place, int], dict[Place, PolicyError]]:
    """Return the P_Key of each partition that gets one, and the errors of those that get none.

    No two partitions have the same key. ``earlier_pkeys`` has the previous keys.
    """
    requested_pkeys = {
        (network.name, partition.name): (index, partition.pkey)
        for network in sort_by_age(networks)
        for index, partition in enumerate(network.partitions)
    }
    holders: dict[int, Place] = {}
    refused: dict[Place, PolicyError] = {}
    for place, (_, fixed) in requested_pkeys.items():
        if fixed is None and FIRST <= earlier_pkeys.get(place, 0) <= LAST:
            holders.setdefault(earlier_pkeys[place], place)
    for place, (index, fixed) in requested_pkeys.items():
        if fixed is None:
            continue
        if not FIRST <= fixed <= DEFAULT_PKEY:
            refused[place] = _refusal(index, fixed, "is not a P_Key of 15 bits")
        elif fixed in holders:
            refused[place] = _refusal(index, fixed, f"is partition {'/'.join(holders[fixed])}'s")
        else:
            holders[fixed] = place
    keys = {place: key for key, place in holders.items()}
    for place, (index, _) in requested_pkeys.items():
        if place in keys or place in refused:
            continue
        key = _free(place, holders)
        if key is None:
            field = f"spec.partitions[{index}].pkey"
            refused[place] = PolicyError(field, "all P_Keys are in use", "remove a partition")
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
