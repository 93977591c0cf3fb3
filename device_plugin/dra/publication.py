"""Plans the writes that bring a node's ResourceSlices up to date. Pure.

Only the slices of a pool's highest generation count, and only when all of them exist. So every
change uses a new generation, and an interrupted change is completed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from vgpu_sim.records import dataclass

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes at the API server that publish the node's ResourceSlices.

    The documents in ``apply`` are applied first, in their order. Then the slices whose names are in
    ``delete`` are deleted.
    """

    apply: tuple[dict[str, Any], ...] = ()
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.apply or self.delete)


def plan(
    wanted: Mapping[str, Document],
    there: Mapping[str, Document],
    owners: Sequence[Document],
    least: int = 1,
) -> Plan:
    """Plan the writes that turn the existing ResourceSlices into the wanted ones.

    ``there`` has the existing ResourceSlices, and ``wanted`` the specs of the wanted ones, both by
    name. ``owners`` are the owner references that every slice gets. ``least`` is the lowest
    generation that may be used: a pool whose slices were all deleted must not restart from 1.
    """
    surplus = tuple(sorted(name for name in there if name not in wanted))
    newest = max(map(generation, there.values()), default=0)
    current = {name for name, one in there.items() if generation(one) == newest}
    right = {name for name in current if name in wanted and same(there[name], wanted[name], owners)}
    if right == wanted.keys():
        return Plan(delete=surplus)
    goes_on = right == current and newest >= least and right
    number = newest if goes_on else max(newest + 1, least)
    missing = [name for name in wanted if not (goes_on and name in right)]
    return Plan(tuple(_document(name, wanted[name], owners, number) for name in missing), surplus)


def generation(document: Document) -> int:
    """Return the pool generation of a slice."""
    return int((document.get("spec") or {}).get("pool", {}).get("generation") or 0)


def same(there: Document, wanted: Document, owners: Sequence[Document]) -> bool:
    """Return whether the existing slice has the wanted spec and owners.

    The generation of the existing slice, ``there``, does not matter.
    """
    owned = {owner["uid"] for owner in (there["metadata"].get("ownerReferences") or ())}
    return _essence(there["spec"]) == _essence(wanted) and owned == {o["uid"] for o in owners}


def _essence(spec: Document) -> dict[str, Any]:
    """Return a spec without the fields that the API server or the generation adds."""
    pool = {key: value for key, value in spec["pool"].items() if key != "generation"}
    found = {**spec, "pool": pool}
    if "devices" in spec:
        found["devices"] = [_device(device) for device in spec["devices"]]
    return found


def _device(device: Document) -> Document:
    """Return a device without the times at which its taints were added."""
    if "taints" not in device:
        return device
    taints = [{k: v for k, v in taint.items() if k != "timeAdded"} for taint in device["taints"]]
    return {**device, "taints": taints}


def _document(name: str, spec: Document, owners: Sequence[Document], number: int) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "ownerReferences": [dict(owner) for owner in owners]},
        "spec": {**spec, "pool": {**spec["pool"], "generation": number}},
    }
