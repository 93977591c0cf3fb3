"""Names of the files in /dev that stand in for NVIDIA's device nodes (ADR 148).

Each is an empty regular file that can only be read. Programs find that it exists, and ``ioctl``
on it fails with ENOTTY: there is no driver behind it.
"""

from typing import Final

NAMES: Final = ("nvidiactl", "nvidia0")
EMPTY: Final = "no-device"  # the empty file that is mounted under these names into containers
MODE: Final = 0o444
