"""Sources of ``libnvidia-ml.so.1``: the NVIDIA management library (NVML)."""
