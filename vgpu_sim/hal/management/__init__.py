"""Contract of administrators: gpud's inventory, and what NVML requests."""
