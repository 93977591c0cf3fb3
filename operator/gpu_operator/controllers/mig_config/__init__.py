"""Handles nodes that request a MIG configuration by a label, as with NVIDIA's MIG manager."""
