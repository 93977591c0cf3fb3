"""Contexts: starting their workers, keeping account of them, finding those of an earlier gpud."""
