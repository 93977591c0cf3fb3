"""Handing one end of a wire over from engine to engine."""

import json
import os
import threading

from hca.binding.engine import Engine
from hca.daemon.common.handover_state import Luggage
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.client_objects import AdoptedObjects
from support.wire.wire_rig import End

POSTING = threading.Lock()
"""A program's own doorbell outlives its hcad; here it is hcad's, so no program rings meanwhile."""


def hand_over(end: End, engine: Engine) -> None:
    """Have another engine serve an end from now on; it is held until everything is there."""
    end.engine.hold()
    engine.hold()
    luggage = Luggage()
    saved = json.loads(json.dumps(end.client.objects.save(luggage)))
    arrived = Luggage([os.dup(descriptor) for descriptor in luggage.descriptors])
    wire = engine.add_wire(end.sockets.structure())
    handles = arrived.take_all(saved["descriptors"])
    objects = AdoptedObjects(engine, Numbers(), end.gids, 1 << 30, handles)
    objects.load(saved, arrived)
    with POSTING:
        end.client.objects.close()
        end.engine.remove_wire(end.wire)
        end.engine.release()
        end.client.objects, end.engine, end.wire = objects, engine, wire
    engine.release()
