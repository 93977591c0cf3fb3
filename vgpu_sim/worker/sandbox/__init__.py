"""The sandbox of a worker, which is trusted no more than its tenant.

Its mechanisms are, from the strongest to the weakest, a uid of its own without capabilities, an
allow-list of system calls, Landlock, and empty namespaces. Each is used if the system permits
it, and the level reports which ones are active. A compile helper has the same mechanisms, and
may fork.
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

# The helper's function. It never returns; its argument is called in each child that it forks.
Helper = Callable[[Callable[[], None]], None]


class NotConfinedError(Exception):
    """The system permits too few sandbox mechanisms for a worker to serve."""


def enter(config: WorkerConfig, help_by: Helper | None = None) -> Level:
    """Restrict this process as far as the system permits; return the level reached. The process
    must be single-threaded.

    ``help_by`` is the function that the compile helper runs; None: there is no helper.

    Raises:
        OSError: the process cannot become the configured user; a worker never runs with more
            privileges than configured.
        NotConfinedError: the sandbox is not sufficient, and the configuration does not allow that.
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
    """Return the sandbox level that ``enter`` would reach with this uid. A child process determines
    it; if the child fails, no mechanism is active.
    """
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
    identity.become_user(uid, gid)
    return True


def _fork_helper(help_by: Helper, *, filtered: bool, required: bool) -> None:
    """Fork a helper process that ends with this one. If ``required`` is set, the helper must have
    its filter of system calls.
    """
    worker = os.getpid()
    if os.fork() != 0:
        return
    try:
        calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL)
        gone = os.getppid() != worker  # the parent ended before the call above
        stands = filtered and _stands(seccomp.install_for_helper)
        if not gone and (stands or not required):
            helper = os.getpid()
            help_by(lambda: _become_child(helper, filtered=stands))
    finally:
        os._exit(spawn.CRASHED_STATUS)


def _become_child(helper: int, *, filtered: bool) -> None:
    """In a child of the helper: end with the helper, and drop the permission to fork."""
    calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != helper:  # the helper ended before the call above
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
    identity.drop_bounding_set()  # while the process still has the capability
    own_user = _become(uid, gid)
    _silence_standard_error()
    if cache is not None and not os.access(cache, os.R_OK | os.X_OK):
        cache = None  # another user's cache: the sandbox excludes it
    isolated = _stands(lambda: namespaces.enter_empty(cache))
    identity.drop_bounding_set()  # a new user namespace has a full bounding set
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
    """Call ``build`` to set up a mechanism; return False if the system does not permit it."""
    try:
        build()
    except OSError:
        return False
    return True


def _silence_standard_error() -> None:
    """Detach standard error from gpud's log, to which tenants must not write."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
