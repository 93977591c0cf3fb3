"""Shared-memory layout of a context: rings, the worker's page, and what kernels are called with.

These structures are the one schema: Python uses them directly, and ``vgpu_sim.hal.header`` writes
the C header of the client library and of the worker from them. Rules of the protocol (ordering,
doorbell, sleeping, faults) are in docs/launch-protocol.md. All fields are little-endian and
naturally aligned; the version changes with any change of layout or meaning.
"""

import ctypes
from ctypes import c_char, c_int32, c_uint8, c_uint16, c_uint32, c_uint64
from enum import IntEnum
from typing import Final

ABI_VERSION: Final = 6
CLIENT_AREA_MAGIC: Final = 0x54534341  # "TSCA"
WORKER_PAGE_MAGIC: Final = 0x54535750  # "TSWP"

MAX_STREAMS: Final = 128  # stream 0 is the legacy NULL stream
SLOTS_PER_STREAM: Final = 256
SLOT_BYTES: Final = 256
MAX_WAITS: Final = 4
MAX_TIMESTAMPS: Final = 4096
INLINE_PARAMETER_BYTES: Final = 128
MAX_PARAMETER_BYTES: Final = 32764  # PTX ISA, "Kernel Function Parameters"
MESSAGE_BYTES: Final = 256
PTX_TEXT_BYTES: Final = 128
DOZING: Final = 1 << 31  # in WorkerPage.sleeping: a short nap, only those who wait end it


class Opcode(IntEnum):
    """What a slot asks the worker to do."""

    NOP = 1  # only its waits
    LAUNCH = 2
    COPY = 3
    SET = 4
    TIMESTAMP = 5
    COPIED = 6  # a copy that the client has made by itself, for a worker that observes


class Direction(IntEnum):
    """Which way a copy goes."""

    HOST_TO_DEVICE = 0
    DEVICE_TO_HOST = 1
    DEVICE_TO_DEVICE = 2
    DEVICE_TO_PEER = 3  # another context's memory, of this GPU or another one


class FaultKind(IntEnum):
    """Why a context died; the CUDA error beside it is what the client reports."""

    NONE = 0
    ADDRESS = 1
    TRAP = 2
    PROTOCOL = 3  # a slot that no client library of ours writes
    COMPILE = 4
    INTERNAL = 5
    FENCED = 6  # the holder lost the slice
    OUT_OF_MEMORY = 7
    TIMEOUT = 8  # a kernel ran longer than the node allows
    MISALIGNED = 9
    STACK = 10  # a thread's own stack overflowed
    FUNCTION = 11  # a call of what is no function
    ASSERTION = 12  # an assertion of the program does not hold
    DEVICE = 13  # the GPU failed; gpud says with which error


class Wait(ctypes.Structure):
    """The slot starts only when ``stream``'s timeline has reached ``value``."""

    _fields_ = (("stream", c_uint32), ("reserved", c_uint32), ("value", c_uint64))


class LaunchBody(ctypes.Structure):
    """OP_LAUNCH. Parameters beyond the inline ones follow in continuation slots.

    ``stack_bytes`` is what calls may take of a thread's local memory, where they take some.
    """

    _fields_ = (
        ("kernel", c_uint64),
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("shared_bytes", c_uint32),
        ("parameter_bytes", c_uint32),
        ("stack_bytes", c_uint32),
        ("reserved", c_uint32),
        ("parameters", c_uint8 * INLINE_PARAMETER_BYTES),
    )


class CopyBody(ctypes.Structure):
    """OP_COPY: both addresses are device-visible (device or pinned memory)."""

    _fields_ = (("destination", c_uint64), ("source", c_uint64), ("bytes", c_uint64))


class SetBody(ctypes.Structure):
    """OP_SET: ``count`` elements of ``width_bytes`` (1, 2 or 4) take ``pattern``."""

    _fields_ = (
        ("destination", c_uint64),
        ("count", c_uint64),
        ("pattern", c_uint32),
        ("width_bytes", c_uint32),
    )


class TimestampBody(ctypes.Structure):
    """OP_TIMESTAMP: CLOCK_MONOTONIC in ns goes to ``timestamps[index]`` of the worker's page."""

    _fields_ = (("index", c_uint32), ("reserved", c_uint32))


class CopiedBody(ctypes.Structure):
    """OP_COPIED: nothing is done. ``direction`` is a ``Direction``; ``pageable`` is 1 where the
    host's memory is not page-locked. Of DEVICE_TO_PEER ``source`` and ``target`` are the GPUs, by
    their windows of the aperture."""

    _fields_ = (
        ("bytes", c_uint64),
        ("direction", c_uint32),
        ("pageable", c_uint32),
        ("source", c_uint32),
        ("target", c_uint32),
    )


class Body(ctypes.Union):
    """What follows a slot's header, by opcode."""

    _fields_ = (
        ("launch", LaunchBody),
        ("copy", CopyBody),
        ("set", SetBody),
        ("timestamp", TimestampBody),
        ("copied", CopiedBody),
    )


class Slot(ctypes.Structure):
    """One request in a stream's ring.

    ``value`` is the stream's timeline value when the request is done: one more than that of the
    slot before it (continuation slots carry none and are 256 bytes of parameters each). ``order``
    counts the context's requests over all streams, modulo 2**32: of several streams whose next
    request can run, the worker takes the one with the oldest first.
    """

    _fields_ = (
        ("opcode", c_uint16),
        ("wait_count", c_uint8),
        ("continuation_slots", c_uint8),
        ("order", c_uint32),
        ("value", c_uint64),
        ("waits", Wait * MAX_WAITS),
        ("body", Body),
    )


class Ring(ctypes.Structure):
    """A stream's slots, indexed modulo SLOTS_PER_STREAM by ``ClientArea.head``."""

    _fields_ = (("slots", Slot * SLOTS_PER_STREAM),)


class ClientArea(ctypes.Structure):
    """Written by the client only; the worker maps it read-only.

    ``bell`` is a futex that the client bumps when ``WorkerPage.sleeping`` is set. ``waiting``
    counts client threads that sleep on ``WorkerPage.progress``. ``stream_limit`` is one more than
    the highest stream index in use. ``head[s]`` counts slots ever put into ring ``s``. The client
    counts what it copies by itself, and the time that the larger copies take.
    """

    _fields_ = (
        ("magic", c_uint32),
        ("version", c_uint32),
        ("bell", c_uint32),
        ("waiting", c_uint32),
        ("cpu", c_int32),
        ("stream_limit", c_uint32),
        ("host_to_device_bytes", c_uint64),
        ("device_to_host_bytes", c_uint64),
        ("device_to_device_bytes", c_uint64),
        ("copy_ns", c_uint64),
        ("reserved", c_uint8 * 8),
        ("head", c_uint64 * MAX_STREAMS),
        ("rings", Ring * MAX_STREAMS),
    )


class FaultRecord(ctypes.Structure):
    """Where a context died. ``address`` and ``pc`` are 0 where they have no meaning."""

    _fields_ = (
        ("kind", c_uint32),
        ("ptx_line", c_uint32),
        ("kernel", c_uint64),
        ("pc", c_uint64),
        ("address", c_uint64),
        ("block", c_uint64),
        ("time_ns", c_uint64),
        ("kernel_name", c_char * 128),
        ("message", c_char * MESSAGE_BYTES),
    )


class FaultDetail(ctypes.Structure):
    """What else is known of a kernel's fault; all zero where nothing is.

    ``grid`` is the launch's, by which ``FaultRecord.block`` is split into x, y and z; ``thread``
    is valid only where ``thread_known`` is 1. ``is_global``: the record's address is one of global
    memory. ``source`` is the place in the program that the PTX was made of (its ``.loc``),
    ``text`` the PTX line.
    """

    _fields_ = (
        ("thread_known", c_uint32),
        ("is_global", c_uint32),
        ("grid", c_uint32 * 3),
        ("thread", c_uint32 * 3),
        ("source", c_char * MESSAGE_BYTES),
        ("text", c_char * PTX_TEXT_BYTES),
    )


class WorkerPage(ctypes.Structure):
    """Written by the worker only; the client maps it read-only.

    ``error`` is a CUresult, 0 while the context lives; once set it never changes and no timeline
    moves again. ``progress`` is a futex bumped after every completion. ``sleeping`` is 0 while the
    worker is awake and another number at each of its naps, with ``DOZING`` set when it will look
    again by itself very soon. A stream whose bit of ``occupied`` is set has a request that runs
    beside others, and is looked at when that ends: nobody need ring for it. ``timeline[s]`` is the
    value of the last finished request of stream ``s``; ``tail[s]`` counts slots the worker has
    copied out of ring ``s``, so that the client may reuse them. Where ``observing`` is not 0 the
    client says of each copy that it makes by itself that it did (OP_COPIED). ``detail`` was added
    behind the rest without a new version: older clients do not look, newer ones look at the size.
    """

    _fields_ = (
        ("magic", c_uint32),
        ("version", c_uint32),
        ("error", c_uint32),
        ("progress", c_uint32),
        ("sleeping", c_uint32),
        ("cpu", c_int32),
        ("occupied", c_uint64 * (MAX_STREAMS // 64)),
        ("observing", c_uint32),
        ("reserved", c_uint8 * 20),
        ("fault", FaultRecord),
        ("timeline", c_uint64 * MAX_STREAMS),
        ("tail", c_uint64 * MAX_STREAMS),
        ("timestamps", c_uint64 * MAX_TIMESTAMPS),
        ("detail", FaultDetail),
    )


class LaunchContext(ctypes.Structure):
    """First argument of a native kernel: everything that is not a kernel parameter.

    ``aperture_limit`` is a size, not an address: roots are clamped to ``base + min(root - base,
    limit)``. ``segment_base`` is the absolute address of the module's variables. ``grid_id`` counts
    the context's launches. The time in ns is ``timer_ns`` plus the processor's time stamp counter
    times ``timer_scale`` / 2**32, modulo 2**64. ``local_bytes`` is what each thread has of local
    memory.
    """

    _fields_ = (
        ("aperture_base", c_uint64),
        ("aperture_limit", c_uint64),
        ("segment_base", c_uint64),
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("kernel", c_uint64),
        ("grid_id", c_uint64),
        ("multiprocessors", c_uint32),
        ("dynamic_shared_bytes", c_uint32),
        ("timer_ns", c_uint64),
        ("timer_scale", c_uint64),
        ("local_bytes", c_uint64),
    )


class ThreadState(ctypes.Structure):
    """Last argument of a native kernel: one per native thread, or one per group of lanes.

    A kernel whose threads do not wait for each other stores the block it works on once per block (a
    fault reports it). A group of one whose threads do finds its block there, and in
    ``block_index``. Where all stops are one barrier that waits for all threads it calls ``stop``
    there, a ``void (*)(tessera_thread_state *, uint64_t)``, which returns when all other groups of
    the block have come to theirs; else ``meet``, a ``uint32_t (*)(tessera_thread_state *, uint32_t
    barrier, uint32_t count, uint32_t how, uint32_t ballot)``: ``how`` is 1 if it waits for the
    barrier, plus twice the reduction that it returns (0: none, 1 POPC, 2 AND, 3 OR), plus eight
    times the number of the instruction, and groups lie within one warp; a ``ballot`` is how many
    lanes bring something, plus 2^16 times how many of those bring true. Where each group is one
    lane, ``collect`` is a ``uint64_t (*)(tessera_thread_state *, uint32_t how, uint32_t members,
    uint64_t a, uint64_t way)`` that waits for the lanes of the warp that ``members`` names; ``how``
    is a kind of ``warps.h``, plus 256 times the number of the instruction, ``way`` SHFL's b and,
    from bit 32 on, c; it returns d, and p in bit 32. One that polls memory takes
    1 off ``turns`` now and then and calls ``stop`` when nothing is left, which lets others run,
    for as many ns as its second argument says at least, and renews ``turns``. A trap stores a
    CUresult in ``status`` and the number of its instruction, plus 1 (0: unknown), in ``trap_word``
    (plus 2^31 if lanes named wrong member masks) and returns. ``shared_base`` is where the block's
    shared memory begins, ``local_base`` the local memory of the group's lanes; groups that run one
    after the other use the same.
    """

    _fields_ = (
        ("current_block", c_uint64),
        ("status", c_uint32),
        ("trap_word", c_uint32),
        ("shared_base", c_uint64),
        ("local_base", c_uint64),
        ("stop", c_uint64),
        ("meet", c_uint64),
        ("collect", c_uint64),
        ("block_index", c_uint32 * 3),
        ("turns", c_uint32),
    )


STRUCTURES: Final = (
    Wait,
    LaunchBody,
    CopyBody,
    SetBody,
    TimestampBody,
    CopiedBody,
    Body,
    Slot,
    Ring,
    ClientArea,
    FaultRecord,
    FaultDetail,
    WorkerPage,
    LaunchContext,
    ThreadState,
)
ENUMS: Final = (Opcode, Direction, FaultKind)
