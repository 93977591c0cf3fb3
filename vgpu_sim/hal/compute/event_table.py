"""Layout of the table of a context's interprocess events: one chunk of pinned memory, which other
contexts of the slice open to record the events and to wait for them.

Every participant can write the whole table, so nothing in it is trusted: a wrong value delays or
ends the work of the slice's own clients. How the table is used is in docs/launch-protocol.md.
"""

import ctypes
from ctypes import c_uint64
from typing import Final

EVENT_RECORDS: Final = 63  # of one event, that are not done yet
EVENT_PARTICIPANTS: Final = 255  # the first one is the context that has made the table
EVENT_STATES: Final = 2046
EVENT_LOST: Final = 1 << 62  # a bit of EventRecord.done: what is not done yet will never be
EVENT_ENDED: Final = (1 << 64) - 1  # a participant that has just ended
EVENT_NUMBER_SHIFT: Final = 8


class EventRecord(ctypes.Structure):
    """A record of an event.

    ``claimed`` is the number of the latest record here, shifted by EVENT_NUMBER_SHIFT, plus the
    index of its participant. ``done`` is the number of the latest record that is done: OP_WRITE
    stores it, and OP_AWAIT waits for it.
    """

    _fields_ = (("claimed", c_uint64), ("done", c_uint64))


class EventState(ctypes.Structure):
    """An event. ``generation`` grows when the event is made and when it is destroyed. ``latest`` is
    the number of the latest record, shifted by EVENT_NUMBER_SHIFT, plus its index in ``records``
    plus 1; 0: none.
    """

    _fields_ = (
        ("generation", c_uint64),
        ("latest", c_uint64),
        ("records", EventRecord * EVENT_RECORDS),
    )


class EventTable(ctypes.Structure):
    """The table. ``ended`` is not 0 once the context that has made it has ended. ``participants``
    are random numbers of the contexts that have opened it; 0: unused.
    """

    _fields_ = (
        ("ended", c_uint64),
        ("participants", c_uint64 * EVENT_PARTICIPANTS),
        ("states", EventState * EVENT_STATES),
    )


STRUCTURES: Final = (EventRecord, EventState, EventTable)
