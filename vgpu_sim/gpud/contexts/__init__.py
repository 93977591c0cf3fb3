"""Contexts: start their workers, account for them, and adopt those of an earlier gpud."""
