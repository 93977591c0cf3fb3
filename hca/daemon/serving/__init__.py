"""Servers of hcad: of one fabric and of a node; their sockets, handover and confinement."""
