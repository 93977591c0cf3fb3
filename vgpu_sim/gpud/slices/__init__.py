"""Slice sockets: access control, HELLO messages, and their answers."""

SOCKET_NAME = "s.sock"
