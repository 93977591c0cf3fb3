"""Move a client of the HCA's engine to another engine, as in a handover of hcad."""

import json
import os

from hca.binding.engine import Engine
from hca.daemon.common.handover_state import HandoverState
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.client_objects import AdoptedObjects, Objects
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.guard import Guard
from support.rigs.hca_rig import Client


def handed_over(
    client: Client, engine: Engine, numbers: Numbers, enforcer: Enforcer | None = None
) -> Objects:
    """Save a client and load it into another engine, by JSON, as a successor does."""
    handover_state = HandoverState()
    saved = json.loads(json.dumps(client.objects.save(handover_state)))
    arrived = HandoverState([os.dup(descriptor) for descriptor in handover_state.descriptors])
    gids = (bytes(16), client.gid)
    ends = arrived.take_descriptors(saved["descriptors"])
    guard = Guard(enforcer, client.party) if enforcer is not None else None
    objects = AdoptedObjects(engine, numbers, gids, 1 << 30, ends, guard)
    objects.load(saved, arrived)
    assert arrived.list_unclaimed() == []
    return objects


def move(
    client: Client, engine: Engine, numbers: Numbers, enforcer: Enforcer | None = None
) -> None:
    """Move a client to another engine, which serves it from now on; the old one is held."""
    before = client.objects
    client.objects = handed_over(client, engine, numbers, enforcer)
    before.close()
