"""Utilisation of the node's GPUs, and their modelled sensors (docs/metrics.md)."""
