"""Control messages on the slice socket (AF_UNIX, SOCK_SEQPACKET) and on gpud's private channels.

A message is a ``Header`` and one payload structure; descriptors travel with SCM_RIGHTS. The client
speaks to gpud only in its first message (HELLO). For a query gpud answers itself; for a context it
passes the connected socket to a new worker, and whatever follows is between client and worker.
Requests carry an id that the reply repeats; a reply's ``status`` is a CUresult, and its payload is
valid only when that is 0. Everything a peer sends is checked before it is used.
"""

import ctypes
from ctypes import c_char, c_int32, c_uint8, c_uint16, c_uint32, c_uint64
from enum import IntEnum
from typing import Final

MAGIC: Final = 0x41525354  # "TSRA"
PROTOCOL_VERSION: Final = 2  # 1 had no refused kernels in a module table
PROTOCOL_OLDEST: Final = 2
TOKEN_BYTES: Final = 32
WHOLE_THREAD_SHARE: Final = 100_000
MAX_ATTRIBUTES: Final = 256
ATTRIBUTE_UNKNOWN: Final = -(1 << 31)
CLOCK_ATTRIBUTE: Final = 253
GI_ATTRIBUTE: Final = 254
CI_ATTRIBUTE: Final = 255
MAX_MESSAGE_BYTES: Final = 4096
MAX_IMAGE_BYTES: Final = 64 << 20
SHARED_RANGE_MAGIC: Final = 0x3145474E41525354  # "TSRANGE1"
PROOF_BYTES: Final = 32
RANGE_ALIGN_BYTES: Final = 4096


class MessageType(IntEnum):
    """Requests are even, their replies are one more."""

    HELLO_QUERY = 2  # Hello -> DeviceInfo
    DEVICE_INFO = 3
    HELLO_CONTEXT = 4  # Hello -> ContextReady + fds: client area, worker page
    CONTEXT_READY = 5
    MODULE_LOAD = 6  # ModuleLoad + fd: image -> ModuleTable + fd: table
    MODULE_TABLE = 7
    MODULE_UNLOAD = 8  # Handle -> (no payload)
    MODULE_UNLOADED = 9
    CHUNK_ALLOCATE = 10  # Chunk -> (no payload) + fd: the chunk's memory
    CHUNK_ALLOCATED = 11
    CHUNK_FREE = 12  # Chunk -> (no payload)
    CHUNK_FREED = 13
    MEMORY_INFO = 14  # -> MemoryInfo
    MEMORY_REPORT = 15
    MODULE_LINK = 16  # ModuleLoad (flags: LinkFlag) + fd: inputs -> ModuleTable + fd: container
    MODULE_LINKED = 17
    MANAGEMENT = 18  # ManagementRequest -> ManagementReport and records (management.py)
    MANAGED = 19
    RANGE_SHARE = (
        20  # Chunk: a range in one -> (no payload) + fd: a SharedRange that nobody can change
    )
    RANGE_SHARED = 21


LINK_REGISTERS_SHIFT: Final = 8


class LinkFlag(IntEnum):
    """What MODULE_LINK does with its inputs: the low bits of its flags.

    From bit LINK_REGISTERS_SHIFT on stands the most registers of a thread; 0: there is no limit.

    They are, each: u32 bytes of the name, u32 zero, u64 bytes of the image, name, image. On failure
    the descriptor holds a module table with a log; a check that finds nothing sends no container.
    """

    LINK = 0
    CHECK = 1  # each input by itself


class ChunkKind(IntEnum):
    """Where in the GPU's window a chunk lies, which is also who may touch it."""

    DEVICE = 0
    HOST = 1


class Header(ctypes.Structure):
    """Begins every message."""

    _fields_ = (
        ("magic", c_uint32),
        ("version", c_uint16),
        ("type", c_uint16),
        ("request", c_uint32),
        ("status", c_int32),
        ("payload_bytes", c_uint32),
        ("reserved", c_uint32),
    )


class Hello(ctypes.Structure):
    """First message of a client. ``context_index`` is the client's own, below MAX_CONTEXTS.

    ``thread_share`` is what the program set as CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, of
    WHOLE_THREAD_SHARE; 0 where it set nothing.
    """

    _fields_ = (
        ("version_min", c_uint16),
        ("version_max", c_uint16),
        ("context_index", c_uint32),
        ("aperture_base", c_uint64),
        ("flags", c_uint32),
        ("thread_share", c_uint32),
        ("token", c_uint8 * TOKEN_BYTES),
    )


class DeviceInfo(ctypes.Structure):
    """What a client may know of its device: enough to answer every query without asking again.

    ``attributes`` is indexed by CUdevice_attribute, and from CLOCK_ATTRIBUTE on by what no
    program asks for: 1 where events measure the board's time as modelled, 0 where they measure the
    node's; numbers of the GPU instance and the compute instance. ATTRIBUTE_UNKNOWN is answered with
    CUDA_ERROR_INVALID_VALUE.
    ``gpu_index`` is the GPU's place in the aperture. ``isolation`` says whether limits are enforced
    by a cgroup (1) or only by bookkeeping (0).
    """

    _fields_ = (
        ("uuid", c_uint8 * 16),
        ("gpu_uuid", c_uint8 * 16),
        ("name", c_char * 128),
        ("profile", c_char * 32),
        ("board", c_char * 32),
        ("capability_major", c_uint32),
        ("capability_minor", c_uint32),
        ("is_mig", c_uint32),
        ("gpu_index", c_uint32),
        ("multiprocessors", c_uint32),
        ("driver_version", c_uint32),
        ("memory_bytes", c_uint64),
        ("memory_used_bytes", c_uint64),
        ("isolation", c_uint32),
        ("context_count", c_uint32),
        ("instance_start", c_uint32),
        ("instance_size", c_uint32),
        ("attributes", c_int32 * MAX_ATTRIBUTES),
    )


class ContextReady(ctypes.Structure):
    """The worker serves; sizes let the client check what it was built against."""

    _fields_ = (
        ("context", c_uint64),
        ("client_area_bytes", c_uint64),
        ("worker_page_bytes", c_uint64),
    )


class ModuleLoad(ctypes.Structure):
    """The image is PTX text (NUL-terminated or not) or a container, in a sealed or plain memfd."""

    _fields_ = (("image_bytes", c_uint64), ("flags", c_uint32), ("log_bytes", c_uint32))


class ModuleTable(ctypes.Structure):
    """A loaded module. The table's descriptor holds records and strings (``TableHeader``).

    On failure the reply's status is set and the descriptor, if any, holds only a log.
    """

    _fields_ = (("module", c_uint64), ("table_bytes", c_uint64))


class TableHeader(ctypes.Structure):
    """Begins a module table; offsets are in bytes from its start, strings are NUL-terminated."""

    _fields_ = (
        ("function_count", c_uint32),
        ("function_offset", c_uint32),
        ("parameter_count", c_uint32),
        ("parameter_offset", c_uint32),
        ("variable_count", c_uint32),
        ("variable_offset", c_uint32),
        ("refused_count", c_uint32),
        ("refused_offset", c_uint32),
        ("log_offset", c_uint32),
        ("log_bytes", c_uint32),
    )


class FunctionRecord(ctypes.Structure):
    """A kernel of the module; its parameters are ``parameter_first`` and the next ones."""

    _fields_ = (
        ("name_offset", c_uint32),
        ("parameter_first", c_uint32),
        ("parameter_count", c_uint32),
        ("parameter_bytes", c_uint32),
        ("kernel", c_uint64),
        ("max_threads", c_uint32),
        ("registers", c_uint32),
        ("shared_bytes", c_uint32),
        ("local_bytes", c_uint32),
        ("const_bytes", c_uint32),
        ("ptx_version", c_uint32),
        ("binary_version", c_uint32),
        ("required_block", c_uint32 * 3),
    )


class ParameterRecord(ctypes.Structure):
    """Byte offset and size in the parameter block."""

    _fields_ = (("offset", c_uint32), ("size", c_uint32))


class VariableRecord(ctypes.Structure):
    """A module variable and its device address."""

    _fields_ = (
        ("name_offset", c_uint32),
        ("reserved", c_uint32),
        ("address", c_uint64),
        ("bytes", c_uint64),
    )


class RefusedRecord(ctypes.Structure):
    """A kernel or variable that the module's source has and that cannot be used; the log says why.

    Who asks for it is answered CUDA_ERROR_NOT_SUPPORTED.
    """

    _fields_ = (
        ("name_offset", c_uint32),
        ("log_offset", c_uint32),
        ("is_kernel", c_uint32),
        ("reserved", c_uint32),
    )


class Handle(ctypes.Structure):
    """A module."""

    _fields_ = (("handle", c_uint64),)


class Chunk(ctypes.Structure):
    """Memory at ``offset`` from the aperture's base; both are multiples of CHUNK_ALIGN_BYTES."""

    _fields_ = (
        ("offset", c_uint64),
        ("bytes", c_uint64),
        ("kind", c_uint32),
        ("reserved", c_uint32),
    )


class SharedRange(ctypes.Structure):
    """What a descriptor of cuMemGetHandleForAddressRange holds: a range its worker vouches for.

    ``serial`` is the chunk's, which no later one of the context has; ``offset`` counts from the
    aperture's base. Whoever cannot read the descriptor cannot make up ``proof``.
    """

    _fields_ = (
        ("magic", c_uint64),
        ("serial", c_uint64),
        ("offset", c_uint64),
        ("bytes", c_uint64),
        ("proof", c_uint8 * PROOF_BYTES),
    )


class MemoryInfo(ctypes.Structure):
    """Of the slice, not of the context alone."""

    _fields_ = (("free_bytes", c_uint64), ("total_bytes", c_uint64))


STRUCTURES: Final = (
    Header,
    Hello,
    DeviceInfo,
    ContextReady,
    ModuleLoad,
    ModuleTable,
    TableHeader,
    FunctionRecord,
    ParameterRecord,
    VariableRecord,
    RefusedRecord,
    Handle,
    Chunk,
    SharedRange,
    MemoryInfo,
)
ENUMS: Final = (MessageType, LinkFlag, ChunkKind)
