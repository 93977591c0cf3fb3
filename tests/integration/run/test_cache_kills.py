"""SIGKILL while caches are written and read: later loads get a complete entry, or none.

Runs 20 rounds; ``python tests/support/tools/cache_kills.py 1000`` runs 1,000.
"""

from pathlib import Path

import pytest

from support.tools import cache_kills
from vgpu_sim.exec import own_files
from vgpu_sim.exec.jit.objects import cache


def test_killed_processes_leave_no_wrong_entry(tmp_path: Path) -> None:
    rounds = cache_kills.Rounds(tmp_path)
    rounds.run(20)
    assert not rounds.wrong
    assert rounds.outcomes["hit"] > 0
    held, files = rounds.trim()
    assert held <= cache_kills.MAX_BYTES
    assert files <= cache_kills.MAX_ENTRIES


def test_a_cache_that_writes_in_place_and_trusts_what_it_reads_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = len(cache._head("", b""))

    def load(directory: Path, key: str) -> bytes | None:
        data = own_files.read(directory / f"{key}.object", cache.MAX_ENTRY_BYTES)
        return None if data is None else data[head:]

    def write(path: Path, data: bytes) -> None:
        with path.open("wb") as file:
            for start in range(0, len(data), 4096):
                file.write(data[start : start + 4096])
                file.flush()

    monkeypatch.setattr(cache, "load", load)
    monkeypatch.setattr(own_files, "replace", write)
    rounds = cache_kills.Rounds(tmp_path)
    for _ in range(200):
        rounds.round()
        if rounds.wrong:
            return
    pytest.fail("nothing torn was noticed")
