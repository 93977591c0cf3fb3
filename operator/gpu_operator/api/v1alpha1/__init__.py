"""``gpu.tessera.dev/v1alpha1``: models, and the CRDs that are generated from them."""

from typing import Final

GROUP: Final = "gpu.tessera.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

NODE_LABEL: Final = f"{GROUP}/node"  # on a GPU: the node it belongs to
POOL_LABEL: Final = f"{GROUP}/pool"  # on a node and on a GPU: the pool that holds it
INDEX_LABEL: Final = f"{GROUP}/index"  # on a GPU: its index on the node
FINALIZER: Final = f"{GROUP}/finalizer"

HCA_RESOURCE: Final = "rdma.tessera.dev/hca"  # a function of an RDMA adapter

# On a node, by a person: who gives its GPUs to pods, other than its pool says.
ALLOCATION_LABEL: Final = "tessera.dev/allocation"

# On a node: prefixes, other than our own, by which it has offered slices and lists resources yet.
RESOURCE_PREFIXES: Final = f"{GROUP}/resource-prefixes"

# On a GPU: the UID of the Node object that it was last made for.
NODE_UID: Final = f"{GROUP}/node-uid"

# On a node: the keys of the taints that we put there; and one of them.
TAINTS: Final = f"{GROUP}/taints"
NOT_READY_TAINT: Final = f"{GROUP}/not-ready"

# On a MIGLayout that a node's label mig.config asks for: that node. On a node: what became of it.
MIG_CONFIG_NODE: Final = f"{GROUP}/mig-config-node"
MIG_CONFIG: Final = f"{GROUP}/mig-config"

# On a GPUPolicy that the chart asks for: the values that it was last asked for.
CHART_VALUES: Final = f"{GROUP}/chart-values"

# On the operator's Lease: the configuration by which its holder has reconciled everything once, and
# that holder's name.
CONFIGURATION: Final = f"{GROUP}/configuration"

# On a GPU, written together with spec.instances.
CHANGED_AT: Final = f"{GROUP}/changed-at"  # when the change began: a layout's deadline counts on
LAST_APPLIED: Final = f"{GROUP}/last-applied"  # the instances before it: what a rollback restores
WAS_SPARE: Final = f"{GROUP}/was-spare"  # it was a whole GPU that nobody had asked for or held
ROLLED_BACK: Final = f"{GROUP}/rolled-back"  # uid/generation of the layout that did not get there
ROLLED_BACK_WHY: Final = f"{GROUP}/rolled-back-why"  # what was not done, and who was in the way
