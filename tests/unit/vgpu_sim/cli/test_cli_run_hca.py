"""The mounts of ``tessera run --hca`` over /sys/class, call by call, and their namespaces.

``tests/integration/rdma/test_run_hca.py`` makes them on a kernel that permits it.
"""

from pathlib import Path
from typing import Any

import click
import pytest

from vgpu_sim.cli.run import namespaces, run_hca

# linux/mount.h and linux/sched.h
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000


@pytest.fixture
def system_calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """Record system calls; /sys/class has two classes."""
    made: list[tuple[Any, ...]] = []
    for name in ("net", "infiniband", "tty"):
        (tmp_path / "class" / name).mkdir(parents=True)
    (tmp_path / "run" / "infiniband").mkdir(parents=True)
    monkeypatch.setattr(run_hca, "CLASSES", tmp_path / "class")
    for name in ("mount", "unshare", "unmount_detached"):
        monkeypatch.setattr(
            run_hca.calls, name, lambda *arguments, name=name: made.append((name, *arguments))
        )
    return made


def test_other_classes_stay_and_tesseras_are_added(
    system_calls: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    classes, scratch = tmp_path / "class", tmp_path / "run" / "classes"
    sysfs = tmp_path / "run" / "infiniband"
    for _ in range(2):  # a child process tries them first
        system_calls.clear()
        for left in scratch.glob("*"):
            left.rmdir()  # as if the new tmpfs hid them
        run_hca._mount(sysfs, False)
        first, second, tmpfs, *binds, read_only, over, away = system_calls
        assert first == ("unshare", CLONE_NEWNS)
        assert second == ("mount", "none", "/", "", MS_REC | MS_PRIVATE)  # no propagation
        assert tmpfs == ("mount", "none", str(scratch), "tmpfs", 0, "size=64k,mode=0755")
        assert sorted(binds) == sorted(
            ("mount", str(source), str(scratch / name), "", MS_BIND | MS_REC)
            for source, name in (
                (classes / "net", "net"),
                (classes / "tty", "tty"),
                (sysfs, "infiniband"),
            )
        )
        assert read_only == ("mount", "none", str(scratch), "", MS_REMOUNT | MS_RDONLY)
        assert over == ("mount", str(scratch), str(classes), "", MS_BIND | MS_REC)
        assert away == ("unmount_detached", str(scratch))


def test_an_ordinary_user_keeps_its_id_in_the_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments, wrote = [], []

    def unshare(flags: int) -> None:
        arguments.append(flags)
        if flags == CLONE_NEWNS:
            raise PermissionError

    monkeypatch.setattr(namespaces.calls, "unshare", unshare)
    monkeypatch.setattr(namespaces.calls, "mount", lambda *_: None)
    monkeypatch.setattr(namespaces.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(namespaces.os, "getegid", lambda: 2000)
    monkeypatch.setattr(Path, "write_text", lambda path, text: wrote.append((str(path), text)))
    namespaces.enter()
    assert arguments == [CLONE_NEWNS, CLONE_NEWNS | CLONE_NEWUSER]
    assert wrote == [
        ("/proc/self/setgroups", "deny"),
        ("/proc/self/uid_map", "1000 1000 1"),
        ("/proc/self/gid_map", "2000 2000 1"),
    ]


GIVEN = ("hca", "wire", "of_wire", "policies", "named", "system_verbs")


@pytest.mark.parametrize("number", range(1 << len(GIVEN)))
def test_options_are_refused_without_the_one_that_they_need(number: int) -> None:
    given: dict[str, Any] = {name: bool(number >> n & 1) for n, name in enumerate(GIVEN)}
    needing_hca = any(given[one] for one in ("wire", "policies", "named", "system_verbs"))
    if (needing_hca and not given["hca"]) or (given["of_wire"] and not given["wire"]):
        with pytest.raises(click.UsageError, match="need"):
            run_hca.check_options(**given)
    else:
        run_hca.check_options(**given)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        (None, {}),
        ("", {}),
        ("app=x", {"app": "x"}),
        ("app=x,example.org/role=", {"app": "x", "example.org/role": ""}),
        ("app=x,app=y", {"app": "y"}),
        ("app", None),
        ("=x", None),
        ("app=x,", None),
        ("app=x y", None),
        ("app==x", None),
    ],
)
def test_labels_are_those_of_kubernetes(text: str | None, labels: dict[str, str] | None) -> None:
    unused: Any = None
    if labels is None:
        with pytest.raises(click.BadParameter, match="KEY=VALUE"):
            run_hca.parse_labels(unused, unused, text)
    else:
        assert run_hca.parse_labels(unused, unused, text) == labels
