"""Answers of driver, runtime and NVML, recorded on any GPU and compared (docs/silicon.md)."""
