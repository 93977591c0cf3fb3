"""Membership of ``tessera run`` in a fabric."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from vgpu_sim.cli.clients import fabric
from vgpu_sim.cli.clients.fabric import FabricFailed, FabricMember
from vgpu_sim.cli.run import run_hca


@pytest.mark.parametrize(("pages", "memory_bytes"), [(4096, 8 << 20), (1, 2048), (3, 6144)])
def test_a_function_may_register_half_of_the_machines_memory(
    monkeypatch: pytest.MonkeyPatch, pages: int, memory_bytes: int
) -> None:
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": pages}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    members: list[tuple[object, ...]] = []

    def record(_parents: object, name: str, token_hex: str, **options: object) -> None:
        members.append((name, token_hex, options))

    monkeypatch.setattr(run_hca, "FabricMember", record)
    run_hca.member("lab", "00", {"a": "b"}, (), None, gso=True, bytes_per_second=7)
    options = {
        "memory_bytes": memory_bytes,
        "labels": {"a": "b"},
        "policies": (),
        "wire": None,
        "segment": True,
        "bytes_per_second": 7,
    }
    assert members == [("lab", "00", options)]


class Member(FabricMember):
    """A member whose hcad is the test's socket; the first ``there_after`` attempts find none."""

    def __init__(self, folder: Path, there_after: int) -> None:
        super().__init__((folder,), "lab", "00", 0)
        self.started = 0
        self.its, self._hcad = socket.socketpair()
        self._there_after = there_after

    def _join(self) -> Any:
        self._there_after -= 1
        if self._there_after >= 0:
            return None
        self._link = self._hcad
        return "a device"

    def _start(self) -> None:
        self.started += 1

    def _introduce(self, device: object) -> None:
        raise FabricFailed(f"{device} is not to be")

    def has_hung_up(self) -> bool:
        """True if the connection is closed."""
        self.its.setblocking(False)
        try:
            return self.its.recv(1) == b""
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Close both ends."""
        self.its.close()
        self._hcad.close()


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Record the descriptors of taken locks."""
    taken: list[int] = []

    def lock_folder(_: Path) -> int:
        taken.append(os.open(tmp_path, os.O_RDONLY))
        return taken[-1]

    monkeypatch.setattr(fabric, "_folder", lambda _: tmp_path)
    monkeypatch.setattr(fabric, "_lock", lock_folder)
    yield taken
    for one in taken:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(one)  # the next member waits for the lock


@pytest.mark.parametrize(("there_after", "started"), [(0, 0), (1, 1), (2, 1)])
def test_a_member_that_cannot_be_introduced_leaves_nothing(
    tmp_path: Path, lock: list[int], there_after: int, started: int
) -> None:
    """hcad is started once if none answers; if none answers afterwards, an error is reported."""
    member = Member(tmp_path, there_after)
    statuses = "does not answer" if there_after == 2 else "a device is not to be"
    with pytest.raises(FabricFailed, match=statuses):
        member.__enter__()
    assert (member.started, len(lock)) == (started, 1)
    assert member.has_hung_up() == (there_after < 2)
    member.close()


def test_a_member_that_leaves_hangs_up(tmp_path: Path) -> None:
    member = Member(tmp_path, 0)
    member.__exit__(None, None, None)  # it never joined
    assert not member.has_hung_up()
    assert cast("object", member._join()) == "a device"
    assert not member.has_hung_up()
    member.__exit__(None, None, None)
    assert member.has_hung_up()
    member.close()
