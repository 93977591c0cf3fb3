"""A worker is treated as its tenant: what it may still do after ``enter``.

Walls, from the strongest claim to the weakest: an own user without capabilities, an allow-list of
system calls, Landlock, empty namespaces. Each is used where the system permits it, and the level
says which ones stand.
"""

import os
from collections.abc import Callable
from pathlib import Path

from vgpu_sim.hal.spawn import WorkerConfig
from vgpu_sim.hw.sandbox import identity, landlock, namespaces, seccomp
from vgpu_sim.hw.sandbox.level import Level

__all__ = ["Level", "enter"]


def enter(config: WorkerConfig) -> Level:
    """Lock this process down as far as the system lets it; it must be single-threaded.

    Raises:
        OSError: when the user that was asked for cannot be taken: a worker never serves as more
            than it was told to be.
    """
    own_user = config.uid is not None and config.gid is not None
    if config.sandbox:
        identity.drop_bounding_set()  # while there is still the capability to do so
    if config.uid is not None and config.gid is not None:
        identity.become(config.uid, config.gid)
    if not config.sandbox:
        return Level(own_user=own_user)
    _silence_standard_error()
    cache = Path(config.cache_dir) if config.cache_dir is not None else None
    if cache is not None and not os.access(cache, os.R_OK | os.X_OK):
        cache = None  # not this user's: the walls are built without a door to it
    isolated = _stands(lambda: namespaces.enter_empty(cache))
    identity.drop_bounding_set()  # a new user namespace begins with all of them
    identity.drop_capabilities()
    identity.forbid_new_privileges()
    identity.limit_resources(own_user=own_user)
    if own_user:
        identity.hide_from_ptrace()
    confined = _stands(lambda: landlock.restrict_to(cache))
    files = cache is not None and (isolated or confined)
    return Level(
        own_user=own_user,
        capabilities_dropped=True,
        no_new_privileges=True,
        namespaces=isolated,
        landlock=confined,
        seccomp=_stands(lambda: seccomp.install(files=files)),
        cache=files,
    )


def _stands(build: Callable[[], None]) -> bool:
    """Build a wall; False where the system does not permit it."""
    try:
        build()
    except OSError:
        return False
    return True


def _silence_standard_error() -> None:
    """Detach from gpud's log, which is no tenant's to write to."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
