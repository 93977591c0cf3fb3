"""Implementations of ``hal.compute.ports``: one module per backend."""
