"""The extended resource under which each slice and whole GPU of a node is offered."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType

from device_plugin.inventory.model import MigSlice
from gpu_operator.api.v1alpha1.gpupolicy import Strategy
from gpu_operator.api.v1alpha1.sharing import Shared
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """The resource of a slice, and whether each device of the resource is a share of the slice.

    If ``is_share`` is false, the device is the whole slice.
    """

    resource: str
    is_share: bool = False


@dataclass(frozen=True, slots=True)
class OfferedResources:
    """The resources under which a node's slices are offered.

    ``names`` has the resource of each slice by UUID; slices that are never offered are absent.
    ``problem`` is the reason why the node offers none of them at present, or empty.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    shared: Mapping[str, Shared] = field(default_factory=dict)
    """How slices are shared, by UUID; slices that are not shared are absent."""

    @property
    def kinds(self) -> dict[str, Kind]:
        """Return the kind of each slice, by the slice's UUID."""
        return {uuid: Kind(name, uuid in self.shared) for uuid, name in self.names.items()}


def assign_resources(
    prefix: str,
    strategy: Strategy,
    slices: Sequence[MigSlice],
    leaving: Collection[str],
    sharing: Mapping[str, Sequence[Shared]] = MappingProxyType({}),
) -> OfferedResources:
    """Assign a resource to each slice of a node.

    With strategy ``single``, a node offers nothing while its devices differ, because a pod that
    requests a GPU must know what it gets. NVIDIA's device plugin does the same. Slices whose
    UUIDs are in ``leaving`` are not compared. ``sharing`` has the shared resources of each GPU,
    by its UUID.
    """
    named = {s.uuid: strategy.resource_of(s.instance.device) for s in slices}
    shared = {s.uuid: _sharing_of(sharing.get(s.gpu_uuid, ()), named[s.uuid]) for s in slices}
    names = {uuid: f"{prefix}/{_name(shared[uuid], name)}" for uuid, name in named.items() if name}
    staying = {s.instance.device.name for s in slices if s.uuid not in leaving}
    problem = ""
    if strategy is Strategy.SINGLE and len(staying) > 1:
        kinds = ", ".join(sorted(staying))
        problem = (
            f"strategy single needs devices of one kind on the node, and there are {kinds}:"
            " none is offered"
        )
    return OfferedResources(
        names,
        problem,
        {
            uuid: shared_resource
            for uuid, shared_resource in shared.items()
            if shared_resource is not None
        },
    )


def _sharing_of(sharing: Sequence[Shared], name: str) -> Shared | None:
    return next(
        (shared_resource for shared_resource in sharing if shared_resource.name == name), None
    )


def _name(shared: Shared | None, name: str) -> str:
    return name if shared is None else shared.offered_as


def group_by_resource(
    names: Mapping[str, str], slices: Iterable[MigSlice]
) -> dict[str, tuple[MigSlice, ...]]:
    """Group slices by their resource and keep their order; omit slices without a resource."""
    grouped: dict[str, list[MigSlice]] = {}
    for mig_slice in slices:
        if mig_slice.uuid in names:
            grouped.setdefault(names[mig_slice.uuid], []).append(mig_slice)
    return {name: tuple(group) for name, group in grouped.items()}
