"""ResourceClaims with what only pages need: whether they are allocated, and for which pods."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from gpu_operator.controllers.claims import reading
from gpu_operator.controllers.claims.reading import Claim

_SHOWN: Final = 8  # pods for which a claim is reserved


@dataclass(frozen=True, slots=True)
class KnownClaim(Claim):
    """A claim of any driver.

    ``reserved_for`` are the names of the pods that may use it now, of many the first.
    """

    is_allocated: bool = False
    is_ending: bool = False
    reserved_for: tuple[str, ...] = ()
    reservations: int = 0


def read_claim(document: Mapping[str, Any]) -> KnownClaim:
    """Parse a claim as the operator does, and what it is allocated and reserved for."""
    metadata, status = document["metadata"], document.get("status") or {}
    claim = reading.read_claim(document)
    if claim is None:
        claim = Claim(metadata["namespace"], metadata["name"], str(metadata.get("uid") or ""))
    users = [user for user in status.get("reservedFor") or () if user.get("resource") == "pods"]
    return KnownClaim(
        **{field.name: getattr(claim, field.name) for field in fields(claim)},
        is_allocated=bool(status.get("allocation")),
        is_ending=bool(metadata.get("deletionTimestamp")),
        reserved_for=tuple(str(user.get("name")) for user in users[:_SHOWN]),
        reservations=len(users),
    )
