"""How a gpud was started: where its files are, whom it serves, what its parts are told."""

from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from vgpu_sim.gpud.contexts.exports import HcaOptions
from vgpu_sim.gpud.contexts.launching import WorkerSettings
from vgpu_sim.gpud.faults.node import Options as FaultOptions


@dataclass(frozen=True, slots=True)
class TelemetryOptions:
    """A second socket, for a user who may read the inventory and do nothing else."""

    socket: Path
    uid: int


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """How this gpud was started. A token makes it standalone: no pods, one user.

    ``budget_bytes`` 0 is half of the host's memory. ``libraries_dir`` holds the client libraries
    that containers are given. ``hca`` says where hcad is that may ask for the memory of devices.
    """

    run_dir: Path
    state_dir: Path
    libraries_dir: Path
    token: bytes | None
    budget_bytes: int
    workers: WorkerSettings
    hca: HcaOptions | None = None
    faults: FaultOptions = field(default_factory=FaultOptions)
    telemetry: TelemetryOptions | None = None

    @property
    def slices_dir(self) -> Path:
        """Return where each instance has a directory with its socket."""
        return self.run_dir / "slices"

    @property
    def standalone(self) -> bool:
        """Return whether this serves one user's run instead of a node's pods."""
        return self.token is not None


def installed_version() -> str:
    """Return Tessera's version."""
    try:
        return metadata.version("tessera")
    except metadata.PackageNotFoundError:
        return "0+source"  # run from a checkout that was never installed
