"""The kinds of Kubernetes objects that are compiled to tables."""

from typing import Final

POLICY_KIND: Final = "RDMANetworkPolicy"
NETWORK_KIND: Final = "RDMANetwork"
