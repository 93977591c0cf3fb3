"""The permission for tile registers: granted, refused, and requested once."""

import platform
from pathlib import Path
from typing import Any

import pytest

from vgpu_sim.system import calls, tiles

_TILE_DATA = 1 << 18


def _request(monkeypatch: pytest.MonkeyPatch, granted: int, *, refused: bool = False) -> bool:
    """Return what a first request returns if the system call grants these state components."""
    seen = []

    def syscall(number: int, code: int, argument: Any) -> int:
        seen.append(code)
        if refused:
            raise OSError(1, "refused")
        if code == tiles._ARCH_GET_XCOMP_PERM:
            argument._obj.value = granted
        return 0

    monkeypatch.setattr(calls, "syscall", syscall)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    found = tiles.request.__wrapped__()
    assert seen[0] == tiles._ARCH_REQ_XCOMP_PERM
    return bool(found)


def test_the_permission_is_what_the_kernel_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _request(monkeypatch, _TILE_DATA | 0xE7)
    assert not _request(monkeypatch, 0xE7)


def test_a_refused_call_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _request(monkeypatch, _TILE_DATA, refused=True)


def test_other_processors_have_no_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert not tiles.request.__wrapped__()


def test_this_machine_grants_what_it_has() -> None:
    if " amx_tile" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this CPU has no AMX")
    assert tiles.request()
