"""Landlock: restricts access to an explicit list of folders (landlock(7))."""

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vgpu_sim.system import calls

_CREATE_RULESET_VERSION: Final = 1
_RULE_PATH_BENEATH: Final = 1

_EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << i for i in range(6))
MAKE_DIR: Final = 1 << 7
MAKE_REG: Final = 1 << 8
MAKE_SOCK: Final = 1 << 9
MAKE_SYM: Final = 1 << 12
TRUNCATE: Final = 1 << 14
# Rights by version of the interface; a kernel rejects rights that it does not know.
_ALL_RIGHTS: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_ALL_RIGHTS_NEWEST: Final = (1 << 16) - 1
_NETWORK_RIGHTS: Final = 3  # bind and connect TCP, from version 4
_SCOPES: Final = 3  # abstract sockets and signals, from version 6
# Create, read, change and remove files of a folder.
FILES: Final = WRITE_FILE | READ_FILE | READ_DIR | REMOVE_FILE | MAKE_REG | TRUNCATE


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def restrict_to(allowed: Mapping[Path, int]) -> None:
    """Deny all file access that ``allowed`` does not permit; requires no_new_privs. ``allowed``
    maps each folder to the rights that stay permitted beneath it.

    Raises:
        OSError: the kernel has no Landlock, Landlock is turned off, or a folder does not exist.
    """
    version = calls.syscall(calls.SYS_LANDLOCK_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    rights = _ALL_RIGHTS.get(version, _ALL_RIGHTS_NEWEST)
    ruleset = _Ruleset(
        rights,
        _NETWORK_RIGHTS if version >= 4 else 0,
        _SCOPES if version >= 6 else 0,
    )
    # Older kernels reject a longer structure unless the bytes that they do not know are zero.
    descriptor = calls.syscall(
        calls.SYS_LANDLOCK_CREATE_RULESET, ctypes.byref(ruleset), ctypes.sizeof(ruleset), 0
    )
    try:
        for directory, requested_rights in allowed.items():
            _allow(descriptor, directory, requested_rights & rights)
        calls.syscall(calls.SYS_LANDLOCK_RESTRICT_SELF, descriptor, 0)
    finally:
        os.close(descriptor)


def _allow(ruleset: int, directory: Path, rights: int) -> None:
    parent = os.open(directory, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        rule = _PathBeneath(rights, parent)
        calls.syscall(
            calls.SYS_LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0
        )
    finally:
        os.close(parent)
