"""Implementations of ``hal.ports``: one module per backend."""
