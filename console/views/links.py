"""Which page shows an object, if one does: a link must not lead to an object that is gone."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from console.model.cluster import ClusterModel
from console.views import faults, needs
from console.views.details import every_slice
from gpu_operator.api.v1alpha1.resource import Fault, Gpu, Layout, Meta, Pool
from gpu_operator.controllers.common.world import World

DELETED: Final = "deleted"
REPLACED: Final = "another object has this name now"


@dataclass(frozen=True, slots=True)
class Link:
    """The address of an object's page, or why it has none; both are empty if that is not known."""

    href: str = ""
    gone: str = ""


_NONE: Final = Link()
_PATHS: Final = {
    "GPU": "/gpus/",
    "Node": "/nodes/",
    "GPUPool": "/?pool=",
    "MIGLayout": "/rollout/",
    faults.KIND: "/faults/",
}
_NEEDS: Final = {"MIGLayout": needs.LAYOUT, "Node": needs.NODE}


def find_page(
    model: ClusterModel, kind: str, name: str, namespace: str = "", uid: str = ""
) -> Link:
    """Return the page of an object. With ``uid``, only that of the object which has it."""
    world = model.world()
    if kind == "Pod":
        is_shown = f"{namespace}/{name}" in model.pods or (namespace, name) in _holders(world)
        return (
            Link(f"/pods/{quote(namespace, safe='')}/{quote(name, safe='')}") if is_shown else _NONE
        )
    path = _PATHS.get(kind)
    if path is None or model.connection.missing(_NEEDS.get(kind, (kind,))):
        return _NONE
    if kind == "Node":
        exists = name in world.nodes or name in world.gpus_by_node()
        return Link(path + quote(name, safe="")) if exists else Link(gone=DELETED)
    meta = _meta(world, kind, name)
    if meta is None:
        return _NONE if (kind, name) in world.broken else Link(gone=DELETED)
    if uid and meta.uid != uid:
        return Link(gone=REPLACED)
    return Link(path + quote(name, safe=""))


def _meta(world: World, kind: str, name: str) -> Meta | None:
    objects_by_kind: Mapping[str, Mapping[str, Gpu | Pool | Layout | Fault]] = {
        "GPU": world.gpus,
        "GPUPool": world.pools,
        "MIGLayout": world.layouts,
        faults.KIND: world.faults,
    }
    resource = objects_by_kind[kind].get(name)
    return resource.meta if resource is not None else None


@lru_cache(maxsize=1)
def _holders(world: World) -> frozenset[tuple[str, str]]:
    """Return the namespaces and names of the pods that hold slices."""
    return frozenset(
        (h.namespace, h.name) for found_slice in every_slice(world) for h in found_slice.holders
    )
