"""A fleet of nodes on a bare API server: the cost of the operator and the node agents at scale."""
