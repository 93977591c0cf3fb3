"""The control groups whose memory limits apply to this process: its own and their ancestors."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

PROCESS: Final = Path("/proc/self")
_SEPARATOR: Final = " - "  # between a mount's fields and its file system's
_MEMORY: Final = "memory"


def find_groups(process: Path = PROCESS) -> tuple[Path, ...]:
    """Return the directories of the groups of the memory controller, innermost first.

    Both versions may be mounted at once. Without ``/proc``, or without a mount, there are none.
    """
    with suppress(OSError):
        mounts = process.joinpath("mountinfo").read_text(encoding="utf-8").splitlines()
        groups = process.joinpath("cgroup").read_text(encoding="utf-8").splitlines()
        return tuple(path for mount in mounts for path in _directories(mount, groups))
    return ()


def _directories(mount: str, groups: list[str]) -> Iterator[Path]:
    """Yield the process's group and its ancestors below one mount; nothing for other mounts."""
    mount_fields, _, file_system = mount.partition(_SEPARATOR)
    kind, _, options = file_system.split(" ", 2)
    if kind == "cgroup2":
        controller = ""
    elif kind == "cgroup" and _MEMORY in options.split(","):
        controller = _MEMORY
    else:
        return
    root, mount_point = mount_fields.split()[3:5]
    for group in groups:
        _, controllers, text = group.split(":", 2)
        if controller not in controllers.split(","):
            continue
        path = PurePosixPath(text)
        # A container's own group is the root of its mount, whatever the path outside of it is.
        parts = path.relative_to(root).parts if path.is_relative_to(root) else ()
        if ".." in parts:
            parts = ()
        for depth in range(len(parts), -1, -1):
            yield Path(mount_point, *parts[:depth])
