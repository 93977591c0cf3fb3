"""System calls without a binding in Python, with errors as OSError."""

import ctypes
import os
from typing import Final

# Numbers and constants of linux/prctl.h, linux/sched.h and the x86-64 table.
PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_SECCOMP: Final = 22
PR_CAPBSET_DROP: Final = 24
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
SYS_SCHED_SETATTR: Final = 314
SYS_CAPSET: Final = 126
SYS_PIVOT_ROOT: Final = 155
SYS_LANDLOCK_CREATE_RULESET: Final = 444
SYS_LANDLOCK_ADD_RULE: Final = 445
SYS_LANDLOCK_RESTRICT_SELF: Final = 446

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.mount.argtypes = [
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
]


def syscall(number: int, *arguments: object) -> int:
    """Make a system call; the arguments are ints, bytes, or ctypes objects passed by reference.
    Return the call's result.

    Raises:
        OSError: with the call's errno.
    """
    converted = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    return _check(_libc.syscall(ctypes.c_long(number), *converted), f"syscall {number}")


def prctl(option: int, *arguments: object) -> int:
    """Call prctl(2), with 0 for missing arguments. Return the call's result.

    Raises:
        OSError: with the call's errno.
    """
    padded = [*arguments, *[0] * (4 - len(arguments))]
    converted = [
        ctypes.c_ulong(argument) if isinstance(argument, int) else argument for argument in padded
    ]
    return _check(_libc.prctl(ctypes.c_int(option), *converted), f"prctl {option}")


def unshare(flags: int) -> None:
    """Call unshare(2), which moves the caller into new namespaces.

    Raises:
        OSError: with the call's errno.
    """
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Call mount(2); ``kind`` is the type of the file system.

    Raises:
        OSError: with the call's errno.
    """
    status = _libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode())
    _check(status, f"mount {target}")


def unmount_detached(target: str) -> None:
    """Detach a mount now; it is freed when it is no longer in use (umount2(2), MNT_DETACH).

    Raises:
        OSError: with the call's errno.
    """
    _check(_libc.umount2(target.encode(), ctypes.c_int(2)), f"umount {target}")


def _check(result: int, label: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{label}: {os.strerror(number)}")
    return result
