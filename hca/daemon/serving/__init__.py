"""Servers of hcad, for one fabric or for a node: their sockets, handover and sandbox."""
