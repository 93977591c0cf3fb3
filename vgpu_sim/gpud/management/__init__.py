"""Answers to NVML: inventory records, who may see them, and changes of instances."""
