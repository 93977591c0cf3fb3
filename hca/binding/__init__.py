"""The Python binding of the engine, and the addresses, links and wire sockets that it needs."""
