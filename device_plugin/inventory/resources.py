"""Which extended resource each slice and whole GPU of a node is offered as."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from device_plugin.inventory.model import MigSlice
from gpu_operator.api.v1alpha1.gpupolicy import Strategy
from gpu_operator.api.v1alpha1.sharing import Shared


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """What a device of a slice is: of which resource, and the slice alone or a share of it."""

    resource: str
    is_share: bool = False


@dataclass(frozen=True, slots=True)
class Offered:
    """``names`` has the resource of each slice by UUID, none for those that are never offered.

    ``problem`` says why none of them is offered at present.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    shared: Mapping[str, Shared] = field(default_factory=dict)
    """How slices are shared, by UUID; those that are not are left out."""

    @property
    def kinds(self) -> dict[str, Kind]:
        """Return what the devices of each slice are, by UUID."""
        return {uuid: Kind(name, uuid in self.shared) for uuid, name in self.names.items()}


def offered(
    prefix: str,
    strategy: Strategy,
    slices: Sequence[MigSlice],
    leaving: Collection[str],
    sharing: Mapping[str, Sequence[Shared]] = MappingProxyType({}),
) -> Offered:
    """Name the resources of a node; ``leaving`` are UUIDs of slices that are withdrawn, and
    ``sharing`` says how the resources of each GPU are shared.

    As with NVIDIA's device plugin a node of strategy ``single`` offers nothing while its devices
    are not all alike: who asks for a GPU must know what comes.
    """
    named = {s.uuid: strategy.resource_of(s.instance.device) for s in slices}
    shared = {s.uuid: _shared(sharing.get(s.gpu_uuid, ()), named[s.uuid]) for s in slices}
    names = {uuid: f"{prefix}/{_name(shared[uuid], name)}" for uuid, name in named.items() if name}
    staying = {s.instance.device.name for s in slices if s.uuid not in leaving}
    problem = ""
    if strategy is Strategy.SINGLE and len(staying) > 1:
        kinds = ", ".join(sorted(staying))
        problem = (
            f"strategy single needs devices of one kind on the node, and there are {kinds}:"
            " none is offered"
        )
    return Offered(names, problem, {uuid: one for uuid, one in shared.items() if one is not None})


def _shared(sharing: Sequence[Shared], name: str) -> Shared | None:
    return next((one for one in sharing if one.name == name), None)


def _name(shared: Shared | None, name: str) -> str:
    return name if shared is None else shared.offered_as


def by_resource(
    names: Mapping[str, str], slices: Iterable[MigSlice]
) -> dict[str, tuple[MigSlice, ...]]:
    """Group slices by the resource they are offered as, order kept; those without one are left."""
    grouped: dict[str, list[MigSlice]] = {}
    for mig_slice in slices:
        if mig_slice.uuid in names:
            grouped.setdefault(names[mig_slice.uuid], []).append(mig_slice)
    return {name: tuple(group) for name, group in grouped.items()}
