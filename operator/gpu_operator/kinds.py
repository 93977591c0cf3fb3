"""The table of all kinds of objects that the operator uses.

Code that needs all kinds reads this table: the client's paths, the store, the watches, the
routing of changes, the check after an installation and the cleanup before an uninstallation. A
new custom resource needs a row here, a definition in ``api.v1alpha1.crd`` (with its models and
plural), the field of ``World`` that the row names, and a controller.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from gpu_operator.api.v1alpha1 import GROUP, MIG_CONFIG_NODE, POOL_LABEL, VERSION, crd, rdma
from gpu_operator.api.v1alpha1.base import Model, Status

POLICY_NAME: Final = "default"  # the only GPUPolicy that has an effect
PAGE: Final = 500
"""Objects in one response to a list, of kinds of which few are large."""

Named = Mapping[str, Callable[[Any], str | None]]
"""By kind: a function that reads the name of an object of that kind from one of the row."""


class Uninstall(Enum):
    """What happens to the objects of a kind in the cleanup before an uninstallation."""

    KEEP = auto()  # the chart's objects, or objects of others
    DELETE = auto()  # delete them and wait until they are gone
    AWAIT = auto()  # the deletion of another object removes them


@dataclass(frozen=True, slots=True)
class Models:
    """The pydantic models of the spec and of the status of a custom resource."""

    spec: type[Model]
    status: type[Status]


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of ``KINDS``: what the operator needs to know about one kind of objects.

    ``collection`` is the field of ``World`` that holds the objects by name. ``wakes`` lists
    other kinds: if an object of this kind changes, every object of those kinds is reconciled
    again. ``rendered`` objects are applied in each reconciliation, so the worker skips those
    that are up to date.
    """

    name: str
    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = False
    subresources: tuple[str, ...] = ()  # subresources that are written, besides status
    models: Models | None = None
    watched: bool = False
    reflected: bool = (
        False  # a loop with its own reflectors watches the kind, in addition to kopf or without it
    )
    many: bool = (
        False  # at least as many objects as nodes: ``engine.watch`` watches them without kopf
    )
    page: int = PAGE
    label: str = ""  # only objects with this label are watched
    collection: str = ""
    reconciled: bool = False
    rendered: bool = False
    always: tuple[str, ...] = ()  # names that are reconciled even if no such object exists
    wakes: tuple[str, ...] = ()
    wakes_named: Named = field(default_factory=dict)  # objects that the changed one names
    woken_by: Named = field(default_factory=dict)  # objects whose change wakes those that name them
    # objects that are reconciled while another object names them
    survived_by: Named = field(default_factory=dict)
    on_uninstall: Uninstall = Uninstall.KEEP

    @property
    def api_version(self) -> str:
        """Return the ``apiVersion`` of the kind's objects."""
        return f"{self.group}/{self.version}" if self.group else self.version


def make_kind(definition: crd.Kind, **facts: Any) -> Kind:
    """Return the row of ``KINDS`` for a kind of ``gpu.tessera.dev``.

    Such kinds are watched and reconciled. ``facts`` are further fields of the row.
    """
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


def make_rdma_kind(definition: crd.Kind, page: int) -> Kind:
    """Return the row of ``KINDS`` for a kind of ``rdma.tessera.dev``.

    All its objects may be as large as etcd stores them: a page of five that are is 40 MB in memory,
    and of twenty tables, which are one text each, too.

    Neither the store nor kopf watches these kinds. Objects that users created outlive an
    installation. Tables are deleted together with their owner, the chart's ClusterRole.
    """
    return Kind(
        definition.kind,
        definition.plural,
        rdma.GROUP,
        rdma.VERSION,
        namespaced=definition.namespaced,
        reflected=True,
        page=page,
    )


def _definition(kind: str) -> crd.Kind:
    return next(definition for definition in crd.KINDS if definition.kind == kind)


KINDS: tuple[Kind, ...] = (
    make_kind(
        _definition("GPUPool"),
        collection="pools",
        wakes=("GPUPool", "MIGLayout", "GPUPolicy"),
        on_uninstall=Uninstall.DELETE,
    ),
    make_kind(
        _definition("GPU"),
        many=True,
        collection="gpus",
        wakes=("GPUPool", "MIGLayout", "GPUFault"),
        wakes_named={"Node": lambda gpu: gpu.spec.node_name},
        woken_by={"MIGLayout": lambda gpu: gpu.spec.layout},
        survived_by={"GPUPool": lambda gpu: gpu.spec.pool},
        on_uninstall=Uninstall.AWAIT,
    ),
    make_kind(
        _definition("MIGLayout"),
        collection="layouts",
        wakes=("GPUPool", "MIGLayout"),
        wakes_named={"Node": lambda layout: layout.meta.labels.get(MIG_CONFIG_NODE)},
        survived_by={"Node": lambda layout: layout.meta.labels.get(MIG_CONFIG_NODE)},
        on_uninstall=Uninstall.DELETE,
    ),
    make_kind(
        _definition("GPUPolicy"),
        collection="policies",
        rendered=True,
        always=(POLICY_NAME,),
        wakes=("GPUPool", "GPUPolicy"),
    ),
    make_kind(
        _definition("GPUFault"),
        collection="faults",
        wakes=("GPU",),
        on_uninstall=Uninstall.DELETE,
    ),
    make_rdma_kind(_definition("RDMANetwork"), page=5),
    make_rdma_kind(_definition("RDMANetworkPolicy"), page=5),
    make_rdma_kind(_definition("RDMANodeTables"), page=20),
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
    Kind(  # in the operator's namespace: configurations that nodes select by a label
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
    Kind("PodDisruptionBudget", "poddisruptionbudgets", "policy", namespaced=True),
    Kind("Lease", "leases", "coordination.k8s.io", namespaced=True, reflected=True),
    Kind("Namespace", "namespaces", reflected=True),
    Kind("DeviceClass", "deviceclasses", "resource.k8s.io", reflected=True),
    Kind("ResourceClaim", "resourceclaims", "resource.k8s.io", namespaced=True, reflected=True),
)


def find_kind(name: str) -> Kind:
    """Return the row of ``KINDS`` for a kind. Raises KeyError if there is no such row."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise KeyError(f"the operator does not use the kind {name}")


def own_kinds() -> Iterator[Kind]:
    """Yield the kinds that Tessera defines, in the order of ``KINDS``."""
    return (kind for kind in KINDS if kind.group in (GROUP, rdma.GROUP))


def watched_kinds() -> Iterator[Kind]:
    """Yield the watched kinds, in the order of ``KINDS``."""
    return (kind for kind in KINDS if kind.watched)
