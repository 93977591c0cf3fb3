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
    found = reading.read_claim(document)
    if found is None:
        found = Claim(metadata["namespace"], metadata["name"], str(metadata.get("uid") or ""))
    users = [one for one in status.get("reservedFor") or () if one.get("resource") == "pods"]
    return KnownClaim(
        **{one.name: getattr(found, one.name) for one in fields(found)},
        is_allocated=bool(status.get("allocation")),
        is_ending=bool(metadata.get("deletionTimestamp")),
        reserved_for=tuple(str(one.get("name")) for one in users[:_SHOWN]),
        reservations=len(users),
    )
