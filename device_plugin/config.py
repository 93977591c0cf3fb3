"""Settings of the node agent; the only reader of the environment in this package."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from device_plugin.errors import SettingsError

LISTED_WITHIN_S = 30.0  # from Allocate until the pod is listed, or was given up
LEAVE_S = 28.0  # the supervisor kills an agent after 30: device_plugin.app


@dataclass(frozen=True, slots=True)
class Hcas:
    """A node's HCAs as its pool asks for them; without any ``count`` is 0."""

    count: int = 0
    functions_per_hca: int = 0
    rate_gbps: int = 100


@dataclass(frozen=True, slots=True)
class Settings:
    """Where things are on this node. Paths inside the pod equal those on the host."""

    node_name: str
    pod_name: str
    namespace: str = "tessera-system"
    run_dir: Path = Path("/run/tessera")
    kubelet_dir: Path = Path("/var/lib/kubelet")
    cdi_dir: Path = Path("/var/run/cdi")
    pod_logs_dir: Path = Path("/var/log/pods")
    libraries_dir: Path = Path("/var/lib/tessera/lib")
    resource_prefix: str = "gpu.tessera.dev"
    use_cdi: bool = True
    budget: str = "0"
    health_port: int = 8081
    listed_within_s: float = LISTED_WITHIN_S
    """From an allocation until the kubelet lists the pod, or has given it up."""
    hcas: Hcas = Hcas()
    nvidia_smi: bool = False
    """Whether containers get the command nvidia-smi with their slice."""
    leave_s: float = LEAVE_S
    """From SIGTERM until the agent ends, at most. Pods that are under way are still admitted."""
    metrics: bool = False
    """Whether ``/metrics`` is answered beside the probes."""
    dra: bool = False
    """Whether GPUs may be given to ResourceClaims."""
    dra_extended: bool = False
    """Whether DeviceClasses serve extended resources, too."""

    @property
    def gpud_socket(self) -> Path:
        return self.run_dir / "gpud.sock"

    @property
    def offer_record(self) -> Path:
        """Return the file that says what the node offers: beside the builds of libraries."""
        return self.libraries_dir / "offered.json"

    @property
    def hca_dir(self) -> Path:
        """Return where hcad keeps its socket and its functions' folders."""
        return self.run_dir / "hca"

    @property
    def hcad_socket(self) -> Path:
        return self.hca_dir / "admin.sock"

    @property
    def linkd_socket(self) -> Path:
        return self.run_dir / "links" / "links.sock"

    @property
    def registry_dir(self) -> Path:
        """Return where the kubelet looks for plugins by itself."""
        return self.kubelet_dir / "plugins_registry"

    @property
    def plugins_dir(self) -> Path:
        """Return where plugins of the kubelet have directories of their own."""
        return self.kubelet_dir / "plugins"

    @property
    def pod_resources_socket(self) -> Path:
        return self.kubelet_dir / "pod-resources" / "kubelet.sock"


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings that the DaemonSet sets.

    Raises:
        SettingsError: one is missing or is not what it should be.
    """
    env = os.environ if environment is None else environment
    for name, field in (("NODE_NAME", "spec.nodeName"), ("POD_NAME", "metadata.name")):
        if not env.get(name):
            raise SettingsError(f"{name} is not set: the DaemonSet takes it from {field}")
    strategy = env.get("TESSERA_DEVICE_LIST_STRATEGY", "cdi")
    if strategy not in ("cdi", "mounts"):
        raise SettingsError(f"TESSERA_DEVICE_LIST_STRATEGY={strategy}: cdi or mounts")
    nvidia_smi = env.get("TESSERA_NVIDIA_SMI", "false")
    if nvidia_smi not in ("true", "false"):
        raise SettingsError(f"TESSERA_NVIDIA_SMI={nvidia_smi}: true or false")
    port = env.get("TESSERA_HEALTH_PORT", "8081")
    if not port.isdecimal() or not 0 <= int(port) < 65536:
        raise SettingsError(f"TESSERA_HEALTH_PORT={port}: not a port")
    seconds: dict[str, float] = {}
    for name, field in (
        ("TESSERA_LISTED_WITHIN_SECONDS", "listed_within_s"),
        ("TESSERA_LEAVE_SECONDS", "leave_s"),
    ):
        if text := env.get(name):
            try:
                seconds[field] = float(text)
            except ValueError as err:
                raise SettingsError(f"{name}={text}: not a number of seconds") from err
    if not 0 <= seconds.get("leave_s", LEAVE_S) <= LEAVE_S:  # NaN neither
        raise SettingsError(f"TESSERA_LEAVE_SECONDS={seconds['leave_s']}: not 0 to {LEAVE_S:g}")
    return Settings(
        hcas=_hcas(env),
        node_name=env["NODE_NAME"],
        pod_name=env["POD_NAME"],
        namespace=env.get("POD_NAMESPACE", "tessera-system"),
        run_dir=Path(env.get("TESSERA_RUN_DIR", "/run/tessera")),
        kubelet_dir=Path(env.get("KUBELET_DIR", "/var/lib/kubelet")),
        cdi_dir=Path(env.get("CDI_DIR", "/var/run/cdi")),
        pod_logs_dir=Path(env.get("POD_LOGS_DIR", "/var/log/pods")),
        libraries_dir=Path(env.get("TESSERA_LIBRARIES_DIR", "/var/lib/tessera/lib")),
        resource_prefix=env.get("TESSERA_RESOURCE_PREFIX", "gpu.tessera.dev"),
        use_cdi=strategy == "cdi",
        nvidia_smi=nvidia_smi == "true",
        budget=env.get("TESSERA_NODE_BUDGET") or "0",
        health_port=int(port),
        metrics=env.get("TESSERA_METRICS", "") == "true",
        dra=env.get("TESSERA_DRA", "") == "true",
        dra_extended=env.get("TESSERA_DRA_EXTENDED_RESOURCES", "") == "true",
        **seconds,
    )


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """What the exporter is told: whose figures, where they come from, where it listens."""

    node_name: str
    socket: Path = Path("/run/tessera/telemetry/gpud.sock")
    port: int = 9400


def exporter_from_environment(environment: Mapping[str, str] | None = None) -> ExporterSettings:
    """Read the exporter's settings.

    Raises:
        SettingsError: one is missing or is not what it should be.
    """
    env = os.environ if environment is None else environment
    if not env.get("NODE_NAME"):
        raise SettingsError("NODE_NAME is not set: the DaemonSet takes it from spec.nodeName")
    port = env.get("TESSERA_EXPORTER_PORT", "9400")
    if not port.isdecimal() or not 0 <= int(port) < 65536:
        raise SettingsError(f"TESSERA_EXPORTER_PORT={port}: not a port")
    socket = env.get("TESSERA_TELEMETRY_SOCKET", "/run/tessera/telemetry/gpud.sock")
    return ExporterSettings(env["NODE_NAME"], Path(socket), int(port))


def _hcas(env: Mapping[str, str]) -> Hcas:
    values = []
    for name, default, most in (
        ("TESSERA_HCAS", "0", 8),
        ("TESSERA_FUNCTIONS_PER_HCA", "0", 64),
        ("TESSERA_HCA_GBPS", "100", 1600),
    ):
        text = env.get(name, default)
        if not text.isdecimal() or int(text) > most:
            raise SettingsError(f"{name}={text}: not a number up to {most}")
        values.append(int(text))
    return Hcas(*values)
