"""What NVML is answered: records of the inventory, who may see them, and what may be changed."""
