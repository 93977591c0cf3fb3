"""Slice sockets: who may connect, what a HELLO says, and the answers."""
