"""References to ResourceClaims, and the CDI names of their slices.

The kubelet's lists contain these names, which identify the claim.
"""

import re
from typing import Final

from vgpu_sim.records import dataclass

DRIVER: Final = "gpu.tessera.dev"
"""The DRA driver's name, equal to that in ``api.claim_devices``."""
KIND: Final = f"{DRIVER}/claim"
_HEX = "[0-9a-f]"
_UUID = rf"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"
_DEVICE = re.compile(rf"{re.escape(KIND)}=({_UUID})-((?:MIG|GPU)-{_UUID})", re.ASCII)
_CLAIM_UID = re.compile(_UUID, re.ASCII)


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A ResourceClaim by name and UID; the UID distinguishes it from later claims of that name."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def is_claim_uid(text: str) -> bool:
    """Return whether the text is a claim's UID, and so safe in a file name."""
    return _CLAIM_UID.fullmatch(text) is not None


def device_name(claim_uid: str, slice_uuid: str) -> str:
    """Return the unqualified CDI name of a slice that a claim holds."""
    return f"{claim_uid}-{slice_uuid}"


def device_id(claim_uid: str, slice_uuid: str) -> str:
    """Return the qualified CDI name (kind and name) of a slice that a claim holds."""
    return f"{KIND}={device_name(claim_uid, slice_uuid)}"


def slice_of(device: str) -> str | None:
    """Return the slice's UUID from the CDI name of a claim's device; None for other names."""
    match = _DEVICE.fullmatch(device)
    return match[2] if match else None


def claim_of(device: str) -> str | None:
    """Return the claim's UID from the CDI name of a claim's device; None for other names."""
    match = _DEVICE.fullmatch(device)
    return match[1] if match else None
