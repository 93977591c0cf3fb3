"""The contract with administrators: gpud's inventory, and NVML's requests."""
