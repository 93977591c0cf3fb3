"""What ``tessera run`` gives the fabric that it joins."""

import os

import pytest

from vgpu_sim.cli import run_hca


@pytest.mark.parametrize(("pages", "memory_bytes"), [(4096, 8 << 20), (1, 2048), (3, 6144)])
def test_a_function_may_register_half_of_the_machines_memory(
    monkeypatch: pytest.MonkeyPatch, pages: int, memory_bytes: int
) -> None:
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": pages}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    made: list[tuple[object, ...]] = []
    monkeypatch.setattr(run_hca, "FabricMember", lambda *given: made.append(given))
    run_hca.member("lab", "00", {"a": "b"}, (), None, gso=True, bytes_per_second=7)
    ((_, *given),) = made
    assert given == ["lab", "00", memory_bytes, {"a": "b"}, (), None, True, 7]
