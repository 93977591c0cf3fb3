"""``python -m benchmarks.torch``: PyTorch's eager operators on the device against the CPU."""
