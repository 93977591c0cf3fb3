"""Versioned custom resources. The node agent may import this package and nothing else of ours."""
