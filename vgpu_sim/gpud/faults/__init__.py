"""Faults of GPUs: Xids, ECC counts, health of GPUs and instances, injection for tests."""
