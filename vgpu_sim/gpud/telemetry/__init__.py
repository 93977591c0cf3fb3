"""How busy the node's GPUs are, and what their sensors would say of that (docs/metrics.md)."""
