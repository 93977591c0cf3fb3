"""The operator's configuration: a file that the chart writes, and the pod's identity.

No other module of this package reads the environment.
"""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from gpu_operator.errors import ConfigError


class _Section(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


_XIDS = r"^$|^[ ]*([0-9]{1,4}|all|xids)[ ]*(,[ ]*([0-9]{1,4}|all|xids)[ ]*)*$"


class HealthChecksConfig(_Section):
    """The chart's ``gpud.healthChecks`` values: lists in the format of NVIDIA's device plugin."""

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
    """Whether DeviceClasses also serve extended resources."""
    trigger_kubelets: bool = Field(default=False, alias="nudgePods")
    """Whether the operator may annotate pods whose claims the kubelet has yet to prepare."""


class MigManagerConfig(_Section):
    """The chart's ``migManager`` values: how nodes with the label ``mig.config`` are handled."""

    enabled: bool = True
    config_map: str = "tessera-default-mig-parted-config"
    """ConfigMap in the operator's namespace, in mig-parted's format."""
    default: str = ""
    """Configuration for nodes without the label; empty: none, their layouts stay."""
    on_in_use: Literal["Wait", "Evict"] = "Wait"
    deadline_seconds: int = Field(default=600, ge=1)


class TaintsConfig(_Section):
    """The chart's ``nodeTaints`` values: taints that keep pods off nodes of pools."""

    not_ready: bool = False
    """Whether to set ``gpu.tessera.dev/not-ready`` while a node does not serve its GPUs."""
    present: bool = False
    """Whether to set ``<prefix>/gpu=present``, as is common for node groups with GPUs."""


class NodeConfig(_Section):
    """Settings for the pods on GPU nodes."""

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
    """Nodes of a pool whose pods are replaced at the same time: a number, or a percentage."""

    @field_validator("max_unavailable")
    @classmethod
    def _parse_number(cls, value: int | str) -> int | str:
        """Accept "1" as the number, as Helm's ``--set-string`` and other charts write it."""
        return int(value) if isinstance(value, str) and value.isdecimal() else value


class LeaderElectionConfig(_Section):
    """The chart's ``operator.leaderElection`` values; the defaults are client-go's."""

    lease_duration_seconds: int = Field(default=15, ge=5)
    renew_deadline_seconds: int = Field(default=10, ge=2)
    retry_period_seconds: int = Field(default=2, ge=1)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        """Refuse times with which a leader could lose the Lease without an attempt to renew it, or
        write after another candidate has got it.
        """
        times = self.lease_duration_seconds, self.renew_deadline_seconds, self.retry_period_seconds
        if not times[0] > times[1] > times[2]:
            raise ValueError(
                "leaseDurationSeconds must be greater than renewDeadlineSeconds, and that greater"
                " than retryPeriodSeconds"
            )
        return self


class Config(_Section):
    """The operator's configuration file."""

    node: NodeConfig
    policy: dict[str, Any] | None = None
    """Spec of the GPUPolicy named default, which the operator maintains; null: it is not
    managed.
    """
    mig_manager: MigManagerConfig = MigManagerConfig()
    owner_cluster_role: str = ""
    """ClusterRole that owns the policy and the Lease, so that uninstalling the chart deletes
    them.
    """
    lease_name: str = "tessera-operator"
    leader_election: LeaderElectionConfig = LeaderElectionConfig()
    resync_seconds: int = Field(default=60, ge=5)
    health_port: int = 8080
    metrics: bool = True
    log_level: str = "INFO"


class Identity(_Section):
    """Identity of this process."""

    namespace: str
    pod_name: str
    configuration: str = ""
    """The chart's identifier of its configuration; it changes with the image and the values."""


def load(environment: Mapping[str, str] | None = None) -> tuple[Config, Identity]:
    """Read the file named by TESSERA_OPERATOR_CONFIG, and the pod's identity from the environment.

    Raises:
        ConfigError: the file is missing or invalid; the message names the field.
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
    return config, read_identity(env)


def read_identity(environment: Mapping[str, str] | None = None) -> Identity:
    """Read the pod's namespace and name; outside of a pod the name is the host's name."""
    env = os.environ if environment is None else environment
    return Identity(
        namespace=env.get("POD_NAMESPACE", "tessera-system"),
        pod_name=env.get("POD_NAME", socket.gethostname()),
        configuration=env.get("TESSERA_CONFIGURATION", ""),
    )
