"""What may be asked of gpud on its own socket: reading requests, and the picture of the node."""

SOCKET_NAME = "gpud.sock"
