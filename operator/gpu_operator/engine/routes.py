"""Determines which keys a changed object affects, according to the table of kinds."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpu_operator import kinds
from gpu_operator.controllers.common.world import World
from gpu_operator.engine.queue import Key
from gpu_operator.kinds import Kind


def object_names(kind: str, world: World) -> set[str]:
    """Return the names of all objects of a kind.

    The result includes deleted objects whose names other objects still contain.
    """
    row = kinds.find_kind(kind)
    names = set(_objects(row, world)) | set(row.always)
    names |= {name for broken, name in world.broken if broken == kind}
    for other_kind in kinds.watched_kinds():
        name_in = other_kind.survived_by.get(kind)
        if name_in is not None:
            names |= {name_in(value) or "" for value in _objects(other_kind, world).values()}
    return names - {""}


def all_keys(world: World) -> set[Key]:
    """Return the keys of all objects that are reconciled."""
    return {
        Key(kind.name, name)
        for kind in kinds.watched_kinds()
        if kind.reconciled
        for name in object_names(kind.name, world)
    }


def keys_affected_by(kind: str, name: str, world: World) -> Iterable[Key]:
    """Return the keys that a change of this object affects; the object may be gone already."""
    row = kinds.find_kind(kind)
    keys: set[Key] = {Key(kind, name)} if row.reconciled else set()
    for woken in row.wakes:
        keys |= {Key(woken, woken_name) for woken_name in object_names(woken, world)}
    value = _objects(row, world).get(name)
    for woken, name_in in row.wakes_named.items():
        if value is not None and (woken_name := name_in(value)):
            keys.add(Key(woken, woken_name))
    for other_row in kinds.watched_kinds():
        waking = other_row.woken_by.get(kind)
        if waking is not None:
            followers = _objects(other_row, world).items()
            keys |= {Key(other_row.name, n) for n, v in followers if waking(v) == name}
    return keys


def _objects(kind: Kind, world: World) -> Mapping[str, Any]:
    objects: Mapping[str, Any] = getattr(world, kind.collection) if kind.collection else {}
    return objects
