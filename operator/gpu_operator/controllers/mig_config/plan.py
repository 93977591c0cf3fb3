"""The instances that a mig-parted configuration requests for the GPUs of one node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from gpu_operator.api.mig_parted import VENDOR, Entry
from gpu_operator.api.v1alpha1.miglayout import InstanceRequest
from mig import geometry

_MAX_SUGGESTED = 8


class PlanError(ValueError):
    """A node's configuration cannot be applied; the message gives the reason and alternatives."""


@dataclass(frozen=True, slots=True)
class Group:
    """GPUs of a node, given by their indices, that get the same instances."""

    indices: tuple[int, ...]
    instances: tuple[InstanceRequest, ...]


def make_groups(
    named: Mapping[str, Sequence[Entry]], config_name: str, board_key: str, count: int, source: str
) -> Sequence[Group]:
    """Group the GPUs of a node by the instances that the configuration ``config_name`` gives them.

    ``named`` has the entries of all configurations, by name. ``count`` is the number of the node's
    GPUs. ``source`` is the ConfigMap that errors name. As in mig-parted, the last entry that covers
    a GPU applies; a GPU without an entry stays unchanged. The groups are in the order of their
    lowest GPU index.

    Raises:
        PlanError: the configuration does not exist, or has no entry for these GPUs.
        UnknownBoardError: the board does not exist.
    """
    entries = named.get(config_name)
    if entries is None:
        near = get_close_matches(config_name, named, n=_MAX_SUGGESTED, cutoff=0.0)
        suggestion = f"it has {', '.join(near)}" if near else "it has none"
        omitted_text = f" and {len(named) - len(near)} more" if len(named) > len(near) else ""
        raise PlanError(
            f"ConfigMap {source} has no configuration {config_name!r}; {suggestion}{omitted_text}"
        )
    device_id = geometry.board(board_key).pci_device_id
    indices_by_instances: dict[tuple[InstanceRequest, ...], list[int]] = {}
    for index in range(count):
        for_it = [entry for entry in entries if entry.covers(index, device_id)]
        if for_it:
            indices_by_instances.setdefault(to_instance_requests(for_it[-1]), []).append(index)
    if not indices_by_instances:
        device = f"0x{device_id << 16 | VENDOR:08X}"
        gpus = f"{count} GPUs of board {board_key} ({device})"
        raise PlanError(f"configuration {config_name!r} has no entry for this node: {gpus}")
    return [Group(tuple(indices), instances) for instances, indices in indices_by_instances.items()]


def to_instance_requests(entry: Entry) -> tuple[InstanceRequest, ...]:
    """Convert an entry to a layout's requests; with MIG off, the request is for the whole GPU."""
    if not entry.mig_enabled:
        return (InstanceRequest(profile=geometry.WHOLE),)
    return tuple(InstanceRequest(profile=name, count=count) for name, count in entry.instances)
