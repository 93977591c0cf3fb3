"""ResourceClaims by name, and how their slices are called in CDI.

By the latter the kubelet's lists tell whose they are.
"""

import re
from dataclasses import dataclass
from typing import Final

DRIVER: Final = "gpu.tessera.dev"
"""The DRA driver's name, as ``api.claim_devices`` has it."""
KIND: Final = f"{DRIVER}/claim"
_HEX = "[0-9a-f]"
_UUID = rf"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"
_DEVICE = re.compile(rf"{re.escape(KIND)}=({_UUID})-((?:MIG|GPU)-{_UUID})", re.ASCII)
_CLAIM_UID = re.compile(_UUID, re.ASCII)


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """Which claim is meant; a claim of the same name may be another one."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def is_claim_uid(text: str) -> bool:
    """Return whether this is a claim's UID: it becomes part of a file's name."""
    return _CLAIM_UID.fullmatch(text) is not None


def device_name(claim_uid: str, slice_uuid: str) -> str:
    """Return the CDI name, without its kind, of a slice that a claim gives."""
    return f"{claim_uid}-{slice_uuid}"


def device_id(claim_uid: str, slice_uuid: str) -> str:
    """Return the same, qualified by its kind."""
    return f"{KIND}={device_name(claim_uid, slice_uuid)}"


def slice_of(device: str) -> str | None:
    """Return the UUID of the slice that a qualified CDI name is of; None: it is none of ours."""
    match = _DEVICE.fullmatch(device)
    return match[2] if match else None


def claim_of(device: str) -> str | None:
    """Return the UID of the claim that a qualified CDI name is of; None: it is none of ours."""
    match = _DEVICE.fullmatch(device)
    return match[1] if match else None
