"""The command of the daemon that owns a node's simulated GPUs: reads options, logs, serves."""

import asyncio
import gc
import logging
import math
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import click

from vgpu_sim import config
from vgpu_sim.gpud import owner, preflight, readiness, standby
from vgpu_sim.gpud.contexts.exports import HcaOptions
from vgpu_sim.gpud.contexts.launching import WorkerSettings
from vgpu_sim.gpud.contexts.zygote import Zygote
from vgpu_sim.gpud.daemon import Daemon
from vgpu_sim.gpud.devices.silicon import ARCHITECTURES
from vgpu_sim.gpud.errors import JournalError
from vgpu_sim.gpud.faults import classes
from vgpu_sim.gpud.faults.health import Times
from vgpu_sim.gpud.faults.node import Options
from vgpu_sim.gpud.limits.cgroups.base import SliceCgroups
from vgpu_sim.gpud.limits.cgroups.detect import DEFAULT_ROOT, PARENT, detect
from vgpu_sim.gpud.limits.cgroups.none import NoCgroups
from vgpu_sim.gpud.options import NodeOptions, TelemetryOptions
from vgpu_sim.hal import limits
from vgpu_sim.hal.messages import TOKEN_BYTES
from vgpu_sim.hal.modelled import CLOCKS, WALL
from vgpu_sim.system import foreign, processes, threads

logger = logging.getLogger("tessera.gpud")

_CAP_SETGID, _CAP_SETUID = 6, 7  # linux/capability.h
_SWITCH_SECONDS = 0.001  # that a busy thread keeps the interpreter when the loop wants it


def parse_capability(text: str) -> tuple[int, int]:
    """Read "M.m". Raises click.BadParameter unless that capability is known."""
    known = {f"{major}.{minor}": (major, minor) for major, minor in ARCHITECTURES}
    if text not in known:
        raise click.BadParameter(f"{text!r} is not one of {', '.join(known)}")
    return known[text]


def _finite(
    _context: click.Context, _parameter: click.Parameter, value: float | None
) -> float | None:
    """Refuse nan, which no range does, and infinity. Raises click.BadParameter."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a number of seconds")
    return value


def read_token(path: Path) -> bytes:
    """Read a token of 64 hexadecimal digits. Raises click.BadParameter."""
    try:
        token = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError) as err:
        raise click.BadParameter(f"{path}: {err}") from err
    if len(token) != TOKEN_BYTES:
        raise click.BadParameter(f"{path}: a token is {TOKEN_BYTES} bytes in hexadecimal")
    return token


def health_checks(off: str, on: str) -> frozenset[int] | None:
    """Read the two lists of Xids. Raises click.BadParameter."""
    try:
        return classes.ignored(off.split(","), on.split(","))
    except ValueError as err:
        raise click.BadParameter(f"health checks: {err}") from err


def _path(help_text: str, default: Path | None = None) -> dict[str, Any]:
    kind = click.Path(path_type=Path)
    return {"type": kind, "default": default, "help": help_text, "show_default": bool(default)}


def _telemetry(path: Path | None, uid: int | None) -> TelemetryOptions | None:
    if (path is None) != (uid is None):
        raise click.UsageError("--telemetry-socket and --telemetry-user go together")
    return TelemetryOptions(path, uid) if path is not None and uid is not None else None


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--run-dir", **_path("Sockets live here.", config.DEFAULT_RUN_DIR))
@click.option("--state-dir", **_path("The journal lives here.", config.DEFAULT_STATE_DIR))
@click.option("--cache-dir", **_path("Object caches; default: below the state directory."))
@click.option("--libraries-dir", **_path("Client libraries for containers.", config.LIBRARIES_DIR))
@click.option("--backend", type=click.Choice(["jit", "interp"]), default="jit", show_default=True)
@click.option("--token", "token_file", **_path("Standalone: this user, with the token in FILE."))
@click.option(
    "--budget",
    "budget_bytes",
    type=click.IntRange(min=0),
    default=0,
    help="Host memory for all slices in bytes; 0: half of the host's.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, limits.MAX_WORKER_THREADS),
    default=None,
    help="Native threads of a worker; default: the CPUs gpud may use, up to that many.",
)
@click.option(
    "--kernel-timeout",
    "kernel_timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    callback=_finite,
    default=None,
    help="End the context of a kernel that runs for so many seconds; default: let it run.",
)
@click.option("--report-usage", is_flag=True, help='Make a "usage" event of what a context did.')
@click.option(
    "--clock",
    type=click.Choice(CLOCKS),
    default=WALL,
    show_default=True,
    help="What events measure: this machine's time, or what the board would take (modelled).",
)
@click.option("--cc", "capability", default=None, help="Report this compute capability (M.m).")
@click.option(
    "--isolation",
    type=click.Choice(["default", "strict"]),
    default="default",
    help="strict: a slice gets its share of CPU time and no more.",
)
@click.option(
    "--allow-weak-sandbox",
    is_flag=True,
    help="Start contexts even where the kernel can confine their workers neither by Landlock nor"
    " by namespaces. Always so with --token, where program and worker are one user's.",
)
@click.option("--cgroup-root", **_path("Where control groups are mounted.", DEFAULT_ROOT))
@click.option(
    "--cgroup-parent", default=PARENT, show_default=True, help="The slices' common control group."
)
@click.option("--hca-socket", **_path("Where hcad asks for the memory of devices."))
@click.option("--hcad-user", type=click.IntRange(min=0), default=None, help="UID of hcad.")
@click.option("--telemetry-socket", **_path("Where --telemetry-user may read the inventory."))
@click.option("--telemetry-user", type=click.IntRange(min=0), default=None, help="UID of that.")
@click.option(
    "--disable-health-checks",
    "health_off",
    envvar="DP_DISABLE_HEALTHCHECKS",
    default="",
    metavar="XIDS",
    help="Xids that say nothing about health, beside those that programs cause; all: none does."
    " Read as NVIDIA's device plugin does.",
)
@click.option(
    "--enable-health-checks",
    "health_on",
    envvar="DP_ENABLE_HEALTHCHECKS",
    default="",
    metavar="XIDS",
    help="Xids that do, against --disable-health-checks and the default.",
)
@click.option(
    "--health-seconds",
    type=(click.FloatRange(min=0), click.FloatRange(min=0), click.FloatRange(min=0)),
    default=astuple(Times()),
    show_default=True,
    help="How long a GPU is Suspect, at least Unhealthy, and on Probation.",
)
@click.option(
    "--takeover-wait",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="Seconds to wait for another gpud of the same state directory to end.",
)
@click.option(
    "--ready-file",
    **_path("Made when this gpud serves, or waits for another one to end: then without limit."),
)
@click.option(
    "--parent-fd",
    type=int,
    default=None,
    hidden=True,
    help="A socket: told when gpud serves; its end is gpud's end.",
)
@click.option(
    "--log-level",
    default="INFO",
    show_default=True,
    type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]),
)
def main(
    run_dir: Path,
    state_dir: Path,
    cache_dir: Path | None,
    libraries_dir: Path,
    backend: str,
    token_file: Path | None,
    budget_bytes: int,
    threads: int | None,
    kernel_timeout_s: float | None,
    report_usage: bool,
    clock: str,
    capability: str | None,
    isolation: str,
    allow_weak_sandbox: bool,
    cgroup_root: Path,
    cgroup_parent: str,
    hca_socket: Path | None,
    hcad_user: int | None,
    health_off: str,
    health_on: str,
    health_seconds: tuple[float, float, float],
    telemetry_socket: Path | None,
    telemetry_user: int | None,
    takeover_wait: float,
    ready_file: Path | None,
    parent_fd: int | None,
    log_level: str,
) -> None:
    """Serve this node's simulated GPUs until SIGTERM."""
    logging.basicConfig(
        level=log_level,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(message)s"
        if parent_fd is None
        else "tessera: %(message)s",
    )
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored by some parents
    processes.adopt_orphans()
    token = read_token(token_file) if token_file is not None else None
    cpu_count = len(os.sched_getaffinity(0))
    options = NodeOptions(
        run_dir=run_dir,
        state_dir=state_dir,
        libraries_dir=libraries_dir,
        token=token,
        budget_bytes=budget_bytes,
        workers=WorkerSettings(
            backend=backend,
            threads=threads or min(cpu_count, limits.MAX_WORKER_THREADS),
            capability=parse_capability(capability) if capability is not None else None,
            own_uids=token is None and processes.has_capabilities(_CAP_SETGID, _CAP_SETUID),
            strict_cpu=isolation == "strict",
            cache_root=cache_dir or state_dir / "cache",
            kernel_timeout_s=kernel_timeout_s,
            weak_sandbox=allow_weak_sandbox or token is not None,
            report_usage=report_usage,
            clock=clock,
        ),
        faults=Options(health_checks(health_off, health_on), Times(*health_seconds)),
        hca=HcaOptions(hca_socket, hcad_user, token or bytes(TOKEN_BYTES)) if hca_socket else None,
        telemetry=_telemetry(telemetry_socket, telemetry_user),
    )

    def cgroups() -> SliceCgroups:
        if token is not None:
            return NoCgroups("standalone run: limits are kept by bookkeeping alone")
        return detect(cpu_count, cgroup_root, cgroup_parent)

    try:
        for directory in (run_dir, state_dir):
            directory.mkdir(parents=True, exist_ok=True, mode=0o711)
    except OSError as err:
        logger.error("gpud_failed %s", err)  # noqa: TRY400 - the message is the whole story
        sys.exit(1)
    wait_s = takeover_wait if ready_file is None else None
    sys.exit(asyncio.run(_serve(options, cgroups, wait_s, ready_file, parent_fd)))


async def _serve(
    options: NodeOptions,
    cgroups: Callable[[], SliceCgroups],
    wait_s: float | None,
    ready_file: Path | None,
    parent_fd: int | None,
) -> int:
    _raise_descriptor_limit()
    foreign.prepare_waking()
    sys.setswitchinterval(_SWITCH_SECONDS)
    processes.go_first()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(threads.pool())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    zygote = Zygote(_no_worker_yet, options.workers.first_uid)
    zygote.begin()
    try:
        readiness.withdraw(ready_file)
        stands_by = partial(_stand_by, options, ready_file)
        warm = partial(_is_warm, zygote)
        if not await standby.take_over(options.state_dir, wait_s, stop, warm, stands_by):
            return 0
        # Not before the lock: a predecessor that ends takes its control groups with it.
        daemon = Daemon(options, cgroups(), zygote)
        await daemon.start()
        readiness.announce(ready_file)
        return await _run(daemon, options, stop, parent_fd)
    except (JournalError, OSError, ValueError) as err:
        logger.error("gpud_failed %s", err)  # noqa: TRY400 - the message is the whole story
        return 1
    finally:
        with suppress(OSError):
            readiness.withdraw(ready_file)
        await zygote.end()


def _stand_by(options: NodeOptions, ready_file: Path | None) -> None:
    """Announce that this gpud could take over at once.

    Raises:
        JournalError, OSError: it could not.
    """
    preflight.check(options)
    readiness.announce(ready_file)


def _is_warm(zygote: Zygote) -> bool:
    """Return whether a zygote has loaded what workers are made of."""
    return zygote.walls is not None


def _no_worker_yet(pid: int, status: int) -> None:
    """Take the end of a worker while there is no table of contexts, in which it could be."""


async def _run(
    daemon: Daemon, options: NodeOptions, stop: asyncio.Event, parent_fd: int | None
) -> int:
    """Wait for the end, and stop in order."""
    gc.freeze()  # a full collection need not look at what is there for good
    parent = owner.OwnerWatch(parent_fd, stop.set) if parent_fd is not None else None
    if parent is not None:
        parent.ready()
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
