"""Private changes of /dev for the program of ``tessera run``.

A device file system takes no files of ordinary users, and the change must not be visible outside.
So another file system is mounted over /dev in the program's own mount namespace.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from vgpu_sim.cli.run import namespaces
from vgpu_sim.cli.run.namespaces import MS_BIND_REC, MS_REMOUNT_READ_ONLY
from vgpu_sim.system import calls, device_files

DEVICES: Final = Path("/dev")
_EXIT_FAILED: Final = 125
_OLD: Final = ".system"


def mount_over(scratch: Path, hidden: str, place: Callable[[Path, Path], None]) -> None:
    """Mount a folder over /dev in this process's mount namespace.

    The folder shows all devices of /dev, except the one named ``hidden``, and what ``place`` adds,
    which is called with the folder and with the folder in it that is the old /dev.

    Raises:
        OSError: a step is not permitted.
    """
    names = [entry.name for entry in DEVICES.iterdir() if entry.name != hidden]
    old_name = _OLD
    while old_name in names:  # /dev is already such a folder
        old_name += "_"
    scratch.mkdir(exist_ok=True)
    calls.mount("none", str(scratch), "tmpfs", 0, "size=64k,mode=0755")
    old = scratch / old_name
    old.mkdir()
    calls.mount(str(DEVICES), str(old), "", MS_BIND_REC)
    for name in names:
        (scratch / name).symlink_to(f"{old_name}/{name}")
    place(scratch, old)
    calls.mount("none", str(scratch), "", MS_REMOUNT_READ_ONLY)
    calls.mount(str(scratch), str(DEVICES), "", MS_BIND_REC)
    calls.unmount_detached(str(scratch))


def file_mounter(scratch: Path) -> Callable[[], None]:
    """Return a function that puts inert device files into the new process's /dev.

    If the mount is not permitted, the function prints a message on stderr and the program does not
    run, because it would take the absence of these files for the absence of a GPU.
    """

    def show() -> None:
        if not namespaces.is_possible(lambda: _mount(scratch), _explain):
            os._exit(_EXIT_FAILED)
        _mount(scratch)

    return show


def _explain(err: OSError) -> str:
    return (
        f"--device-files: {err}: this needs mounts in a user namespace of its own; run it as root,"
        " or have user namespaces enabled (user.max_user_namespaces,"
        " kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
    )


def _mount(scratch: Path) -> None:
    if all((DEVICES / name).exists() for name in device_files.NAMES):
        return  # a machine with NVIDIA's driver
    namespaces.enter()
    mount_over(scratch, "", _place_files)


def _place_files(folder: Path, _old: Path) -> None:
    for name in device_files.NAMES:
        if not (folder / name).is_symlink():
            (folder / name).touch()
            (folder / name).chmod(device_files.MODE)
