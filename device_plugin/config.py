"""Settings of the node agent; the only reader of the environment in this package.

A field made with ``environment_field`` is read from the environment variable that it names: to add
a setting, add a field.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields
from pathlib import Path
from typing import Any, Final

from device_plugin.errors import SettingsError
from vgpu_sim.records import dataclass

LISTED_WITHIN_S = 30.0  # from Allocate until the pod is listed or counts as failed
LEAVE_S = 28.0  # the supervisor kills an agent after 30: device_plugin.app
MOST_HCAS: Final = 8
MOST_FUNCTIONS: Final = 64  # of each HCA
_METADATA: Final = "variable"


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable that sets a field.

    ``source`` is the field of the pod from which the DaemonSet sets the variable.
    """

    name: str
    read: Callable[[str], Any]
    empty_is_unset: bool
    source: str


def environment_field(
    name: str,
    read: Callable[[str], Any] = str,
    default: Any = MISSING,
    *,
    empty_is_unset: bool = False,
    source: str = "",
) -> Any:
    """Declare a dataclass field that an environment variable sets.

    ``read`` converts the variable's text to a value. If ``read`` raises ValueError, the error's
    message states what is wrong with the text. If the field has no default, the DaemonSet sets the
    variable from ``source``, a field of the pod.
    """
    declared = Variable(name, read, empty_is_unset or default is MISSING, source)
    return field(default=default, metadata={_METADATA: declared})


def _is_true(text: str) -> bool:
    return text == "true"


def _true_or_false(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("must be 'true' or 'false'")
    return text == "true"


def _is_cdi(strategy: str) -> bool:
    if strategy not in ("cdi", "mounts"):
        raise ValueError("must be 'cdi' or 'mounts'")
    return strategy == "cdi"


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) < 65536:
        raise ValueError("must be a port number from 0 to 65535")
    return int(text)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError as err:
        raise ValueError("must be a number of seconds") from err


def _leave_seconds(text: str) -> float:
    seconds = _seconds(text)
    if not 0 <= seconds <= LEAVE_S:  # rejects NaN, too
        raise ValueError(f"must be 0 to {LEAVE_S:g} seconds")
    return seconds


def _up_to(maximum: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or int(text) > maximum:
            raise ValueError(f"must be an integer from 0 to {maximum}")
        return int(text)

    return read


@dataclass(frozen=True, slots=True)
class Hcas:
    """The HCAs that the node's pool requests; ``count`` is 0 if it requests none."""

    count: int = environment_field("TESSERA_HCAS", _up_to(MOST_HCAS), 0)
    functions_per_hca: int = environment_field(
        "TESSERA_FUNCTIONS_PER_HCA", _up_to(MOST_FUNCTIONS), 0
    )
    rate_gbps: int = environment_field("TESSERA_HCA_GBPS", _up_to(1600), 100)


@dataclass(frozen=True, slots=True)
class Settings:
    """Paths and options of this node. Each path is the same inside the pod and on the host."""

    node_name: str = environment_field("NODE_NAME", source="spec.nodeName")
    pod_name: str = environment_field("POD_NAME", source="metadata.name")
    namespace: str = environment_field("POD_NAMESPACE", default="tessera-system")
    run_dir: Path = environment_field("TESSERA_RUN_DIR", Path, Path("/run/tessera"))
    kubelet_dir: Path = environment_field("KUBELET_DIR", Path, Path("/var/lib/kubelet"))
    cdi_dir: Path = environment_field("CDI_DIR", Path, Path("/var/run/cdi"))
    pod_logs_dir: Path = environment_field("POD_LOGS_DIR", Path, Path("/var/log/pods"))
    libraries_dir: Path = environment_field(
        "TESSERA_LIBRARIES_DIR", Path, Path("/var/lib/tessera/lib")
    )
    link_dir: Path | None = environment_field("TESSERA_LINK_DIR", Path, None, empty_is_unset=True)
    """A directory that the pod's containers share; None: the process makes one for itself."""
    standby: bool = environment_field("TESSERA_STANDBY", _is_true, default=False)
    """Whether this container only stands by to serve the kubelet."""
    resource_prefix: str = environment_field("TESSERA_RESOURCE_PREFIX", default="gpu.tessera.dev")
    use_cdi: bool = environment_field("TESSERA_DEVICE_LIST_STRATEGY", _is_cdi, default=True)
    budget: str = environment_field("TESSERA_NODE_BUDGET", default="0", empty_is_unset=True)
    health_port: int = environment_field("TESSERA_HEALTH_PORT", _port, 8081)
    listed_within_s: float = environment_field(
        "TESSERA_LISTED_WITHIN_SECONDS", _seconds, LISTED_WITHIN_S, empty_is_unset=True
    )
    """Seconds from an allocation until the kubelet lists the pod, or it counts as failed."""
    hcas: Hcas = Hcas()
    nvidia_smi: bool = environment_field("TESSERA_NVIDIA_SMI", _true_or_false, default=False)
    """Whether containers get the command nvidia-smi with their slice."""
    device_files: bool = environment_field("TESSERA_DEVICE_FILES", _true_or_false, default=False)
    """Whether containers get inert files in the place of NVIDIA's device nodes."""
    pytorch: bool = environment_field("TESSERA_PYTORCH", _true_or_false, default=False)
    """Whether containers get the variables by which PyTorch finds its plug-in and libraries."""
    leave_s: float = environment_field(
        "TESSERA_LEAVE_SECONDS", _leave_seconds, LEAVE_S, empty_is_unset=True
    )
    """The longest time from SIGTERM until the agent ends, in seconds.

    Pods that are already bound are still admitted in this time.
    """
    metrics: bool = environment_field("TESSERA_METRICS", _is_true, default=False)
    """Whether ``/metrics`` is served on the probes' port."""
    dra: bool = environment_field("TESSERA_DRA", _is_true, default=False)
    """Whether the node's GPUs may be allocated to ResourceClaims."""
    dra_extended: bool = environment_field(
        "TESSERA_DRA_EXTENDED_RESOURCES", _is_true, default=False
    )
    """Whether DeviceClasses serve extended resources, too."""

    @property
    def gpud_socket(self) -> Path:
        return self.run_dir / "gpud.sock"

    @property
    def offer_record(self) -> Path:
        """Return the path of the file that records the node's last offer to the kubelet.

        The file is in the same directory as the client libraries.
        """
        return self.libraries_dir / "offered.json"

    @property
    def hca_dir(self) -> Path:
        """Return the directory of hcad's socket and its functions' folders."""
        return self.run_dir / "hca"

    @property
    def hcad_socket(self) -> Path:
        return self.hca_dir / "admin.sock"

    @property
    def linkd_socket(self) -> Path:
        return self.run_dir / "links" / "links.sock"

    @property
    def registry_dir(self) -> Path:
        """Return the directory in which the kubelet searches for plugins."""
        return self.kubelet_dir / "plugins_registry"

    @property
    def device_plugins_dir(self) -> Path:
        """Return the directory of the kubelet's device manager: its socket and checkpoint."""
        return self.kubelet_dir / "device-plugins"

    @property
    def kubelet_socket(self) -> Path:
        """Return the socket at which the kubelet registers device plugins."""
        return self.device_plugins_dir / "kubelet.sock"

    @property
    def plugins_dir(self) -> Path:
        """Return the directory in which each kubelet plugin has its own directory."""
        return self.kubelet_dir / "plugins"

    @property
    def pod_resources_socket(self) -> Path:
        return self.kubelet_dir / "pod-resources" / "kubelet.sock"


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """Settings of the exporter: the node, the source of its figures, and its port."""

    node_name: str = environment_field("NODE_NAME", source="spec.nodeName")
    socket: Path = environment_field(
        "TESSERA_TELEMETRY_SOCKET", Path, Path("/run/tessera/telemetry/gpud.sock")
    )
    rdma_socket: Path = environment_field(
        "TESSERA_RDMA_TELEMETRY_SOCKET", Path, Path("/run/tessera/hca/telemetry/hcad.sock")
    )
    """hcad's socket; it does not exist on nodes without HCAs."""
    port: int = environment_field("TESSERA_EXPORTER_PORT", _port, 9400)


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings that the DaemonSet sets.

    Raises:
        SettingsError: a setting is missing or invalid.
    """
    env = os.environ if environment is None else environment
    return Settings(hcas=Hcas(**_set_fields(Hcas, env)), **_set_fields(Settings, env))


def exporter_from_environment(environment: Mapping[str, str] | None = None) -> ExporterSettings:
    """Read the exporter's settings.

    Raises:
        SettingsError: a setting is missing or invalid.
    """
    env = os.environ if environment is None else environment
    return ExporterSettings(**_set_fields(ExporterSettings, env))


def _set_fields(kind: type, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a dataclass that the environment sets. Raises SettingsError."""
    values_by_field: dict[str, Any] = {}
    for name, declared in variables(kind).items():
        text = env.get(declared.name)
        if text is None or (not text and declared.empty_is_unset):
            if declared.source:
                raise SettingsError(
                    f"{declared.name} is not set: the DaemonSet takes it from {declared.source}"
                )
            continue
        try:
            values_by_field[name] = declared.read(text)
        except ValueError as err:
            raise SettingsError(f"{declared.name}={text}: {err}") from err
    return values_by_field


def variables(kind: type) -> dict[str, Variable]:
    """Return the environment variables that set the fields of a dataclass, by field."""
    return {
        declared_field.name: declared_field.metadata[_METADATA]
        for declared_field in fields(kind)
        if _METADATA in declared_field.metadata
    }
