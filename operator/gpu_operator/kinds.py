"""Every kind of object that the operator deals with, one row each.

Whatever has to know all kinds is made from this table: the client's paths, the store, the watches,
what a change wakes, the check after an installation and the clean-up before an uninstallation. A
kind of our own needs besides its row: a definition in ``api.v1alpha1.crd``, from which its models
and plural come, the field of ``World`` that the row names, and a controller.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from gpu_operator.api.v1alpha1 import GROUP, MIG_CONFIG_NODE, POOL_LABEL, VERSION, crd, rdma
from gpu_operator.api.v1alpha1.base import Model, Status

POLICY_NAME: Final = "default"  # the one GPUPolicy that counts

Named = Mapping[str, Callable[[Any], str | None]]
"""For each kind: how to read the name of one object of it from a value of another kind."""


class Uninstall(Enum):
    """What the clean-up before an uninstallation does with the objects of a kind."""

    KEEP = auto()  # the chart's own, or not ours
    DELETE = auto()  # and wait until they are gone
    AWAIT = auto()  # another object's deletion takes them along


@dataclass(frozen=True, slots=True)
class Models:
    """What the objects of one of our own kinds are read as."""

    spec: type[Model]
    status: type[Status]


@dataclass(frozen=True, slots=True)
class Kind:
    """One row.

    ``collection`` is the field of ``World`` that holds the objects by name. ``wakes`` lists kinds
    of which every object is looked at again when one of this kind changes. ``rendered`` objects are
    applied at each look at them, so the worker skips what it has applied already.
    """

    name: str
    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = False
    subresources: tuple[str, ...] = ()  # that are written, beside status
    models: Models | None = None
    watched: bool = False
    reflected: bool = False  # followed by a loop with reflectors of its own, with kopf or without
    many: bool = False  # as many as nodes, or more: ``engine.watch`` follows them without kopf
    label: str = ""  # only objects that carry it are watched
    collection: str = ""
    reconciled: bool = False
    rendered: bool = False
    always: tuple[str, ...] = ()  # names that are looked at even if there is no such object
    wakes: tuple[str, ...] = ()
    wakes_named: Named = field(default_factory=dict)  # objects that the changed one names
    woken_by: Named = field(default_factory=dict)  # objects whose change wakes those that name them
    survived_by: Named = field(default_factory=dict)  # objects looked at while one names them
    on_uninstall: Uninstall = Uninstall.KEEP

    @property
    def api_version(self) -> str:
        """Return the ``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version


def ours(definition: crd.Kind, **facts: Any) -> Kind:
    """Return the row of a kind that we define: watched, and reconciled."""
    assert issubclass(definition.spec, Model)
    assert issubclass(definition.status, Status)
    return Kind(
        definition.kind,
        definition.plural,
        GROUP,
        VERSION,
        models=Models(definition.spec, definition.status),
        watched=True,
        reconciled=True,
        **facts,
    )


def ours_of_rdma(definition: crd.Kind) -> Kind:
    """Return the row of a kind of ``rdma.tessera.dev``: the store and kopf know nothing of it.

    What users wrote outlives an installation; tables go with the chart's ClusterRole, their owner.
    """
    return Kind(
        definition.kind,
        definition.plural,
        rdma.GROUP,
        rdma.VERSION,
        namespaced=definition.namespaced,
        reflected=True,
    )


def _defined(kind: str) -> crd.Kind:
    return next(definition for definition in crd.KINDS if definition.kind == kind)


KINDS: tuple[Kind, ...] = (
    ours(
        _defined("GPUPool"),
        collection="pools",
        wakes=("GPUPool", "MIGLayout", "GPUPolicy"),
        on_uninstall=Uninstall.DELETE,
    ),
    ours(
        _defined("GPU"),
        many=True,
        collection="gpus",
        wakes=("GPUPool", "MIGLayout", "GPUFault"),
        wakes_named={"Node": lambda gpu: gpu.spec.node_name},
        woken_by={"MIGLayout": lambda gpu: gpu.spec.layout},
        survived_by={"GPUPool": lambda gpu: gpu.spec.pool},
        on_uninstall=Uninstall.AWAIT,
    ),
    ours(
        _defined("MIGLayout"),
        collection="layouts",
        wakes=("GPUPool", "MIGLayout"),
        wakes_named={"Node": lambda layout: layout.meta.labels.get(MIG_CONFIG_NODE)},
        survived_by={"Node": lambda layout: layout.meta.labels.get(MIG_CONFIG_NODE)},
        on_uninstall=Uninstall.DELETE,
    ),
    ours(
        _defined("GPUPolicy"),
        collection="policies",
        rendered=True,
        always=(POLICY_NAME,),
        wakes=("GPUPool", "GPUPolicy"),
    ),
    ours(
        _defined("GPUFault"),
        collection="faults",
        wakes=("GPU",),
        on_uninstall=Uninstall.DELETE,
    ),
    ours_of_rdma(_defined("RDMANetwork")),
    ours_of_rdma(_defined("RDMANetworkPolicy")),
    ours_of_rdma(_defined("RDMANodeTables")),
    Kind(
        "Node",
        "nodes",
        watched=True,
        reflected=True,
        many=True,
        collection="nodes",
        reconciled=True,
        wakes=("GPUPool", "MIGLayout"),
        survived_by={"GPUPool": lambda node: node.labels.get(POOL_LABEL)},
    ),
    Kind(
        "DaemonSet",
        "daemonsets",
        "apps",
        namespaced=True,
        watched=True,
        label=POOL_LABEL,
        collection="daemon_sets",
        rendered=True,
        wakes=("GPUPool", "GPUPolicy"),
        survived_by={"GPUPool": lambda agents: agents.pool},
    ),
    Kind(
        "Pod",
        "pods",
        namespaced=True,
        subresources=("eviction",),
        watched=True,
        reflected=True,
        many=True,
        label=POOL_LABEL,
        wakes=("GPUPool",),
    ),
    Kind(  # of the operator's namespace: configurations that nodes name by a label
        "ConfigMap",
        "configmaps",
        namespaced=True,
        watched=True,
        collection="mig_configs",
        wakes=("Node",),
    ),
    Kind("ClusterRole", "clusterroles", "rbac.authorization.k8s.io"),
    Kind("Deployment", "deployments", "apps", namespaced=True),
    Kind("Event", "events", namespaced=True),
    Kind("Lease", "leases", "coordination.k8s.io", namespaced=True, reflected=True),
    Kind("Namespace", "namespaces", reflected=True),
    Kind("DeviceClass", "deviceclasses", "resource.k8s.io", reflected=True),
    Kind("ResourceClaim", "resourceclaims", "resource.k8s.io", namespaced=True, reflected=True),
)


def named(name: str) -> Kind:
    """Return the row of a kind. Raises KeyError for one that is not in the table."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise KeyError(f"{name} is no kind that the operator deals with")


def of_ours() -> Iterator[Kind]:
    """Yield the kinds that we define, in the order of the table."""
    return (kind for kind in KINDS if kind.group in (GROUP, rdma.GROUP))


def watched() -> Iterator[Kind]:
    """Yield the kinds that are watched, in the order of the table."""
    return (kind for kind in KINDS if kind.watched)
