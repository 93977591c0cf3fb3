"""Labels, readiness, strategies and extended resources of a node."""
