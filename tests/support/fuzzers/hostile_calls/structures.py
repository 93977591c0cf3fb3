"""Random content for the structures that contain pointers. Only pointers to mapped memory are made,
because any other ends the caller, as it does with every library.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the fields of a structure come from."""

    number: Callable[[], int]
    """Any number, at most 2**64 - 1."""
    small: Callable[[], int]
    """A number that may count elements."""
    place: Callable[[], int]
    """The address of memory of this process, or NULL."""
    parameters: Callable[[], int]
    """The address of a list of such addresses."""
    handle: Callable[[str], int]
    """A handle, probably of this kind."""
    address: Callable[[], int]
    """A device address."""
    callback: int


def _half(value: int) -> int:
    return value & 0xFFFFFFFF


def _wide(*values: int) -> bytes:
    return b"".join((value & (1 << 64) - 1).to_bytes(8, "little") for value in values)


def _narrow(*values: int) -> bytes:
    return b"".join(_half(value).to_bytes(4, "little") for value in values)


def _dimensions(s: Sources) -> bytes:
    return _narrow(*(s.small() for _ in range(6)))


def launch(s: Sources) -> bytes:
    """Return a launch configuration of the driver."""
    attributes = s.place()
    dimensions = _dimensions(s) + _narrow(s.small(), 0)
    return dimensions + _wide(s.handle("CUstream"), attributes, s.small() if attributes else 0)


def runtime_launch(s: Sources) -> bytes:
    """Return a launch configuration of the runtime."""
    attributes = s.place()
    words = s.number(), s.handle("CUstream"), attributes, s.small() if attributes else 0
    return _dimensions(s) + _wide(*words)


def kernel(s: Sources) -> bytes:
    """Return the parameters of a kernel node of the driver."""
    head = _wide(s.handle("CUfunction")) + _dimensions(s) + _narrow(s.small(), 0)
    return head + _wide(s.parameters(), 0, s.handle("CUkernel"), s.handle("CUcontext"))


def host(s: Sources) -> bytes:
    """Return the parameters of a host node."""
    return _wide(s.callback, s.number()) + _narrow(s.small(), 0)


def copy_3d(s: Sources) -> bytes:
    """Return a copy of a box of the driver."""
    side = lambda: (  # noqa: E731
        _wide(s.small(), s.small(), s.small(), s.small())
        + _narrow(s.small(), 0)
        + _wide(s.place(), s.address(), s.handle("CUarray"), s.handle("CUcontext"))
        + _wide(s.number(), s.number())
    )
    return side() + side() + _wide(s.small(), s.small(), s.small())


def copy_2d(s: Sources) -> bytes:
    """Return a copy of a rectangle of the driver."""
    side = lambda: (  # noqa: E731
        _wide(s.small(), s.small())
        + _narrow(s.small(), 0)
        + _wide(s.place(), s.address(), s.handle("CUarray"), s.number())
    )
    return side() + side() + _wide(s.small(), s.small())


def runtime_copy(s: Sources) -> bytes:
    """Return a copy of a box of the runtime."""
    side = lambda: _wide(  # noqa: E731
        0, s.small(), s.small(), s.small(), s.address(), s.number(), s.number(), s.number()
    )
    return side() + side() + _wide(s.small(), s.small(), s.small()) + _narrow(s.small(), 0)


def peer_copy(s: Sources) -> bytes:
    """Return a copy of a box between devices of the runtime."""
    side = lambda: _wide(  # noqa: E731
        0,
        s.small(),
        s.small(),
        s.small(),
        s.address(),
        s.number(),
        s.number(),
        s.number(),
        s.small(),
    )
    return side() + side() + _wide(s.small(), s.small(), s.small())


def fill(s: Sources) -> bytes:
    """Return the parameters of a memset node."""
    head = _wide(s.address(), s.number()) + _narrow(s.number(), s.small())
    return head + _wide(s.number(), s.small(), s.handle("CUcontext"))


def allocation(s: Sources) -> bytes:
    """Return the parameters of an allocation node."""
    properties = _narrow(s.small(), s.small(), s.small(), s.small()) + bytes(72)
    accesses = s.place()
    return properties + _wide(accesses, s.small() if accesses else 0, s.number(), 0)


def context(s: Sources) -> bytes:
    """Return the parameters of a new context."""
    affinities = s.place()
    return _wide(affinities) + _narrow(s.small() if affinities else 0, 0) + _wide(0)


def any_node(s: Sources) -> bytes:
    """Return the parameters of a node of any type, except those that wait for memory."""
    wrapped = lambda body: _narrow(0, 0) + _wide(s.handle("CUcontext")) + body  # noqa: E731
    by_type = {
        0: kernel,
        1: lambda s: wrapped(copy_3d(s)),
        2: fill,
        3: host,
        4: lambda s: _wide(s.handle("CUgraph")),
        5: lambda _: b"",
        6: lambda s: _wide(s.handle("CUevent")),
        7: lambda s: _wide(s.handle("CUevent")),
        10: allocation,
        11: lambda s: _wide(s.address()),
        13: lambda s: (
            _wide(s.number()) + _narrow(s.small(), s.small()) + _wide(0, s.handle("CUcontext"))
        ),
    }
    kind = list(by_type)[s.small() % len(by_type)]
    body = by_type[kind](s)
    return struct.pack("<4I", kind, 0, 0, 0) + body.ljust(240, b"\0")


BY_TYPE: dict[str, Callable[[Sources], bytes]] = {
    "CUlaunchConfig": launch,
    "cudaLaunchConfig_t": runtime_launch,
    "CUDA_KERNEL_NODE_PARAMS": kernel,
    "struct cudaKernelNodeParams": kernel,
    "CUDA_HOST_NODE_PARAMS": host,
    "CUDA_MEMCPY3D": copy_3d,
    "CUDA_MEMCPY3D_PEER": copy_3d,
    "CUDA_MEMCPY2D": copy_2d,
    "struct cudaMemcpy3DParms": runtime_copy,
    "struct cudaMemcpy3DPeerParms": peer_copy,
    "CUDA_MEMSET_NODE_PARAMS": fill,
    "struct cudaMemsetParams": fill,
    "CUDA_MEM_ALLOC_NODE_PARAMS": allocation,
    "CUctxCreateParams": context,
    "CUgraphNodeParams": any_node,
}
# The runtime passes these to the driver as they are.
BY_NAME: dict[str, Callable[[Sources], bytes]] = {"pNodeParams": host, "nodeParams": any_node}
