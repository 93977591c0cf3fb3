"""The command of gpud: reads its options, sets up logging and serves."""

import asyncio
import gc
import logging
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from vgpu_sim.gpud import heartbeat, owner, preflight, readiness, standby
from vgpu_sim.gpud.contexts.exports import HcaOptions
from vgpu_sim.gpud.contexts.settings import WorkerSettings
from vgpu_sim.gpud.contexts.zygote import Zygote
from vgpu_sim.gpud.daemon import Daemon
from vgpu_sim.gpud.errors import JournalError
from vgpu_sim.gpud.faults.node import Options as FaultOptions
from vgpu_sim.gpud.limits.cgroups.base import SliceCgroups
from vgpu_sim.gpud.limits.cgroups.detect import detect
from vgpu_sim.gpud.limits.cgroups.none import NoCgroups
from vgpu_sim.gpud.options import (
    COMMAND_LINE,
    CgroupOptions,
    HealthChecks,
    NodeOptions,
    ProcessOptions,
    TelemetryOptions,
)
from vgpu_sim.hal.messages import TOKEN_BYTES
from vgpu_sim.options import Given, command_line
from vgpu_sim.system import foreign, processes, threads

logger = logging.getLogger("tessera.gpud")

_CAP_SETGID, _CAP_SETUID = 6, 7  # linux/capability.h
_SWITCH_SECONDS = (
    0.001  # the longest time for which a busy thread may keep gpud's loop from running
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@command_line(*COMMAND_LINE)
def main(option_values: Given) -> None:
    """Serve this node's simulated GPUs until SIGTERM."""
    process = option_values.make(ProcessOptions)
    logging.basicConfig(
        level=process.log_level,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(message)s"
        if process.parent_fd is None
        else "tessera: %(message)s",
    )
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the parent may have set it to be ignored
    processes.adopt_orphans()
    options = _node_options(option_values)
    cgroup_options = option_values.make(CgroupOptions)

    def cgroups() -> SliceCgroups:
        if options.standalone:
            return NoCgroups("standalone run: gpud enforces memory limits by accounting alone")
        cpu_count = len(os.sched_getaffinity(0))
        return detect(cpu_count, cgroup_options.root, cgroup_options.parent)

    try:
        for directory in (options.run_dir, options.state_dir):
            directory.mkdir(parents=True, exist_ok=True, mode=0o711)
    except OSError as err:
        logger.error("gpud_failed %s", err)  # noqa: TRY400 - no traceback needed
        sys.exit(1)
    sys.exit(asyncio.run(_serve(options, cgroups, process)))


def _node_options(option_values: Given) -> NodeOptions:
    """Build gpud's configuration from the command line. Raises click.BadParameter,
    click.UsageError.
    """
    may_become_any_user = processes.has_capabilities(_CAP_SETGID, _CAP_SETUID)
    workers = option_values.make(WorkerSettings, own_uids=may_become_any_user, cache_root=Path())
    node = option_values.make(NodeOptions, workers=workers)
    workers = replace(workers, cache_root=node.cache_dir or node.state_dir / "cache")
    if node.standalone:
        workers = replace(workers, own_uids=False, weak_sandbox=True)
    return replace(
        node,
        workers=workers,
        faults=option_values.make(
            FaultOptions, ignored=option_values.make(HealthChecks).ignored_xids()
        ),
        hca=_hca(option_values, node.token),
        telemetry=_telemetry(option_values),
    )


def _hca(option_values: Given, token: bytes | None) -> HcaOptions | None:
    if option_values.missing_options(HcaOptions):
        return None
    return option_values.make(HcaOptions, token=token or bytes(TOKEN_BYTES))


def _telemetry(option_values: Given) -> TelemetryOptions | None:
    lacking = option_values.missing_options(TelemetryOptions)
    if len(lacking) == 1:
        raise click.UsageError("give --telemetry-socket and --telemetry-user together")
    return None if lacking else option_values.make(TelemetryOptions)


async def _serve(
    options: NodeOptions,
    cgroups: Callable[[], SliceCgroups],
    process: ProcessOptions,
) -> int:
    ready_file = process.ready_file
    _raise_descriptor_limit()
    foreign.prepare_waking()
    sys.setswitchinterval(_SWITCH_SECONDS)
    processes.raise_priority()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(threads.pool())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    zygote = Zygote(_ignore_exit, options.workers.first_uid)
    zygote.begin()
    heart = asyncio.create_task(heartbeat.keep_fresh(ready_file))
    try:
        readiness.withdraw(ready_file)
        stands_by = partial(_stand_by, options, ready_file)
        warm = partial(_is_warm, zygote)
        if not await standby.take_over(options.state_dir, process.wait_s, stop, warm, stands_by):
            return 0
        # After the lock is taken: a predecessor removes its control groups as it ends.
        daemon = Daemon(options, cgroups(), zygote)
        await daemon.start()
        readiness.announce(ready_file)
        return await _run(daemon, options, stop, process.parent_fd)
    except (JournalError, OSError, ValueError) as err:
        logger.error("gpud_failed %s", err)  # noqa: TRY400 - no traceback needed
        return 1
    finally:
        heart.cancel()
        with suppress(OSError):
            readiness.withdraw(ready_file)
        await zygote.end()


def _stand_by(options: NodeOptions, ready_file: Path | None) -> None:
    """Check that this gpud could take over at once, then create the readiness file.

    Raises:
        JournalError: this gpud could not read the node's state.
        OSError: this gpud could not create a file or socket that it needs.
    """
    preflight.check(options)
    readiness.announce(ready_file)


def _is_warm(zygote: Zygote) -> bool:
    """Return whether the zygote has imported everything that workers need."""
    return zygote.sandbox is not None


def _ignore_exit(pid: int, status: int) -> None:
    """Ignore the exit of a worker. This is used while no contexts exist, before the daemon has
    created their table.
    """


async def _run(
    daemon: Daemon, options: NodeOptions, stop: asyncio.Event, parent_fd: int | None
) -> int:
    """Serve until ``stop`` is set or the owner ends, then stop the daemon in order."""
    gc.freeze()  # a full collection need not scan permanent objects
    parent = owner.OwnerWatch(parent_fd, stop.set) if parent_fd is not None else None
    if parent is not None:
        parent.send_ready()
    await stop.wait()
    await daemon.stop()
    if parent is not None and options.token is not None:
        if parent.owner_died:
            owner.end_what_is_left(options.token)
        shutil.rmtree(options.run_dir, ignore_errors=True)
    return 0


def _raise_descriptor_limit() -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
