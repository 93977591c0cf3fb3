"""The rights that each version of Landlock restricts, by the kernel's own names (landlock.h).

Versions differ in the rights that they know: a missing bit leaves a right unrestricted, an extra
bit is an error that leaves all of them unrestricted. This machine's kernel has only one version.
"""

import ctypes
import os
from pathlib import Path

import pytest

from vgpu_sim.system import calls, landlock

# LANDLOCK_ACCESS_FS_* in the order of their bits, each with the first version that knows it.
RIGHTS = {
    **dict.fromkeys(("execute", "write_file", "read_file", "read_dir", "remove_dir"), 1),
    **dict.fromkeys(("remove_file", "make_char", "make_dir", "make_reg", "make_sock"), 1),
    **dict.fromkeys(("make_fifo", "make_block", "make_sym"), 1),
    "refer": 2,
    "truncate": 3,
    "ioctl_dev": 5,
}
OF_THE_CACHE = {"write_file", "read_file", "read_dir", "remove_file", "make_reg", "truncate"}
NETWORK = {"bind_tcp", "connect_tcp"}  # LANDLOCK_ACCESS_NET_*, from version 4
SCOPES = {"abstract_unix_socket", "signal"}  # LANDLOCK_SCOPE_*, from version 6


class Kernel:
    """Answers like a kernel with one version; its ruleset is an open file."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.handled: tuple[int, ...] = ()
        self.rules: list[tuple[int, str]] = []
        self.restricted = False
        self.ruleset = -1

    def syscall(self, number: int, *arguments: object) -> int:
        if number == calls.SYS_LANDLOCK_CREATE_RULESET:
            structure, size, flags = arguments
            if flags == 1:
                assert (structure, size) == (None, 0)
                return self.version
            assert (flags, size) == (0, 24)
            self.handled = tuple(memory_of(structure, size).cast("Q"))
            self.ruleset = os.memfd_create("ruleset")
            return self.ruleset
        assert arguments[0] == self.ruleset
        if number == calls.SYS_LANDLOCK_ADD_RULE:
            _, kind, structure, flags = arguments
            assert (kind, flags) == (1, 0)  # LANDLOCK_RULE_PATH_BENEATH
            rule = memory_of(structure, 12)
            (allowed,) = rule[:8].cast("Q")
            (parent,) = rule[8:].cast("i")
            self.rules.append((allowed, os.readlink(f"/proc/self/fd/{parent}")))
        else:
            assert (number, arguments[1]) == (calls.SYS_LANDLOCK_RESTRICT_SELF, 0)
            self.restricted = True
        return 0


def memory_of(reference: object, size: object) -> memoryview:
    structure = reference._obj  # type: ignore[attr-defined]
    assert ctypes.sizeof(structure) == size
    return memoryview(bytes(structure))


def names(bits: int) -> set[str]:
    assert bits < 1 << len(RIGHTS)
    return {name for bit, name in enumerate(RIGHTS) if bits >> bit & 1}


@pytest.mark.parametrize("version", range(1, 8))
@pytest.mark.parametrize("with_cache", [True, False])
def test_all_that_a_version_knows_is_taken_and_the_cache_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: int, with_cache: bool
) -> None:
    kernel = Kernel(version)
    monkeypatch.setattr(calls, "syscall", kernel.syscall)
    before = os.listdir("/proc/self/fd")
    landlock.restrict_to({tmp_path: landlock.FILES} if with_cache else {})
    known = {name for name, since in RIGHTS.items() if since <= version}
    files, network, scopes = kernel.handled
    assert names(files) == known
    assert network == (2 ** len(NETWORK) - 1 if version >= 4 else 0)
    assert scopes == (2 ** len(SCOPES) - 1 if version >= 6 else 0)
    rules = [(names(allowed), path) for allowed, path in kernel.rules]
    assert rules == ([(OF_THE_CACHE & known, str(tmp_path))] if with_cache else [])
    assert kernel.restricted
    assert len(os.listdir("/proc/self/fd")) == len(before)
