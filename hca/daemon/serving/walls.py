"""What hcad may still do once it serves: whoever takes it over has a fabric, and nothing else.

Its clients are hostile, and a C engine reads what they write. So it gives up privileges, other
processes' reach, every file outside the fabric's folder and most system calls before it accepts the
first of them. Whatever it needs from outside (sockets, libraries) it opens before.
"""

import codecs
import importlib
import logging
import resource
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hca.daemon.serving import filter as calls_filter
from vgpu_sim.system import identity, landlock

logger = logging.getLogger("tessera.hcad")

OWN_MEMORY_BYTES: Final = 1 << 30
"""Of hcad's own, private memory: objects of clients are bounded, so that it never comes near."""
MAX_DESCRIPTORS: Final = 1 << 16
_STACK_BYTES: Final = 1 << 20
_LATE_CODECS: Final = ("ascii", "latin-1", "utf-8")
"""Python opens a codec's file when it is first used, and there are no files behind the walls."""
_LATE_IMPORTS: Final = ("concurrent.futures.thread",)
"""Modules that others import when they are first needed: ``asyncio.to_thread``, for policy."""
_FOLDER_RIGHTS: Final = landlock.FILES | landlock.MAKE_DIR | landlock.REMOVE_DIR
_NODE_FOLDER_RIGHTS: Final = _FOLDER_RIGHTS | landlock.MAKE_SOCK | landlock.MAKE_SYM
_PROC: Final = Path("/proc")
_SYS_CLASS: Final = Path("/sys/class")


@dataclass(frozen=True, slots=True)
class Level:
    """Which of the walls stand that a kernel may lack."""

    landlock: bool
    seccomp: bool


def limit() -> int:
    """Set resource limits; return how many descriptors there may be. Raises OSError.

    RLIMIT_DATA counts private memory alone: clients' memory is shared, and charged to them.
    """
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_DATA, OWN_MEMORY_BYTES),
        (resource.RLIMIT_NOFILE, MAX_DESCRIPTORS),
    ):
        _soft, hard = resource.getrlimit(kind)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (allowed, allowed))
    threading.stack_size(_STACK_BYTES)
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def enter(directory: Path, *, weak: bool = False, wired: bool = False) -> Level:
    """Lock a fabric's hcad down; it must have one thread.

    ``weak``: serve without a filter if need be. ``wired``: it is to enter multicast groups.

    Raises:
        OSError: there is no filter of system calls, or what every kernel allows is refused.
    """
    # Of the folder above it may only remove empty folders: its own, in the end.
    allowed = {directory: _FOLDER_RIGHTS, directory.parent: landlock.REMOVE_DIR}
    return _enter(allowed, weak=weak, node=False, wired=wired)


def enter_on_node(directory: Path, *, weak: bool = False) -> Level:
    """Lock a node's hcad down; see ``enter``.

    Of ``/proc`` it reads the control groups and addresses of who connects, which all may read; of
    ``/sys/class`` it copies links.
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
        logger.warning("no Landlock: %s: files are kept from hcad by their permissions alone", err)
    try:
        calls_filter.install(node=node, wired=wired)
    except OSError as err:
        if not weak:
            raise OSError(err.errno, f"no filter of system calls: {err.strerror}") from err
        logger.warning("no filter of system calls: %s", err)
        return Level(confined, seccomp=False)
    return Level(confined, seccomp=True)
