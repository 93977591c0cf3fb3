"""A fleet of nodes on a bare API server: what the operator and the node agents cost at scale."""
