"""Administration of gpud: parse requests and build the inventory document."""

SOCKET_NAME = "gpud.sock"
