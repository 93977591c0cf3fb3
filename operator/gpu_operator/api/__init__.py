"""Versioned custom resources; the only package of the operator that the node agent may import."""
