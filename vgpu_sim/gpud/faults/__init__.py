"""GPU faults: Xids, ECC counts, health of GPUs and instances, fault injection for tests."""
