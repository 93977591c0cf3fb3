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
    wanted_specs: Mapping[str, Document],
    existing_slices: Mapping[str, Document],
    owners: Sequence[Document],
    min_generation: int = 1,
) -> Plan:
    """Plan the writes that turn the existing ResourceSlices into the wanted ones.

    ``existing_slices`` has the existing ResourceSlices, and ``wanted_specs`` the specs of the
    wanted ones, both by name. ``owners`` are the owner references that every slice gets.
    ``min_generation`` is the lowest generation that may be used: a pool whose slices were all
    deleted must not restart from 1.
    """
    surplus = tuple(sorted(name for name in existing_slices if name not in wanted_specs))
    newest = max(map(generation, existing_slices.values()), default=0)
    newest_names = {
        name for name, document in existing_slices.items() if generation(document) == newest
    }
    correct_names = {
        name
        for name in newest_names
        if name in wanted_specs and same(existing_slices[name], wanted_specs[name], owners)
    }
    if correct_names == wanted_specs.keys():
        return Plan(delete=surplus)
    goes_on = correct_names == newest_names and newest >= min_generation and correct_names
    number = newest if goes_on else max(newest + 1, min_generation)
    missing = [name for name in wanted_specs if not (goes_on and name in correct_names)]
    return Plan(
        tuple(_document(name, wanted_specs[name], owners, number) for name in missing), surplus
    )


def generation(document: Document) -> int:
    """Return the pool generation of a slice."""
    return int((document.get("spec") or {}).get("pool", {}).get("generation") or 0)


def same(existing_slice: Document, wanted_spec: Document, owners: Sequence[Document]) -> bool:
    """Return whether the existing slice has the wanted spec and owners.

    The generation of ``existing_slice`` does not matter.
    """
    owned = {owner["uid"] for owner in (existing_slice["metadata"].get("ownerReferences") or ())}
    return _essence(existing_slice["spec"]) == _essence(wanted_spec) and owned == {
        o["uid"] for o in owners
    }


def _essence(spec: Document) -> dict[str, Any]:
    """Return a spec without the fields that the API server or the generation adds."""
    pool = {key: value for key, value in spec["pool"].items() if key != "generation"}
    essence = {**spec, "pool": pool}
    if "devices" in spec:
        essence["devices"] = [_device(device) for device in spec["devices"]]
    return essence


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
