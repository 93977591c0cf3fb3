"""Wires: the sockets through which queue pairs reach other nodes, and their multicast groups."""
