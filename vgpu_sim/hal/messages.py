"""Control messages on the slice socket (AF_UNIX, SOCK_SEQPACKET) and on gpud's private channels.

A message is a ``Header`` and one payload structure; descriptors are sent with SCM_RIGHTS. The
client communicates with gpud only in its first message (HELLO). gpud answers a query itself; for
a context it passes the connected socket to a new worker, and all later messages are between
client and worker. Requests carry an id that the reply repeats; a reply's ``status`` is a
CUresult, and its payload is valid only if the status is 0. Everything a peer sends is validated
before it is used.
"""

import ctypes
from ctypes import c_char, c_int32, c_uint8, c_uint16, c_uint32, c_uint64
from enum import IntEnum
from typing import Final

MAGIC: Final = 0x41525354  # "TSRA"
PROTOCOL_VERSION: Final = 2  # version 1 had no refused kernels in a module table
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
# How a program gets PTX instead of machine code, which only the hardware that it is for can run.
NO_PTX_REMEDY: Final = (
    'build with -gencode arch=compute_XX,code=compute_XX, call compile("ptx"), '
    "uninstall nvidia-nvjitlink, or set TRITON_PTXAS_PATH to `tessera ptxas`"
)
SHARED_RANGE_MAGIC: Final = 0x3145474E41525354  # "TSRANGE1"
PROOF_BYTES: Final = 32
RANGE_ALIGN_BYTES: Final = 4096


class MessageType(IntEnum):
    """The types of messages. The number of a request is even; its reply has the next number."""

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
    RANGE_SHARE = 20  # Chunk: a range in one -> (no payload) + fd: an immutable SharedRange
    RANGE_SHARED = 21
    MODULE_KERNEL = 22  # ModuleKernel -> ModuleTable + fd: table with that kernel
    MODULE_KERNEL_LOADED = 23
    SHARE = 24  # Chunk: a range in one, or none -> SharedMemory
    SHARED = 25
    SHARE_END = 26  # SharedMemory -> (no payload)
    SHARE_ENDED = 27
    SHARE_OPEN = 28  # ShareOpen -> (no payload) + fd: the chunk's memory
    SHARE_OPENED = 29
    VIEW_MAP = 32  # View -> (no payload)
    VIEW_MAPPED = 33
    VIEW_UNMAP = 34  # View -> (no payload)
    VIEW_UNMAPPED = 35
    ALLOCATION = 36  # Chunk: an allocation in one, or without bytes its end -> (no payload)
    ALLOCATION_RECORDED = 37


class LoadFlag(IntEnum):
    """The flags of MODULE_LOAD.

    With LAZY, the worker may compile the kernels of a large PTX file later. In the table of such a
    module the ``kernel`` of each function is 0, and the client requests a kernel (MODULE_KERNEL)
    when the program first looks it up.
    """

    LAZY = 1


LINK_REGISTERS_SHIFT: Final = 8


class LinkInput(IntEnum):
    """The kinds of a link's inputs, in the head of each."""

    TEXT = 0  # PTX
    BINARY = 1  # a container, fat binary, object or archive
    OBJECT = 2  # as BINARY, but left out if it has no PTX for the device


class LinkFlag(IntEnum):
    """The operation of MODULE_LINK, in the low bits of the message's flags.

    The bits from LINK_REGISTERS_SHIFT on limit the registers of a thread; 0 means no limit.

    The message has several inputs. Each input consists of the size of its name (u32), zero
    (u32), the size of its image (u64), the name and the image. On failure, the reply's
    descriptor holds a module table with a log. If the operation only checks the inputs and finds
    no errors, the reply has no container.
    """

    LINK = 0
    CHECK = 1  # check each input on its own


class ChunkKind(IntEnum):
    """The range of the GPU's window in which a chunk is located. The range also determines who may
    access the chunk.
    """

    DEVICE = 0
    HOST = 1


class Header(ctypes.Structure):
    """The header with which every message begins."""

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
    """The first message of a client. ``context_index`` is the number that the client has given to
    the context. It is below MAX_CONTEXTS.

    ``thread_share`` is the value of CUDA_MPS_ACTIVE_THREAD_PERCENTAGE in units of
    1/WHOLE_THREAD_SHARE; 0 if it is not set.
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
    """Properties of a device: enough to answer every client query without another request.

    ``attributes`` is indexed by CUdevice_attribute; from CLOCK_ATTRIBUTE on, its elements have
    internal meanings. The element at CLOCK_ATTRIBUTE is 1 if events measure the board's modelled
    time, and 0 if they measure the node's time. The next two elements are the numbers of the GPU
    instance and of the compute instance. A query of an element that is ATTRIBUTE_UNKNOWN fails
    with CUDA_ERROR_INVALID_VALUE. ``gpu_index`` is the GPU's position in the aperture.
    ``isolation`` is 1 if a cgroup enforces the limits, and 0 if only gpud's accounting does.
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
    """The reply of a worker that serves a new context. The client compares the sizes in this reply
    with those in its own header, to check that its header matches the worker's.
    """

    _fields_ = (
        ("context", c_uint64),
        ("client_area_bytes", c_uint64),
        ("worker_page_bytes", c_uint64),
    )


class ModuleLoad(ctypes.Structure):
    """A request to load a module. The image is PTX text (NUL-terminated or not) or a container, in
    a sealed or plain memfd.
    """

    _fields_ = (("image_bytes", c_uint64), ("flags", c_uint32), ("log_bytes", c_uint32))


class ModuleTable(ctypes.Structure):
    """The reply to a request that loads a module. The reply's descriptor holds a ``TableHeader``,
    and after it the module's records and strings.

    On failure the reply's status is set and the descriptor, if any, holds only a log.
    """

    _fields_ = (("module", c_uint64), ("table_bytes", c_uint64))


class TableHeader(ctypes.Structure):
    """The header of a module table. Offsets in the table are in bytes from the table's start.
    Strings in the table are NUL-terminated. ``titles_offset`` is that of the titles of functions
    (``vgpu_sim.kernel_names``): for each function the offset of a string, or 0 for a function that
    is not loaded. Workers of older versions have no titles, and a header that ends before them.
    """

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
        ("titles_offset", c_uint32),
        ("reserved", c_uint32),
    )


class FunctionRecord(ctypes.Structure):
    """A kernel in a module table; the records of its parameters begin at index
    ``parameter_first``.

    ``needs_cluster`` is 1 if each launch has clusters: of ``required_cluster`` blocks in x, y and z
    or, if these are 0, of as many as the launch states; it is 2 if, in addition, the grid that a
    launch states is a number of clusters. ``max_cluster`` is the most blocks of a
    cluster that the kernel allows; 0: it has no limit of its own.
    """

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
        ("required_cluster", c_uint32 * 3),
        ("needs_cluster", c_uint32),
        ("max_cluster", c_uint32),
    )


class ParameterRecord(ctypes.Structure):
    """A kernel parameter in a module table: its byte offset in the parameter block, and its
    size.
    """

    _fields_ = (("offset", c_uint32), ("size", c_uint32))


class VariableRecord(ctypes.Structure):
    """A module variable in a module table, with its device address."""

    _fields_ = (
        ("name_offset", c_uint32),
        ("reserved", c_uint32),
        ("address", c_uint64),
        ("bytes", c_uint64),
    )


class RefusedRecord(ctypes.Structure):
    """A kernel or variable of the module's source that Tessera does not support; the module's log
    has the reason.

    A client that looks up this name gets CUDA_ERROR_NOT_SUPPORTED. ``title_offset`` is the offset
    of the kernel's title (``vgpu_sim.kernel_names``), or 0.
    """

    _fields_ = (
        ("name_offset", c_uint32),
        ("log_offset", c_uint32),
        ("is_kernel", c_uint32),
        ("title_offset", c_uint32),
    )


class ModuleKernel(ctypes.Structure):
    """A request to load one kernel of a module that was loaded with ``LoadFlag.LAZY``. ``index`` is
    the kernel's place among the functions of the module's table.

    The table in the reply has the kernel as its only function, or as its only refused kernel.
    """

    _fields_ = (("module", c_uint64), ("index", c_uint32), ("reserved", c_uint32))


class Handle(ctypes.Structure):
    """The handle of a module, as payload of a message."""

    _fields_ = (("handle", c_uint64),)


class Chunk(ctypes.Structure):
    """A chunk of memory, at ``offset`` from the aperture's base. Offset and size are multiples of
    CHUNK_ALIGN_BYTES.
    """

    _fields_ = (
        ("offset", c_uint64),
        ("bytes", c_uint64),
        ("kind", c_uint32),
        ("reserved", c_uint32),
    )


class View(ctypes.Structure):
    """A second address, ``offset``, of a part of a device chunk. The part begins at ``source``.

    Both count from the aperture's base and, like the size, are multiples of CHUNK_ALIGN_BYTES.
    """

    _fields_ = (("offset", c_uint64), ("source", c_uint64), ("bytes", c_uint64))


class SharePurpose(IntEnum):
    """The values of ``SharedMemory.purpose`` that workers know; others are the client's."""

    EVENTS = 5  # an EventTable; ``tag`` is the number of the participant that opens it


class SharedMemory(ctypes.Structure):
    """The name of memory that other contexts of the slice may open: the content of CUDA's IPC
    handles. Only ``key`` gives access; the rest is checked when the memory is opened.

    The memory begins ``offset`` bytes after the start of a chunk with ``chunk_units`` times
    CHUNK_ALIGN_BYTES; 0: the key names no memory. ``purpose`` and ``tag`` are the client's.
    """

    _fields_ = (
        ("key", c_uint8 * PROOF_BYTES),
        ("offset", c_uint64),
        ("bytes", c_uint64),
        ("chunk_units", c_uint32),
        ("kind", c_uint16),
        ("purpose", c_uint16),
        ("tag", c_uint64),
    )


class ShareOpen(ctypes.Structure):
    """A request to open shared memory as a chunk at ``offset`` from the aperture's base."""

    _fields_ = (("memory", SharedMemory), ("offset", c_uint64))


class ShareGrant(ctypes.Structure):
    """The answer of an exporter's worker to the worker that opens its memory. ``status`` is an
    errno value.
    """

    _fields_ = (("status", c_uint32), ("reserved", c_uint32), ("memory", SharedMemory))


class SharedRange(ctypes.Structure):
    """The content of the descriptor that cuMemGetHandleForAddressRange returns. It names a range of
    memory. The worker that owns the memory checks that the content is authentic.

    ``serial`` is the serial number of the chunk, unique within the context; ``offset`` counts
    from the aperture's base. ``proof`` cannot be forged without access to the descriptor.
    """

    _fields_ = (
        ("magic", c_uint64),
        ("serial", c_uint64),
        ("offset", c_uint64),
        ("bytes", c_uint64),
        ("proof", c_uint8 * PROOF_BYTES),
    )


class MemoryInfo(ctypes.Structure):
    """The free and the total bytes of the memory of a whole slice, not of one context."""

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
    ModuleKernel,
    Handle,
    Chunk,
    View,
    SharedMemory,
    ShareOpen,
    SharedRange,
    MemoryInfo,
)
ENUMS: Final = (MessageType, LoadFlag, LinkFlag, LinkInput, ChunkKind, SharePurpose)
