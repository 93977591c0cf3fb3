"""Clusters and nodes in memory, as the operator and the agent observe them."""
