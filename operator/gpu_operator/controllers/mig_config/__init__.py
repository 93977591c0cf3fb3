"""Nodes that request a configuration of MIG by a label, as with the MIG manager."""
