"""Instances that ResourceClaims share: who may join one, and who has it. Pure.

A share is a part of the memory; everything else is used in turns. The scheduler has counted the
shares already (``allowMultipleAllocations``), by what it has heard: here they are counted by what
there is.
"""

from dataclasses import replace
from typing import Final

from mig.geometry import Instance
from vgpu_sim.gpud.model import ClaimShare, MigInstance
from vgpu_sim.system.admin_socket.errors import Conflict, InvalidRequest

MAX_SHARES: Final = 48
"""Claims that share one instance at most: as many as the device plugin's sharers, so that each has
a context of the instance's. The smallest share that is offered (``api.claim_devices``) fits."""


def share(placed: Instance, owner: str, owner_name: str, memory_bytes: int) -> ClaimShare:
    """Return the share of a claim in what is to be at a place.

    Raises:
        InvalidRequest: nobody would have it, it has no memory or more than there is, or the place
            is a part of a GPU instance, whose memory is shared already.
    """
    most = placed.profile.memory_bytes
    if not owner:
        raise InvalidRequest("a share of an instance has an owner")
    if not 0 < memory_bytes <= most:
        raise InvalidRequest(f"memory_bytes of a share are 1 to {most} of {placed}")
    if placed.compute is not None:
        raise InvalidRequest(f"{placed} is a part of a GPU instance, which claims do not share")
    return ClaimShare(owner, owner_name, memory_bytes)


def joined(there: MigInstance, new: ClaimShare) -> MigInstance:
    """Return an instance with one claim more.

    Raises:
        Conflict: it is one claim's alone, a layout's, or has not enough memory left.
    """
    if not there.shares:
        owner = f"claim {there.owner_name} alone" if there.owner else "a layout"
        raise Conflict(f"{there.placed} is there for {owner}: it is not shared")
    if there.share_of(new.owner) is not None:
        raise Conflict(f"claim {new.owner_name} has another share of {there.placed} already")
    left = there.profile.memory_bytes - there.shared_bytes
    if new.memory_bytes > left or len(there.shares) >= MAX_SHARES:
        raise Conflict(
            f"{there.placed} has no room for {new.memory_bytes} bytes: {left} are left beside"
            f" {whose(there)}, at most {MAX_SHARES} claims"
        )
    return replace(there, shares=(*there.shares, new))


def closed(there: MigInstance, owner: str) -> MigInstance:
    """Return an instance in which a claim gets no new contexts."""
    shares = (replace(one, admit=one.admit and one.owner != owner) for one in there.shares)
    return replace(there, shares=tuple(shares))


def whose(there: MigInstance) -> str:
    """Return which claims share an instance."""
    return ", ".join(f"claim {one.owner_name}" for one in there.shares)
