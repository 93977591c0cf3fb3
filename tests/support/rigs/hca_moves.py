"""A client of the HCA's engine goes over to another engine, as at a hand-over of hcad."""

import json
import os

from hca.binding.engine import Engine
from hca.daemon.common.handover_state import Luggage
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.client_objects import AdoptedObjects, Objects
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.guard import Guard
from support.rigs.hca_rig import Client


def handed_over(
    client: Client, engine: Engine, numbers: Numbers, enforcer: Enforcer | None = None
) -> Objects:
    """Save a client, and load it into another engine by way of JSON, as a successor does."""
    luggage = Luggage()
    saved = json.loads(json.dumps(client.objects.save(luggage)))
    arrived = Luggage([os.dup(descriptor) for descriptor in luggage.descriptors])
    gids = (bytes(16), client.gid)
    ends = arrived.take_all(saved["descriptors"])
    guard = Guard(enforcer, client.party) if enforcer is not None else None
    objects = AdoptedObjects(engine, numbers, gids, 1 << 30, ends, guard)
    objects.load(saved, arrived)
    assert arrived.left() == []
    return objects


def move(
    client: Client, engine: Engine, numbers: Numbers, enforcer: Enforcer | None = None
) -> None:
    """Let a client's requests go to another engine from now on; the old one is held."""
    before = client.objects
    client.objects = handed_over(client, engine, numbers, enforcer)
    before.close()
