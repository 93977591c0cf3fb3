"""System calls of hcad and netd for their sandboxes, in order, with the bits of landlock.h.

Integration tests check their effect, on a kernel of one version.
"""

import errno
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hca.binding.wire import NoWire
from hca.daemon import __main__ as hcad_main
from hca.daemon.netd import netd_sandbox
from hca.daemon.serving import sandbox

WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(1, 6))
MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_SYM, TRUNCATE = 1 << 7, 1 << 8, 1 << 9, 1 << 12, 1 << 14
FILES = WRITE_FILE | READ_FILE | READ_DIR | REMOVE_FILE | MAKE_REG | TRUNCATE
FOLDER = Path("/run/tessera/fabric")
INFINITE = resource.RLIM_INFINITY


class System:
    """Record system calls in their order; those in ``lacks`` are not available."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.lacks: set[str] = set()
        names = ("drop_bounding_set", "drop_capabilities", "forbid_new_privileges")
        for name in (*names, "hide_from_ptrace"):
            monkeypatch.setattr(module.identity, name, self.recorder(name))
        monkeypatch.setattr(module.landlock, "restrict_to", self.recorder("landlock"))

    def recorder(self, name: str) -> Callable[..., None]:
        def call(*arguments: Any, **more: Any) -> None:
            self.calls.append((name, *arguments, *more.items()))
            if name in self.lacks:
                raise OSError(errno.ENOSYS, "not there")

        return call

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    made = System(monkeypatch, sandbox)
    monkeypatch.setattr(sandbox.calls_filter, "install", made.recorder("filter"))
    return made


PRIVILEGES = ["drop_bounding_set", "drop_capabilities", "forbid_new_privileges", "hide_from_ptrace"]


@pytest.mark.parametrize("wired", [False, True])
def test_a_fabric_has_its_folder_and_removes_it_from_the_one_above(
    system: System, wired: bool
) -> None:
    level = sandbox.enter(FOLDER, wired=wired)
    assert system.names() == [*PRIVILEGES, "landlock", "filter"]
    own = FILES | MAKE_DIR | REMOVE_DIR
    assert system.calls[4] == ("landlock", {FOLDER: own, FOLDER.parent: REMOVE_DIR})
    assert system.calls[5] == ("filter", ("node", False), ("wired", wired))
    assert level == sandbox.Level(landlock=True, seccomp=True)


def test_a_node_reads_of_proc_and_of_classes_and_makes_sockets_and_links(system: System) -> None:
    level = sandbox.enter_on_node(FOLDER)
    assert system.names() == [*PRIVILEGES, "landlock", "filter"]
    own = FILES | MAKE_DIR | REMOVE_DIR | MAKE_SOCK | MAKE_SYM
    allowed = {FOLDER: own, Path("/proc"): READ_FILE, Path("/sys/class"): READ_DIR}
    assert system.calls[4] == ("landlock", allowed)
    assert system.calls[5] == ("filter", ("node", True), ("wired", False))
    assert level == sandbox.Level(landlock=True, seccomp=True)


@pytest.mark.parametrize("enter", [sandbox.enter, sandbox.enter_on_node])
def test_without_landlock_it_serves_and_without_a_filter_where_that_is_allowed(
    system: System, enter: Callable[..., sandbox.Level]
) -> None:
    system.lacks = {"landlock"}
    assert enter(FOLDER) == sandbox.Level(landlock=False, seccomp=True)
    system.lacks = {"filter"}
    with pytest.raises(OSError, match="no filter of system calls: not there") as refused:
        enter(FOLDER)
    assert refused.value.errno == errno.ENOSYS
    assert enter(FOLDER, weak=True) == sandbox.Level(landlock=True, seccomp=False)
    system.lacks = {"landlock", "filter"}
    assert enter(FOLDER, weak=True) == sandbox.Level(landlock=False, seccomp=False)
    system.lacks = {"drop_capabilities"}
    with pytest.raises(OSError, match="not there"):
        enter(FOLDER, weak=True)


@pytest.mark.parametrize(
    ("hard", "descriptors", "memory"),
    [
        (INFINITE, 65536, 1 << 30),
        (65537, 65536, 65537),
        (65535, 65535, 65535),
        (1 << 40, 65536, 1 << 30),
    ],
)
def test_limits_are_set_for_good_and_never_raised(
    monkeypatch: pytest.MonkeyPatch, hard: int, descriptors: int, memory: int
) -> None:
    now = dict.fromkeys(range(16), (7, hard))
    stacks: list[int] = []
    monkeypatch.setattr(sandbox.resource, "getrlimit", now.__getitem__)
    monkeypatch.setattr(sandbox.resource, "setrlimit", now.__setitem__)
    monkeypatch.setattr(sandbox.threading, "stack_size", stacks.append)
    assert sandbox.set_resource_limits() == descriptors
    assert {kind: both for kind, both in now.items() if both != (7, hard)} == {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_MEMLOCK: (0, 0),
        resource.RLIMIT_DATA: (memory, memory),
        resource.RLIMIT_NOFILE: (descriptors, descriptors),
    }
    assert stacks == [1 << 20]


def test_netd_reads_of_proc_alone_and_never_serves_without_its_filter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system = System(monkeypatch, netd_sandbox)
    monkeypatch.setattr(netd_sandbox.filters, "apply", system.recorder("filter"))
    netd_sandbox.enter()
    privileges = ["drop_bounding_set", "forbid_new_privileges", "hide_from_ptrace"]
    assert system.names() == [*privileges, "landlock", "filter"]
    assert system.calls[3:] == [
        ("landlock", {Path("/proc"): READ_FILE}),
        ("filter", netd_sandbox.program()),
    ]
    system.lacks = {"landlock"}
    netd_sandbox.enter()
    assert system.names()[-1] == "filter"
    system.lacks = {"filter"}
    with pytest.raises(OSError, match="no filter of system calls: not there"):
        netd_sandbox.enter()


@pytest.mark.parametrize("raised", [NoWire("no interface eth7"), OSError(errno.EACCES, "refused")])
def test_a_fabric_that_cannot_be_served_ends_with_a_line_and_a_status(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, raised: Exception
) -> None:
    """It ends before the sandbox, limits or an engine: nothing of this process is changed."""

    def find(wanted: str) -> None:
        assert wanted == "eth7"
        raise raised

    monkeypatch.setattr(hcad_main, "find", find)
    monkeypatch.setattr(hcad_main.foreign, "prepare_waking", lambda: None)
    monkeypatch.setattr(hcad_main.logging, "basicConfig", lambda **more: None)
    arguments = ["--directory", str(tmp_path), "--ready-fd", "9", "--memory", "1"]
    done = CliRunner().invoke(hcad_main.main, [*arguments, "--wire", "eth7"])
    assert (done.exit_code, done.output) == (1, f"hcad: {raised}\n")
