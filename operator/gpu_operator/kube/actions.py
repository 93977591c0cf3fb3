"""What may be done to the cluster, as values. Controllers return them, a ``Kube`` performs them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Manager(StrEnum):
    """Field managers of server-side apply, one for each concern."""

    LABELS = "tessera-labels"  # on nodes
    RESOURCES = "tessera-resources"  # on nodes: by which prefixes slices were offered
    CHILDREN = "tessera-children"  # DaemonSets and GPUs
    LAYOUT = "tessera-layout"  # spec.instances of GPUs
    FAULTS = "tessera-faults"  # spec.faults of GPUs
    STATUS = "tessera-status"  # of pools, layouts and policies
    POLICY = "tessera-chart"  # the policy that the chart asks for
    FINALIZER = "tessera-finalizer"  # of pools
    TABLES = "tessera-rdma"  # RDMANodeTables
    CONDITIONS = "tessera-conditions"  # on nodes: GPUReady
    MIG_CONFIG = "tessera-mig-manager"  # layouts that nodes' labels ask for, and those nodes' state


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply. With a uid in ``metadata`` it never creates: it is a conflict then."""

    manager: Manager
    document: Mapping[str, Any]
    status: bool = False

    @property
    def what(self) -> str:
        return f"{self.document['kind']} {self.document['metadata']['name']}"


@dataclass(frozen=True, slots=True)
class DropFinalizer:
    """Take our finalizer off an object, whoever put it there.

    Server-side apply would leave it where another manager owns it too, as in an object that was
    restored from a backup. ``index`` is its place; if it is elsewhere by now, it is a conflict.
    """

    kind: str
    name: str
    uid: str
    index: int

    @property
    def what(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object; one that is gone is not an error."""

    kind: str
    name: str
    namespace: str | None = None

    @property
    def what(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a pod through the Eviction API, which honours PodDisruptionBudgets.

    One that has ended is left alone: it holds nothing, and would be lost with its logs.
    """

    namespace: str
    name: str
    uid: str

    @property
    def what(self) -> str:
        return f"Pod {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Annotate:
    """Set one annotation of a pod; of one that is gone, or is another by now, nothing is asked."""

    namespace: str
    name: str
    uid: str
    key: str
    value: str

    @property
    def what(self) -> str:
        return f"Pod {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PatchNode:
    """A JSON patch of a node, or of its status; a failed ``test`` in it is a conflict."""

    name: str
    operations: tuple[Mapping[str, Any], ...]
    status: bool = False

    @property
    def what(self) -> str:
        return f"Node {self.name}"


@dataclass(frozen=True, slots=True)
class SetTaints:
    """Put taints (key, value) of effect NoSchedule on a node, and take others off by their keys.

    A node's taints are one list that has no owner of its parts, so it is read, changed and written
    as a whole, and only if nobody else has written the node meanwhile: that is a conflict.
    ``noted`` are the keys that are ours then, for the annotation that remembers them.
    """

    name: str
    uid: str
    add: tuple[tuple[str, str], ...]
    remove: tuple[str, ...]
    noted: tuple[str, ...]

    @property
    def what(self) -> str:
        return f"Node {self.name}"


@dataclass(frozen=True, slots=True)
class Record:
    """An event on an object of ours. ``warning``: something that a person may have to act upon.

    ``namespace`` is the object's; events on cluster-scoped ones belong into "default". ``latest``:
    an object has one event of this reason, and a later message takes the place of the earlier.
    """

    kind: str
    name: str
    uid: str
    reason: str
    message: str
    warning: bool = False
    namespace: str = "default"
    latest: bool = False

    @property
    def what(self) -> str:
        return f"event {self.reason} on {self.kind} {self.name}"


Action = Apply | DropFinalizer | Delete | Evict | Annotate | PatchNode | SetTaints | Record
