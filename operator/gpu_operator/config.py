"""The operator's configuration: a file that the chart writes, and the pod's own identity.

The only reader of the environment in this package.
"""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.alias_generators import to_camel

from gpu_operator.errors import ConfigError


class _Section(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


_XIDS = r"^$|^[ ]*([0-9]{1,4}|all|xids)[ ]*(,[ ]*([0-9]{1,4}|all|xids)[ ]*)*$"


class HealthChecksConfig(_Section):
    """The chart's ``gpud.healthChecks`` values: lists as NVIDIA's device plugin has them."""

    disabled: str = Field(default="", pattern=_XIDS, max_length=1000)
    enabled: str = Field(default="", pattern=_XIDS, max_length=1000)


class GpudConfig(_Section):
    """The chart's ``gpud`` values."""

    backend: str = "jit"
    node_budget: str = "4Gi"
    threads: int | None = None
    allow_weak_sandbox: bool = False
    health_checks: HealthChecksConfig = HealthChecksConfig()
    resources: dict[str, Any] = Field(default_factory=dict)


class DevicePluginConfig(_Section):
    """The chart's ``devicePlugin`` values."""

    kubelet_dir: str = "/var/lib/kubelet"
    metrics: bool = True
    resources: dict[str, Any] = Field(default_factory=dict)


class WireConfig(_Section):
    """The chart's ``rdma.wire`` values."""

    enabled: bool = True
    segments: bool = True
    resources: dict[str, Any] = Field(default_factory=dict)


class RdmaConfig(_Section):
    """The chart's ``rdma`` values."""

    enabled: bool = True
    resources: dict[str, Any] = Field(default_factory=dict)
    wire: WireConfig = WireConfig()


class DraConfig(_Section):
    """The chart's ``dra`` values."""

    enabled: bool = False
    """Whether the cluster has the API (resource.k8s.io/v1) and pools may use it."""
    extended_resources: bool = False
    """Whether DeviceClasses serve extended resources, too."""
    nudge_pods: bool = False
    """Whether the operator may annotate pods whose claims have yet to be prepared."""


class MigManagerConfig(_Section):
    """The chart's ``migManager`` values: what becomes of nodes with the label ``mig.config``."""

    enabled: bool = True
    config_map: str = "tessera-default-mig-parted-config"
    """In the operator's namespace, in mig-parted's format."""
    default: str = ""
    """The configuration of nodes without the label; empty: none, and layouts as they are."""
    on_in_use: Literal["Wait", "Evict"] = "Wait"
    deadline_seconds: int = Field(default=600, ge=1)


class TaintsConfig(_Section):
    """The chart's ``nodeTaints`` values: what keeps pods off nodes of pools."""

    not_ready: bool = False
    """``gpu.tessera.dev/not-ready``, while a node does not serve its GPUs."""
    present: bool = False
    """``<prefix>/gpu=present``, as node groups with GPUs often have it."""


class NodeConfig(_Section):
    """What the pods on GPU nodes are made of."""

    image: str
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[dict[str, str], ...] = ()
    service_account: str
    priority_class_name: str = "system-node-critical"
    tolerations: tuple[dict[str, Any], ...] = ()
    affinity: dict[str, Any] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    pod_annotations: dict[str, str] = Field(default_factory=dict)
    gpud: GpudConfig = GpudConfig()
    device_plugin: DevicePluginConfig = DevicePluginConfig()
    rdma: RdmaConfig = RdmaConfig()
    dra: DraConfig = DraConfig()
    taints: TaintsConfig = TaintsConfig()
    max_unavailable: int | str = 1
    """Nodes of a pool whose pods are replaced at a time: a number, or a percentage."""

    @field_validator("max_unavailable")
    @classmethod
    def _number_where_it_is_one(cls, value: int | str) -> int | str:
        """Read "1", as Helm's ``--set-string`` and other charts have it, as the number."""
        return int(value) if isinstance(value, str) and value.isdecimal() else value


class Config(_Section):
    """The file."""

    node: NodeConfig
    policy: dict[str, Any] | None = None
    """Spec of the GPUPolicy called default, kept as it is here; null: it is left to others."""
    mig_manager: MigManagerConfig = MigManagerConfig()
    owner_cluster_role: str = ""
    """With this ClusterRole, which the chart removes, go the policy and the Lease."""
    lease_name: str = "tessera-operator"
    lease_seconds: int = Field(default=15, ge=5)
    resync_seconds: int = Field(default=60, ge=5)
    health_port: int = 8080
    metrics: bool = True
    log_level: str = "INFO"


class Identity(_Section):
    """Who this process is."""

    namespace: str
    pod_name: str
    configuration: str = ""
    """What the chart calls its configuration: another one with each change of image or values."""


def load(environment: Mapping[str, str] | None = None) -> tuple[Config, Identity]:
    """Read the file that TESSERA_OPERATOR_CONFIG names, and POD_NAMESPACE and POD_NAME.

    Raises:
        ConfigError: the file is missing or wrong; names the field.
    """
    env = os.environ if environment is None else environment
    path = Path(env.get("TESSERA_OPERATOR_CONFIG", "/etc/tessera/operator.yaml"))
    try:
        config = Config.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError) as err:
        raise ConfigError(f"{path}: {err}") from err
    except ValidationError as err:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in err.errors())
        raise ConfigError(f"{path}: {problems}") from err
    return config, identity(env)


def identity(environment: Mapping[str, str] | None = None) -> Identity:
    """Read the namespace and name of this pod; a process outside a pod has its host's name."""
    env = os.environ if environment is None else environment
    return Identity(
        namespace=env.get("POD_NAMESPACE", "tessera-system"),
        pod_name=env.get("POD_NAME", socket.gethostname()),
        configuration=env.get("TESSERA_CONFIGURATION", ""),
    )
