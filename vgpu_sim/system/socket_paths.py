"""The limit of the paths of UNIX sockets."""

from typing import Final

MAX_PATH_BYTES: Final = 107  # sizeof(sockaddr_un.sun_path) - 1
