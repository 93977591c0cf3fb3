"""``gpu.tessera.dev/v1alpha1``: the models from which the CRDs are generated."""

from typing import Final

GROUP: Final = "gpu.tessera.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

NODE_LABEL: Final = f"{GROUP}/node"  # on a GPU: the node it belongs to
POOL_LABEL: Final = f"{GROUP}/pool"  # on a node and on a GPU: the pool that it belongs to
INDEX_LABEL: Final = f"{GROUP}/index"  # on a GPU: its index on the node
FINALIZER: Final = f"{GROUP}/finalizer"

HCA_RESOURCE: Final = "rdma.tessera.dev/hca"  # a function of an RDMA adapter

# On a node, set by a user: the allocation that overrides the pool's.
ALLOCATION_LABEL: Final = "tessera.dev/allocation"

# On a node: prefixes other than Tessera's own for which the node still lists resources.
RESOURCE_PREFIXES: Final = f"{GROUP}/resource-prefixes"

# On a GPU: the UID of the Node object for which the operator last wrote it.
NODE_UID: Final = f"{GROUP}/node-uid"

# On a node: the keys of the taints that the operator has set. NOT_READY_TAINT is one of them.
TAINTS: Final = f"{GROUP}/taints"
NOT_READY_TAINT: Final = f"{GROUP}/not-ready"

# On a MIGLayout that the operator made for a node's label mig.config: the node's name. On a node:
# the state of that configuration.
MIG_CONFIG_NODE: Final = f"{GROUP}/mig-config-node"
MIG_CONFIG: Final = f"{GROUP}/mig-config"

# On the GPUPolicy that the chart defines: the values of its last version.
CHART_VALUES: Final = f"{GROUP}/chart-values"

# On the operator's Lease: the configuration under which the holder has reconciled every object
# once, and the holder's name.
CONFIGURATION: Final = f"{GROUP}/configuration"

# On a GPU, written together with spec.instances.
CHANGED_AT: Final = (
    f"{GROUP}/changed-at"  # when the change began; a layout's deadline counts from here
)
LAST_APPLIED: Final = (
    f"{GROUP}/last-applied"  # the instances before the change, which a rollback restores
)
# before the change it was an unused whole GPU that no layout had requested
WAS_SPARE: Final = f"{GROUP}/was-spare"
ROLLED_BACK: Final = (
    f"{GROUP}/rolled-back"  # uid/generation of the layout whose change was rolled back
)
ROLLED_BACK_WHY: Final = (
    f"{GROUP}/rolled-back-why"  # what remained to be done, and which pods or claims blocked it
)
