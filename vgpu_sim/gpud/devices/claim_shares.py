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
    max_bytes = placed.profile.memory_bytes
    if not owner:
        raise InvalidRequest("a share of an instance must have an owner")
    if not 0 < memory_bytes <= max_bytes:
        raise InvalidRequest(f"memory_bytes of a share of {placed} must be 1 to {max_bytes}")
    if placed.compute is not None:
        raise InvalidRequest(
            f"claims cannot share {placed}, which is only a part of a GPU instance"
        )
    return ClaimShare(owner, owner_name, memory_bytes)


def add_share(instance: MigInstance, new: ClaimShare) -> MigInstance:
    """Add the share ``new`` of one more claim to ``instance``, and return the changed
    instance.

    Raises:
        Conflict: the instance belongs to a single claim or a layout; the claim has a share of it
            already; or the instance has no room for the share.
    """
    if not instance.shares:
        owner = f"claim {instance.owner_name} alone" if instance.owner else "a layout"
        raise Conflict(f"{instance.placed} belongs to {owner} and is not shared")
    if instance.share_of(new.owner) is not None:
        raise Conflict(f"claim {new.owner_name} has another share of {instance.placed} already")
    free_bytes = instance.profile.memory_bytes - instance.shared_bytes
    if new.memory_bytes > free_bytes or len(instance.shares) >= MAX_SHARES:
        raise Conflict(
            f"{instance.placed} has no room for a share of {new.memory_bytes} bytes: {free_bytes}"
            f" bytes are left beside {claim_names(instance)}; at most {MAX_SHARES} claims can share"
            " it"
        )
    return replace(instance, shares=(*instance.shares, new))


def close_share(instance: MigInstance, owner: str) -> MigInstance:
    """Return an instance in which the share of ``owner`` admits no new contexts."""
    shares = (
        replace(share, admit=share.admit and share.owner != owner) for share in instance.shares
    )
    return replace(instance, shares=tuple(shares))


def claim_names(instance: MigInstance) -> str:
    """Return the names of the claims that share an instance, as text for a message."""
    return ", ".join(f"claim {share.owner_name}" for share in instance.shares)
