"""Container Device Interface: mounts a slice and the client libraries into a container."""
