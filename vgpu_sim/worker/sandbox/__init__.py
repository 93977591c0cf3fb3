"""A worker is treated as its tenant: what it may still do after ``enter``.

Walls, from the strongest claim to the weakest: an own user without capabilities, an allow-list of
system calls, Landlock, empty namespaces. Each is used where the system permits it, and the level
says which ones stand. A compile helper stands behind the same ones, and may fork.
"""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from vgpu_sim.hal.compute import spawn
from vgpu_sim.hal.compute.spawn import WorkerConfig
from vgpu_sim.system import calls, identity, landlock
from vgpu_sim.worker.sandbox import namespaces, seccomp
from vgpu_sim.worker.sandbox.level import Level

__all__ = ["Helper", "Level", "NotConfinedError", "enter", "probe"]

# What a helper does. It never returns; its argument is called in each child that it forks.
Helper = Callable[[Callable[[], None]], None]


class NotConfinedError(Exception):
    """The system permits too few walls for a worker to serve behind them."""


def enter(config: WorkerConfig, help_by: Helper | None = None) -> Level:
    """Lock this process down as far as the system lets it; it must be single-threaded.

    ``help_by`` is what a compile helper does, if there is to be one.

    Raises:
        OSError: when the user that was asked for cannot be taken: a worker never serves as more
            than it was told to be.
        NotConfinedError: when the walls are not enough, unless the configuration allows that.
    """
    if not config.sandbox:
        level = Level(own_user=_become(config.uid, config.gid))
        if help_by is not None:
            _fork_helper(help_by, filtered=False, required=False)
        return level
    cache = Path(config.cache_dir) if config.cache_dir is not None else None
    level = _confine(config.uid, config.gid, cache, help_by, weak=config.weak_sandbox)
    if not (level.confined or config.weak_sandbox):
        raise NotConfinedError(spawn.NOT_CONFINED)
    return level


def probe(uid: int | None) -> Level:
    """Tell what ``enter`` would reach with this user, by a child that tries; all False if none."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.write(writer, json.dumps(_confine(uid, uid, None).to_json()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        answer = file.read()
    os.waitpid(child, 0)
    return Level(**json.loads(answer)) if answer else Level(cache=False)


def _become(uid: int | None, gid: int | None) -> bool:
    if uid is None or gid is None:
        return False
    identity.become(uid, gid)
    return True


def _fork_helper(help_by: Helper, *, filtered: bool, required: bool) -> None:
    """Fork a process that ends with this one; ``required``: it must have its filter."""
    worker = os.getpid()
    if os.fork() != 0:
        return
    try:
        calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL)
        gone = os.getppid() != worker  # before the call above
        stands = filtered and _stands(seccomp.install_for_helper)
        if not gone and (stands or not required):
            helper = os.getpid()
            help_by(lambda: _become_child(helper, filtered=stands))
    finally:
        os._exit(spawn.CRASHED_STATUS)


def _become_child(helper: int, *, filtered: bool) -> None:
    """In a child of the helper: end with it, and give up forking."""
    calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != helper:  # it has ended before the call above
        os._exit(spawn.CRASHED_STATUS)
    if filtered:
        seccomp.install(files=False)


def _confine(
    uid: int | None,
    gid: int | None,
    cache: Path | None,
    help_by: Helper | None = None,
    *,
    weak: bool = False,
) -> Level:
    identity.drop_bounding_set()  # while there is still the capability to do so
    own_user = _become(uid, gid)
    _silence_standard_error()
    if cache is not None and not os.access(cache, os.R_OK | os.X_OK):
        cache = None  # not this user's: the walls are built without a door to it
    isolated = _stands(lambda: namespaces.enter_empty(cache))
    identity.drop_bounding_set()  # a new user namespace begins with all of them
    identity.drop_capabilities()
    identity.forbid_new_privileges()
    identity.limit_resources(own_user=own_user)
    if own_user:
        identity.hide_from_ptrace()
    confined = _stands(lambda: landlock.restrict_to({cache: landlock.FILES} if cache else {}))
    files = cache is not None and (isolated or confined)
    if help_by is not None:
        _fork_helper(help_by, filtered=True, required=not weak)
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
