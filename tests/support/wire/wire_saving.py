"""Hand one end of a wire over from engine to engine."""

import json
import os
import threading

from hca.binding.engine import Engine
from hca.daemon.common.handover_state import HandoverState
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.client_objects import AdoptedObjects
from support.wire.wire_rig import End

POSTING = threading.Lock()
"""Excludes posts during a handover: a program's own doorbell outlives its hcad, but here hcad's is
used.
"""


def hand_over(end: End, engine: Engine) -> None:
    """Hand an end over to another engine, which is suspended until everything is restored."""
    end.engine.suspend()
    engine.suspend()
    handover_state = HandoverState()
    saved = json.loads(json.dumps(end.client.objects.save(handover_state)))
    arrived = HandoverState([os.dup(descriptor) for descriptor in handover_state.descriptors])
    wire = engine.add_wire(end.sockets.to_hca_wire())
    handles = arrived.take_descriptors(saved["descriptors"])
    objects = AdoptedObjects(engine, Numbers(), end.gids, 1 << 30, handles)
    objects.load(saved, arrived)
    with POSTING:
        end.client.objects.close()
        end.engine.remove_wire(end.wire)
        end.engine.resume()
        end.client.objects, end.engine, end.wire = objects, engine, wire
    engine.resume()
