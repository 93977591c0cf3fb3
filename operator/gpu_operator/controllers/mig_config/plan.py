"""What a configuration of mig-parted's asks of the GPUs of one node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from gpu_operator.api.migparted import VENDOR, Entry
from gpu_operator.api.v1alpha1.miglayout import InstanceRequest
from mig import geometry

_TOLD = 8


class PlanError(ValueError):
    """A node's configuration cannot be carried out; says why, and what could be."""


@dataclass(frozen=True, slots=True)
class Group:
    """GPUs of a node, by index, that get the same."""

    indices: tuple[int, ...]
    instances: tuple[InstanceRequest, ...]


def groups(
    named: Mapping[str, Sequence[Entry]], wanted: str, board_key: str, count: int, source: str
) -> Sequence[Group]:
    """Return what the GPUs of a node with so many of a board get, in the order of indices.

    Of two entries for a GPU the later counts, as with mig-parted; a GPU that no entry is for stays
    as it is.

    Raises:
        PlanError: there is no such configuration, or nothing in it is for these GPUs.
        UnknownBoardError: there is no such board.
    """
    entries = named.get(wanted)
    if entries is None:
        near = get_close_matches(wanted, named, n=_TOLD, cutoff=0.0)
        known = f"it has {', '.join(near)}" if near else "it has none"
        more = f" and {len(named) - len(near)} more" if len(named) > len(near) else ""
        raise PlanError(f"ConfigMap {source} has no configuration {wanted!r}; {known}{more}")
    device_id = geometry.board(board_key).pci_device_id
    found: dict[tuple[InstanceRequest, ...], list[int]] = {}
    for index in range(count):
        for_it = [entry for entry in entries if entry.covers(index, device_id)]
        if for_it:
            found.setdefault(requests(for_it[-1]), []).append(index)
    if not found:
        device = f"0x{device_id << 16 | VENDOR:08X}"
        gpus = f"{count} GPUs of board {board_key} ({device})"
        raise PlanError(f"configuration {wanted!r} has nothing for this node: {gpus}")
    return [Group(tuple(indices), instances) for instances, indices in found.items()]


def requests(entry: Entry) -> tuple[InstanceRequest, ...]:
    """Return a layout's instances for an entry: with MIG off the GPU as a whole."""
    if not entry.mig_enabled:
        return (InstanceRequest(profile=geometry.WHOLE),)
    return tuple(InstanceRequest(profile=name, count=count) for name, count in entry.instances)
