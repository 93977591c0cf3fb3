"""The connection manager: messages, connections, communication ids, and its packets on wires."""
