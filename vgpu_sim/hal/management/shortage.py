"""Describes gpud's event "out_of_memory" for the user of a run, and for a pod's events."""

from collections.abc import Mapping
from typing import Any


def describe(event: Mapping[str, Any], budget_owner: str) -> str:
    """Return how much memory was requested, and how much is free: in the slice, in the shared part
    of the memory budget of ``budget_owner`` (the node or the run), and in the slice's guaranteed
    part.
    """

    def size(name: str, older_name: str = "") -> str:
        return f"{int(event.get(name) or event.get(older_name) or 0) >> 20} MiB"

    # An older gpud reports the sums of the shared and guaranteed parts only.
    shared_free = size(
        "shared_free_bytes", "" if "guaranteed_bytes" in event else "node_free_bytes"
    )
    text = (
        f"{size('requested_bytes')} requested, {size('slice_free_bytes')} free in the slice,"
        f" {shared_free} of the {budget_owner}'s shared budget of"
        f" {size('shared_total_bytes', 'node_total_bytes')}"
    )
    if not event.get("guaranteed_bytes"):
        return text
    free, part = size("guaranteed_free_bytes"), size("guaranteed_bytes")
    return f"{text}, {free} of this slice's guaranteed part of {part}"
