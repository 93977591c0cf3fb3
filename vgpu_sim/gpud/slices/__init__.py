"""Slice sockets: access control, HELLO messages, and their answers."""
