"""Instances that several ResourceClaims share: which claims may join. Pure functions.

A share is a part of the instance's memory. The claims take turns at using everything else. The
scheduler has checked the shares already (``allowMultipleAllocations``), but against the
published state, which may be stale. These functions check them against the actual state.
"""

from dataclasses import replace
from typing import Final

from mig.geometry import Instance
from vgpu_sim.gpud.model import ClaimShare, MigInstance
from vgpu_sim.system.admin_socket.errors import Conflict, InvalidRequest

MAX_SHARES: Final = 48
"""The largest number of claims that share one instance. It equals the device plugin's maximum of
sharers, so that each claim gets one of the instance's contexts, and is enough for the smallest
share (``api.claim_devices``).
"""


def new_share(placed: Instance, owner: str, owner_name: str, memory_bytes: int) -> ClaimShare:
    """Return a claim's share of the instance at ``placed``, which may not exist yet.

    Raises:
        InvalidRequest: there is no owner; or the memory is 0, or is more than the instance has; or
            the instance is only a part of a GPU instance, and so shares memory with other parts.
    """
    most = placed.profile.memory_bytes
    if not owner:
        raise InvalidRequest("a share of an instance must have an owner")
    if not 0 < memory_bytes <= most:
        raise InvalidRequest(f"memory_bytes of a share of {placed} must be 1 to {most}")
    if placed.compute is not None:
        raise InvalidRequest(
            f"claims cannot share {placed}, which is only a part of a GPU instance"
        )
    return ClaimShare(owner, owner_name, memory_bytes)


def add_share(there: MigInstance, new: ClaimShare) -> MigInstance:
    """Add the share ``new`` of one more claim to the instance ``there``, and return the changed
    instance.

    Raises:
        Conflict: the instance belongs to a single claim or a layout; the claim has a share of it
            already; or the instance has no room for the share.
    """
    if not there.shares:
        owner = f"claim {there.owner_name} alone" if there.owner else "a layout"
        raise Conflict(f"{there.placed} belongs to {owner} and is not shared")
    if there.share_of(new.owner) is not None:
        raise Conflict(f"claim {new.owner_name} has another share of {there.placed} already")
    left = there.profile.memory_bytes - there.shared_bytes
    if new.memory_bytes > left or len(there.shares) >= MAX_SHARES:
        raise Conflict(
            f"{there.placed} has no room for a share of {new.memory_bytes} bytes: {left} bytes are"
            f" left beside {claim_names(there)}; at most {MAX_SHARES} claims can share it"
        )
    return replace(there, shares=(*there.shares, new))


def close_share(there: MigInstance, owner: str) -> MigInstance:
    """Return an instance in which the share of ``owner`` admits no new contexts."""
    shares = (replace(one, admit=one.admit and one.owner != owner) for one in there.shares)
    return replace(there, shares=tuple(shares))


def claim_names(there: MigInstance) -> str:
    """Return the names of the claims that share an instance, as text for a message."""
    return ", ".join(f"claim {one.owner_name}" for one in there.shares)
