"""gpud's configuration: dataclasses whose fields are the options of its command line."""

from dataclasses import field
from importlib import metadata
from pathlib import Path

import click

from vgpu_sim import config
from vgpu_sim.gpud.contexts.exports import HcaOptions
from vgpu_sim.gpud.contexts.settings import WorkerSettings
from vgpu_sim.gpud.faults import classes
from vgpu_sim.gpud.faults.node import Options as FaultOptions
from vgpu_sim.gpud.limits.cgroups.detect import DEFAULT_ROOT, PARENT
from vgpu_sim.hal.messages import TOKEN_BYTES
from vgpu_sim.options import option
from vgpu_sim.records import dataclass


def read_token(path: Path) -> bytes:
    """Read a token of 64 hexadecimal digits from a file. Raises click.BadParameter."""
    try:
        token = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError) as err:
        raise click.BadParameter(f"{path}: {err}") from err
    if len(token) != TOKEN_BYTES:
        raise click.BadParameter(f"{path}: a token must be {TOKEN_BYTES} bytes in hexadecimal")
    return token


@dataclass(frozen=True, slots=True)
class TelemetryOptions:
    """Options of a second socket, for a user who may only read the inventory."""

    socket: Path = option(
        "--telemetry-socket", help="Where --telemetry-user may read the inventory."
    )
    uid: int = option(
        "--telemetry-user", type=click.IntRange(min=0), help="UID of the user who may read it."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """gpud's configuration. With a ``token``, gpud is standalone: it serves one user, without pods.

    ``budget_bytes`` is the host memory for all slices; 0 stands for half of the host's memory,
    or what is available less 2 GiB if that is less.
    ``libraries_dir`` holds the client libraries that are mounted into containers. ``hca`` describes
    the hcad that may request device memory.
    """

    run_dir: Path = option(
        default=config.DEFAULT_RUN_DIR, show_default=True, help="Directory of the sockets."
    )
    state_dir: Path = option(
        default=config.DEFAULT_STATE_DIR, show_default=True, help="Directory of the journal."
    )
    cache_dir: Path | None = option(
        default=None, help="Object caches; default: below the state directory."
    )
    libraries_dir: Path = option(
        default=config.LIBRARIES_DIR, show_default=True, help="Client libraries for containers."
    )
    token: bytes | None = option(
        type=click.Path(path_type=Path),
        default=None,
        convert=read_token,
        help="Standalone: this user, with the token in FILE.",
    )
    budget_bytes: int = option(
        "--budget",
        type=click.IntRange(min=0),
        default=0,
        help="Host memory for all slices in bytes; 0: half of the host's, or what is available less"
        " 2 GiB if that is less.",
    )
    workers: WorkerSettings
    hca: HcaOptions | None = None
    faults: FaultOptions = field(default_factory=FaultOptions)
    telemetry: TelemetryOptions | None = None

    @property
    def slices_dir(self) -> Path:
        """The directory that contains one directory per instance, which holds the instance's
        socket.
        """
        return self.run_dir / "slices"

    @property
    def standalone(self) -> bool:
        """Whether gpud serves one user's run instead of a node's pods."""
        return self.token is not None


@dataclass(frozen=True, slots=True)
class CgroupOptions:
    """Options that state where the slices' control groups are created."""

    root: Path = option(
        "--cgroup-root",
        default=DEFAULT_ROOT,
        show_default=True,
        help="Where control groups are mounted.",
    )
    parent: str = option(
        "--cgroup-parent",
        default=PARENT,
        show_default=True,
        help="The slices' common control group.",
    )


@dataclass(frozen=True, slots=True)
class HealthChecks:
    """Two lists that determine which Xids affect health. They have the form of the device plugin's
    environment variables.
    """

    off: str = option(
        "--disable-health-checks",
        envvar="DP_DISABLE_HEALTHCHECKS",
        default="",
        metavar="XIDS",
        help="Xids that do not affect health, in addition to those that programs cause; 'all' means"
        " that no Xid affects health. The syntax is that of NVIDIA's device plugin.",
    )
    on: str = option(
        "--enable-health-checks",
        envvar="DP_ENABLE_HEALTHCHECKS",
        default="",
        metavar="XIDS",
        help="Xids that affect health despite --disable-health-checks and the default.",
    )

    def ignored_xids(self) -> frozenset[int] | None:
        """Return the Xids that do not affect health. None means that health checks are off. Raises
        BadParameter.
        """
        try:
            return classes.parse_ignored(self.off.split(","), self.on.split(","))
        except ValueError as err:
            raise click.BadParameter(f"health checks: {err}") from err


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """Options that determine how gpud starts to serve and what it logs."""

    takeover_wait_s: float = option(
        "--takeover-wait",
        type=click.FloatRange(min=0),
        default=30.0,
        show_default=True,
        help="Seconds to wait for another gpud of the same state directory to end.",
    )
    ready_file: Path | None = option(
        default=None,
        help="Created when this gpud serves, or waits for another one to end: then without limit.",
    )
    parent_fd: int | None = option(
        default=None,
        hidden=True,
        help="A socket: gpud writes to it when it serves, and ends when it is closed.",
    )
    log_level: str = option(
        type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]), default="INFO", show_default=True
    )

    @property
    def wait_s(self) -> float | None:
        """How many seconds to wait for another gpud to end; None: without limit."""
        return self.takeover_wait_s if self.ready_file is None else None


COMMAND_LINE = (
    NodeOptions,
    WorkerSettings,
    CgroupOptions,
    HcaOptions,
    TelemetryOptions,
    HealthChecks,
    FaultOptions,
    ProcessOptions,
)
"""The dataclasses whose fields are gpud's options, in the order of ``--help``."""


def installed_version() -> str:
    """Return Tessera's version."""
    try:
        return metadata.version("tessera")
    except metadata.PackageNotFoundError:
        return "0+source"  # run from a checkout without installation
