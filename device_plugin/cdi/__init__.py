"""Container Device Interface: how a slice and the client library get into a container."""
