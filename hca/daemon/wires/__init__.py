"""Wires: the sockets by which queue pairs reach other nodes, and their multicast groups."""
