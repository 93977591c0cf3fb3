"""hcad's sandbox: an attacker who controls the process reaches its fabric and nothing else.

Clients may be hostile, and an engine in C reads their data. So before hcad accepts the first
client, it gives up privileges, access to other processes, every file outside the fabric's folder
and most system calls. Everything that hcad needs from outside (sockets, libraries) is opened
before it enters the sandbox.
"""

import codecs
import importlib
import logging
import resource
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hca.daemon.serving import filter as calls_filter
from vgpu_sim.records import dataclass
from vgpu_sim.system import identity, landlock

logger = logging.getLogger("tessera.hcad")

OWN_MEMORY_BYTES: Final = 1 << 30
"""Limit in bytes on hcad's private memory; clients' objects are bounded so that hcad never reaches
this limit.
"""
MAX_DESCRIPTORS: Final = 1 << 16
_STACK_BYTES: Final = 1 << 20
_LATE_CODECS: Final = ("ascii", "latin-1", "utf-8")
"""Codecs whose files Python would open at first use, when the sandbox already prevents it."""
_LATE_IMPORTS: Final = ("concurrent.futures.thread",)
"""Modules that other modules import at first use (``asyncio.to_thread``, for policy)."""
_FOLDER_RIGHTS: Final = landlock.FILES | landlock.MAKE_DIR | landlock.REMOVE_DIR
_NODE_FOLDER_RIGHTS: Final = _FOLDER_RIGHTS | landlock.MAKE_SOCK | landlock.MAKE_SYM
_PROC: Final = Path("/proc")
_SYS_CLASS: Final = Path("/sys/class")


@dataclass(frozen=True, slots=True)
class Level:
    """Whether Landlock and seccomp restrict hcad. Some kernels lack one of them or both."""

    landlock: bool
    seccomp: bool


def set_resource_limits() -> int:
    """Set resource limits for this process; return the limit on its descriptors. Raises OSError.

    RLIMIT_DATA counts private memory only: clients' memory is shared, and charged to the
    clients.
    """
    for kind, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_DATA, OWN_MEMORY_BYTES),
        (resource.RLIMIT_NOFILE, MAX_DESCRIPTORS),
    ):
        _soft, hard = resource.getrlimit(kind)
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (allowed, allowed))
    threading.stack_size(_STACK_BYTES)
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def enter(directory: Path, *, weak: bool = False, wired: bool = False) -> Level:
    """Enter the sandbox of a fabric's hcad; the process must have one thread.

    ``weak``: serve without seccomp if seccomp is not available. ``wired``: permit multicast
    sockets.

    Raises:
        OSError: seccomp is not available, or a rule that every kernel supports was rejected.
    """
    # In the folder above, hcad may only remove empty folders: its own when it ends.
    allowed = {directory: _FOLDER_RIGHTS, directory.parent: landlock.REMOVE_DIR}
    return _enter(allowed, weak=weak, node=False, wired=wired)


def enter_on_node(directory: Path, *, weak: bool = False) -> Level:
    """Enter the sandbox of a node's hcad. The process must have one thread.

    ``weak``: serve without seccomp if seccomp is not available. hcad reads the control groups and
    addresses of its clients in ``/proc``, which every process may read, and copies links from
    ``/sys/class``.

    Raises:
        OSError: seccomp is not available, or a rule that every kernel supports was rejected.
    """
    allowed = {
        directory: _NODE_FOLDER_RIGHTS,
        _PROC: landlock.READ_FILE,
        _SYS_CLASS: landlock.READ_DIR,
    }
    return _enter(allowed, weak=weak, node=True, wired=False)


def _enter(allowed: Mapping[Path, int], *, weak: bool, node: bool, wired: bool) -> Level:
    for codec in _LATE_CODECS:
        codecs.lookup(codec)
    for module in _LATE_IMPORTS:
        importlib.import_module(module)
    identity.drop_bounding_set()
    identity.drop_capabilities()
    identity.forbid_new_privileges()
    identity.hide_from_ptrace()
    confined = True
    try:
        landlock.restrict_to(allowed)
    except OSError as err:
        confined = False
        logger.warning("no Landlock: %s: only file permissions keep hcad from other files", err)
    try:
        calls_filter.install(node=node, wired=wired)
    except OSError as err:
        if not weak:
            raise OSError(err.errno, f"no filter of system calls: {err.strerror}") from err
        logger.warning("no filter of system calls: %s", err)
        return Level(confined, seccomp=False)
    return Level(confined, seccomp=True)
