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

# On a node: prefixes, other than our own, by which it has offered slices and lists resources yet.
RESOURCE_PREFIXES: Final = f"{GROUP}/resource-prefixes"

# On a GPU: the UID of the Node object that it was last made for.
NODE_UID: Final = f"{GROUP}/node-uid"

# On a GPUPolicy that the chart asks for: the values that it was last asked for.
CHART_VALUES: Final = f"{GROUP}/chart-values"

# On a GPU, written together with spec.instances.
CHANGED_AT: Final = f"{GROUP}/changed-at"  # when the change began: a layout's deadline counts on
LAST_APPLIED: Final = f"{GROUP}/last-applied"  # the instances before it: what a rollback restores
ROLLED_BACK: Final = f"{GROUP}/rolled-back"  # uid/generation of the layout that did not get there
ROLLED_BACK_WHY: Final = f"{GROUP}/rolled-back-why"  # what was not done, and who was in the way
