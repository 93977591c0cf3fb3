"""The device address map: one aperture per client process, the same in client and worker.

Decision: ADR 2. The aperture's base is negotiated when a context is
created; all other addresses here are offsets from it. The first and last 128 GiB of the aperture
are never allocated and the guards around it are inaccessible, so that an address formed from a
clamped pointer plus a bounded distance (at most 2^37 bytes either way) never reaches live memory
by accident.

A worker reserves a second, inaccessible copy of all these ranges, ``MISALIGNED_OFFSET_BYTES``
above them. Native code redirects a misaligned access there, so that the faulting address
identifies the access.
"""

from typing import Final

GIB: Final = 1 << 30

APERTURE_BITS: Final = 43
APERTURE_BYTES: Final = 1 << APERTURE_BITS
GUARD_BEFORE_BYTES: Final = 128 * GIB
GUARD_AFTER_BYTES: Final = 256 * GIB
CLAMP_BOUND_BYTES: Final = 1 << 37
MISALIGNED_OFFSET_BYTES: Final = 9 << 40

# Shared memory of a block that native code runs. Code adds at most SHARED_REACH_BYTES either way to
# its base; misaligned accesses are redirected to SHARED_MISALIGNED_OFFSET_BYTES above that range.
SHARED_REACH_BYTES: Final = 4 * GIB
SHARED_MISALIGNED_OFFSET_BYTES: Final = 2 * SHARED_REACH_BYTES
SHARED_RESERVED_BYTES: Final = 4 * SHARED_REACH_BYTES

# The shared memory of the cluster's block with rank r is also (CLUSTER_FIRST_STEP + r) *
# CLUSTER_STEP_BYTES above the base of each of the cluster's blocks.
CLUSTER_STEP_BYTES: Final = 1 << 24
CLUSTER_FIRST_STEP: Final = 2

# Local memory of the threads that native code runs: the threads of a block share one window, in
# which consecutive words of a thread are as far apart as its group has lanes. Code adds up to
# LOCAL_REACH_BYTES, and some rows, to the start of a group's memory. Accesses outside the thread's
# memory, misaligned accesses, and accesses that are both are redirected to a separate range each.
LOCAL_REACH_BYTES: Final = 1 << 27
LOCAL_WINDOW_BYTES: Final = 1 * GIB
LOCAL_OUTSIDE_OFFSET_BYTES: Final = LOCAL_WINDOW_BYTES
LOCAL_MISALIGNED_OFFSET_BYTES: Final = 2 * LOCAL_WINDOW_BYTES
LOCAL_RESERVED_BYTES: Final = 4 * LOCAL_WINDOW_BYTES

# The addresses at which a client tries to place its aperture, in this order. A worker that cannot
# map one refuses the context, and the client tries the next.
APERTURE_BASES: Final = (0x2000_0000_0000, 0x3000_0000_0000, 0x1000_0000_0000, 0x4000_0000_0000)

GPU_WINDOW_BITS: Final = 40
GPU_WINDOW_BYTES: Final = 1 << GPU_WINDOW_BITS
MAX_GPUS: Final = APERTURE_BYTES // GPU_WINDOW_BYTES

# Offsets within one GPU's window. Ranges without a name are never mapped.
MODULE_OFFSET: Final = 128 * GIB  # module variables; the worker assigns them
MODULE_BYTES_PER_CONTEXT: Final = 1 * GIB
MAX_CONTEXTS: Final = 64  # contexts of one client process on one GPU
DEVICE_OFFSET: Final = 192 * GIB  # cuMemAlloc; the client assigns addresses
DEVICE_BYTES: Final = 448 * GIB
HOST_OFFSET: Final = 640 * GIB  # pinned and managed host memory; the client assigns addresses
HOST_BYTES: Final = 127 * GIB  # addresses near the window below count as shared memory
SHARED_OFFSET: Final = 768 * GIB  # generic addresses of shared memory, CTA rank in the upper bits
SHARED_BYTES: Final = 64 * GIB
LOCAL_OFFSET: Final = 832 * GIB  # generic addresses of local memory
LOCAL_BYTES: Final = 64 * GIB

CHUNK_ALIGN_BYTES: Final = 2 << 20  # chunks begin on huge-page boundaries
PAGE_BYTES: Final = 4096
