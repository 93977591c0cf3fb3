"""``rdma.tessera.dev/v1alpha1``: models of RDMA networks and policies.

The operator parses users' specs with ``rdma.reading.manifests``, which is strict. The models
here define what ``kubectl explain`` prints and the API server validates, and what is written to
statuses.
"""

from typing import Final

from rdma.reading.manifests import GROUP as GROUP, HCA_RESOURCE as HCA_RESOURCE

VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

LEASE_LABEL: Final = f"{GROUP}/heartbeat"  # on a Lease: the node whose agent renews it
LEASE_PREFIX: Final = "tessera-rdma-"  # of a Lease's name, before the node's
