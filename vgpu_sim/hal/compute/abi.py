"""Shared-memory layout of a context: rings, the worker's page, and kernel arguments.

These structures are the only schema: Python uses them directly, and ``vgpu_sim.hal.header``
generates from them the C header of the client library and of the worker. The protocol (ordering,
doorbell, sleeping, faults) is specified in docs/launch-protocol.md. All fields are little-endian
and naturally aligned; the version changes with any change of layout or meaning.
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
MAX_LIST_DEPTH: Final = 32  # lists in lists
# Launches by kernels (compiler/device_runtime.ptx): how many can be pending unless the program sets
# another limit, and at most; how deep grids may launch one another; bytes of records per launch.
PENDING_LAUNCHES: Final = 2048
MAX_PENDING_LAUNCHES: Final = 1 << 16
MAX_LAUNCH_DEPTH: Final = 24
LAUNCH_RECORD_BYTES: Final = 512
GRID_DEPTH_SHIFT: Final = 56  # a grid's depth is the highest byte of its number
CLUSTERED: Final = 1 << 15  # of LaunchBody.cluster
MAX_PARAMETER_BYTES: Final = 32764  # PTX ISA, "Kernel Function Parameters"
MESSAGE_BYTES: Final = 256
PTX_TEXT_BYTES: Final = 128
# A bit of WorkerPage.sleeping: a short nap, which a client needs to end only if it waits for a
# result.
DOZING: Final = 1 << 31


class Opcode(IntEnum):
    """The kind of request that a slot of a ring holds."""

    NOP = 1  # no effect besides its waits
    LAUNCH = 2
    COPY = 3
    SET = 4
    TIMESTAMP = 5
    COPIED = 6  # reports a copy that the client made by itself, for a worker with an observer
    AWAIT = 7  # starts when a value in memory fulfils a condition
    WRITE = 8  # stores a value in memory
    LIST = 9  # runs a list of requests in memory, if and while a value fulfils a condition


class Condition(IntEnum):
    """How OP_AWAIT compares memory with its value; all but the last number are those of
    ``CUstreamWaitValue_flags``.
    """

    AT_LEAST = 0  # memory - value, as a signed number of the same width, is not negative
    EQUAL = 1
    ANY_BIT = 2  # memory & value is not 0
    NOT_ALL = 3  # ~(memory | value) is not 0
    RECORDED = 4  # an EventRecord.done of an EventTable has that number, or never will


class When(IntEnum):
    """The condition of OP_LIST."""

    ALWAYS = 0
    EQUAL = 1
    DIFFERENT = 2


class Feature(IntEnum):
    """A bit of ``WorkerPage.features``."""

    VALUES = 1  # the worker knows OP_AWAIT and OP_WRITE
    LISTS = 2  # the worker knows OP_LIST
    PARTITIONS = 4  # the worker knows LaunchBody.multiprocessors
    PRIORITIES = 8  # the worker's ClientArea has `priorities`
    EVENTS = 16  # the worker knows EventTable and Condition.RECORDED
    CLUSTERS = 32  # the worker knows LaunchBody.cluster
    GRAPHS = 64  # the worker runs graphs that kernels launch


class Direction(IntEnum):
    """The direction of a copy."""

    HOST_TO_DEVICE = 0
    DEVICE_TO_HOST = 1
    DEVICE_TO_DEVICE = 2
    DEVICE_TO_PEER = 3  # to another context's memory, of this GPU or another one


class FaultKind(IntEnum):
    """The kind of fault that ended a context. This is not the CUDA error that the client returns,
    which is in ``WorkerPage.error``.
    """

    NONE = 0
    ADDRESS = 1
    TRAP = 2
    PROTOCOL = 3  # a slot that no client library of Tessera writes
    COMPILE = 4
    INTERNAL = 5
    FENCED = 6  # the holder lost the slice
    OUT_OF_MEMORY = 7
    TIMEOUT = 8  # a kernel exceeded the node's time limit
    MISALIGNED = 9
    STACK = 10  # a thread's own stack overflowed
    FUNCTION = 11  # a call to an address that is not a function
    ASSERTION = 12  # an assertion in the kernel failed
    DEVICE = 13  # the GPU failed; gpud supplies the error
    INSTRUCTION = 14  # an instruction that the GPU refuses with these operands


class Wait(ctypes.Structure):
    """A condition under which a slot starts: the timeline of ``stream`` must have reached
    ``value``.
    """

    _fields_ = (("stream", c_uint32), ("reserved", c_uint32), ("value", c_uint64))


class LaunchBody(ctypes.Structure):
    """Body of OP_LAUNCH, a kernel launch; continuation slots hold the parameters that do not fit
    inline.

    ``stack_bytes`` is the part of each thread's local memory that its call frames use; 0 if the
    kernel makes no calls. ``multiprocessors`` is how many of the device's the kernel may use; 0 for
    all. ``cluster`` is 0 if the launch states none; otherwise bit 15 is set, and bits 0 to 3, 4 to
    7 and 8 to 11 are the number of a cluster's blocks in x, y and z, less 1. Older clients
    store 0: it was the upper half of ``multiprocessors``. Clients use it only if ``features`` has
    the bit CLUSTERS.
    """

    _fields_ = (
        ("kernel", c_uint64),
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("shared_bytes", c_uint32),
        ("parameter_bytes", c_uint32),
        ("stack_bytes", c_uint32),
        ("multiprocessors", c_uint16),
        ("cluster", c_uint16),
        ("parameters", c_uint8 * INLINE_PARAMETER_BYTES),
    )


def cluster_size(packed: int) -> tuple[int, int, int] | None:
    """Return the size of a launch's clusters from ``LaunchBody.cluster``."""
    if not packed:
        return None
    x, y, z = ((packed >> 4 * axis & 15) + 1 for axis in range(3))
    return x, y, z


class CopyBody(ctypes.Structure):
    """Body of OP_COPY. Both addresses are device-visible: in device memory or pinned host
    memory.
    """

    _fields_ = (("destination", c_uint64), ("source", c_uint64), ("bytes", c_uint64))


class SetBody(ctypes.Structure):
    """Body of OP_SET, which stores ``pattern`` in ``count`` elements of ``width_bytes`` (1, 2 or
    4).
    """

    _fields_ = (
        ("destination", c_uint64),
        ("count", c_uint64),
        ("pattern", c_uint32),
        ("width_bytes", c_uint32),
    )


class TimestampBody(ctypes.Structure):
    """Body of OP_TIMESTAMP, which stores the time (CLOCK_MONOTONIC, ns) in ``timestamps[index]`` of
    the worker's page.
    """

    _fields_ = (("index", c_uint32), ("reserved", c_uint32))


class CopiedBody(ctypes.Structure):
    """Body of OP_COPIED, which reports a copy that the client made; the worker only records the
    copy.

    ``direction`` is a ``Direction``; ``pageable`` is 1 if the host memory is not page-locked.
    For DEVICE_TO_PEER, ``source`` and ``target`` identify the GPUs by their windows of the
    aperture.
    """

    _fields_ = (
        ("bytes", c_uint64),
        ("direction", c_uint32),
        ("pageable", c_uint32),
        ("source", c_uint32),
        ("target", c_uint32),
    )


class ValueBody(ctypes.Structure):
    """Body of OP_AWAIT and OP_WRITE. The address is device-visible and a multiple of
    ``width_bytes`` (4 or 8); OP_AWAIT compares with ``condition``, a ``Condition``.
    """

    _fields_ = (
        ("address", c_uint64),
        ("value", c_uint64),
        ("width_bytes", c_uint32),
        ("condition", c_uint32),
    )


class ListBody(ctypes.Structure):
    """Body of OP_LIST, which runs the requests of a list in device-visible memory.

    The list has ``slots`` slots, continuation slots included. Its requests have no waits and no
    values of their own, and may be lists themselves. They run one after the other if the 32-bit
    value at ``condition``, a multiple of 4, is ``value`` or is not (``when``, a ``When``). With
    ``repeat`` 1 they run again as long as that is so.
    """

    _fields_ = (
        ("address", c_uint64),
        ("condition", c_uint64),
        ("value", c_uint32),
        ("slots", c_uint32),
        ("when", c_uint32),
        ("repeat", c_uint32),
    )


class Body(ctypes.Union):
    """The part of a slot after its header. It is a union, and the slot's opcode selects the valid
    member.
    """

    _fields_ = (
        ("launch", LaunchBody),
        ("copy", CopyBody),
        ("set", SetBody),
        ("timestamp", TimestampBody),
        ("copied", CopiedBody),
        ("value", ValueBody),
        ("list", ListBody),
    )


class Slot(ctypes.Structure):
    """One request in a stream's ring.

    ``value`` is the stream's timeline value when the request is done: one more than the value of
    the previous request. A continuation slot has no value and holds 256 bytes of parameters.
    ``order`` numbers the context's requests over all streams, modulo 2**32. Of the streams whose
    next request can run, the worker chooses the one with the oldest request.
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
    """The slots of a stream. ``ClientArea.head`` modulo SLOTS_PER_STREAM is the index of the slot
    that the client fills next.
    """

    _fields_ = (("slots", Slot * SLOTS_PER_STREAM),)


class ClientArea(ctypes.Structure):
    """The area that only the client writes; the worker maps it read-only.

    ``bell`` is a futex that the client bumps when ``WorkerPage.sleeping`` is set. ``waiting``
    counts client threads that sleep on ``WorkerPage.progress``. ``stream_limit`` is one more
    than the highest stream index in use. ``head[s]`` is the number of slots ever put into ring
    ``s``. The other counters describe copies that the client makes without the worker: their
    number, and how long the larger ones take. Of the streams whose next request can start, the
    worker starts those with the greatest number in ``priorities`` first. ``priorities`` was
    appended without a new version: clients use it only if ``features`` has the bit PRIORITIES.
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
        ("priorities", c_uint8 * MAX_STREAMS),
    )


class FaultRecord(ctypes.Structure):
    """Location of the fault that ended a context. ``address`` and ``pc`` are 0 for faults that have
    none.
    """

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
    """Further details of a kernel's fault; all zero if there are none.

    ``grid`` is the launch's grid, with which ``FaultRecord.block`` is split into x, y and z.
    ``thread`` is valid only if ``thread_known`` is 1. ``is_global`` is set if the record's
    address is in global memory. ``text`` is the PTX line at which the kernel faulted. ``source`` is
    the position in the original source code from which that line was compiled (PTX ``.loc``).
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
    """The page that only the worker writes; the client maps it read-only.

    ``error`` is a CUresult, 0 while the context lives; once set, it never changes and no
    timeline advances. ``progress`` is a futex bumped after every completion. ``sleeping`` is 0
    while the worker is awake; otherwise it is a number that differs each time the worker sleeps,
    and contains the flag ``DOZING`` if the worker will wake by itself very soon. A stream whose
    bit of ``occupied`` is set has a request that runs concurrently with others; the worker
    checks the stream when that request ends, so clients need not ring the bell for it.
    ``timeline[s]`` is the value of the last finished request of stream ``s``; ``tail[s]`` is the
    number of slots that the worker has copied out of ring ``s``; the client may reuse those. If
    ``observing`` is not 0, the client reports each copy that it makes by itself (OP_COPIED).
    ``features`` are the optional requests (``Feature``) that this worker supports; they are 0 in a
    worker that was started before its node was updated.
    ``detail`` was appended without a new version of the layout: older clients ignore it, and
    newer clients check the page's size.
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
        ("features", c_uint32),
        ("reserved", c_uint8 * 16),
        ("fault", FaultRecord),
        ("timeline", c_uint64 * MAX_STREAMS),
        ("tail", c_uint64 * MAX_STREAMS),
        ("timestamps", c_uint64 * MAX_TIMESTAMPS),
        ("detail", FaultDetail),
    )


class LaunchContext(ctypes.Structure):
    """First argument of a native kernel: all inputs that are not kernel parameters.

    ``aperture_limit`` is a size, not an address. If code derives addresses from a pointer, it
    clamps the pointer: it uses ``base + min(pointer - base, limit)`` instead. ``segment_base``
    is the absolute address of the module's variables. ``grid_id`` counts the context's launches;
    its highest byte is the grid's depth.
    The time in ns is ``timer_ns`` plus the processor's time stamp counter times ``timer_scale``
    / 2**32, modulo 2**64. ``local_bytes`` is the size of each thread's local memory. ``cluster`` is
    the number of blocks of a cluster in x, y and z, and ``cluster_explicit`` 1 if the launch or the
    kernel states it. ``cluster_step`` is the distance of the shared memory of the cluster's blocks,
    ``CLUSTER_STEP_BYTES``; 0 if a cluster is one block.
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
        ("cluster", c_uint32 * 3),
        ("cluster_explicit", c_uint32),
        ("cluster_step", c_uint64),
    )


class ThreadState(ctypes.Structure):
    """Last argument of a native kernel: the state of one native thread, or of one group of lanes.

    If threads do not wait for each other, the kernel stores the index of each block in
    ``current_block`` before it executes the block, for fault reports. If threads wait for each
    other, each group reads the index of its block from ``current_block`` and the block's
    coordinates from ``block_index``.

    If every wait point is a barrier for all threads of the block, the kernel calls ``stop`` at
    each of them. ``stop`` is a ``void (*)(tessera_thread_state *, uint64_t)`` that returns when
    all other groups of the block have reached their wait points.

    At other barriers the kernel calls ``meet``, a ``uint32_t (*)(tessera_thread_state *,
    uint32_t barrier, uint32_t count, uint32_t how, uint32_t ballot)`` that returns the result of
    the reduction. Each group is then within one warp. In ``how``, bit 0 is set if the group
    waits for the barrier, bits 1 and 2 are the reduction (0 none, 1 POPC, 2 AND, 3 OR), and bits
    3 and up are the number of the instruction. In ``ballot``, bits 0 to 15 are the number of
    lanes that contribute a value, and bits 16 and up are how many of these values are true.

    If each group is one lane, a warp collective calls ``collect``, a ``uint64_t
    (*)(tessera_thread_state *, uint32_t how, uint32_t members, uint64_t a, uint64_t way)`` that
    waits for the lanes of the warp in the mask ``members``. In ``how``, bits 0 to 7 are one of
    the kinds that ``warps.h`` defines, and bits 8 and up are the number of the instruction. For
    SHFL, ``way`` has operand b in bits 0 to 31 and operand c from bit 32 on. The result has
    operand d in bits 0 to 31 and predicate p in bit 32.

    At the barrier of the cluster the kernel calls ``cluster``, a ``void (*)(tessera_thread_state
    *, uint32_t how)``, for a group within one warp. In ``how``, bit 0 is set if the group waits for
    the barrier, and clear if it arrives; bits 1 and up are the number of the instruction.

    To cancel a cluster that has not started, the kernel calls ``cancel``, a ``uint64_t
    (*)(tessera_thread_state *)`` that returns 1 + the index of the cluster's first block, 0 if
    there is none.

    A kernel that polls memory decrements ``turns`` from time to time and calls ``stop`` when it
    is 0: ``stop`` runs other groups for at least as many ns as its second argument states, and
    resets ``turns``. A trap stores a CUresult in ``status`` and returns. It also stores the
    number of its instruction plus 1 in ``trap_word`` (0 if the number is unknown), with bit 31
    set if lanes passed wrong member masks. ``shared_base`` is the start of the block's shared
    memory. ``local_base`` is the start of the local memory of the group's lanes; groups that run
    one after the other use the same local memory.

    For a product in tensor memory the kernel calls ``multiply``, a ``uint32_t (*)(uint64_t
    shared_base, const uint32_t *words)`` with the words of TMMA. It returns the result of TMMA.
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
        ("cluster", c_uint64),
        ("cancel", c_uint64),
        ("multiply", c_uint64),
    )


STRUCTURES: Final = (
    Wait,
    LaunchBody,
    CopyBody,
    SetBody,
    TimestampBody,
    CopiedBody,
    ValueBody,
    ListBody,
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
ENUMS: Final = (Opcode, Condition, When, Feature, Direction, FaultKind)
