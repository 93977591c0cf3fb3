"""The limits of one sharer of a slice."""

import dataclasses
from pathlib import Path

import pytest

from support.rigs import a30_slice
from vgpu_sim.gpud.errors import JournalError
from vgpu_sim.gpud.limits.budget import CONTEXT_SHARED_BYTES, Budget
from vgpu_sim.gpud.limits.sharing import Kind, Sharing, SharingTable
from vgpu_sim.gpud.model import ClaimShare

INSTANCE = a30_slice.make()
WHOLE = INSTANCE.profile.memory_bytes


def sharing_table(kind: Kind, replicas: int) -> SharingTable:
    table = SharingTable()
    table.replace({INSTANCE.uuid: Sharing(kind, replicas)})
    return table


def test_mps_gives_each_pod_its_part_of_memory_whatever_its_contexts() -> None:
    budget = Budget(1 << 60, client_bytes=sharing_table(Kind.MPS, 4).client_bytes)
    first, second = (budget.open(INSTANCE, client="one") for _ in range(2))
    others = budget.open(INSTANCE, client="two")
    part = WHOLE // 4
    assert budget.possible_grant(first).total_bytes == part
    assert budget.reserve(first, part - 100).granted
    assert not budget.reserve(second, 101).granted
    assert budget.reserve(second, 100).granted
    assert budget.reserve(others, part).granted
    budget.close(first)
    assert budget.possible_grant(second).free_bytes == part - 100


def test_what_a_sharer_keeps_of_ended_contexts_is_of_its_own_part() -> None:
    """Otherwise a sharer could use its part repeatedly, by ending workers and keeping their chunks
    mapped.
    """
    part, resident = WHOLE // 4, [0]
    table = sharing_table(Kind.MPS, 4)
    budget = Budget(1 << 60, lambda _: resident[0], table.client_bytes)
    greedy, calm = budget.open(INSTANCE, client="greedy"), budget.open(INSTANCE, client="calm")
    assert budget.reserve(greedy, part).granted
    assert budget.reserve(calm, part // 2).granted
    resident[0] = part + part // 2 + 2 * CONTEXT_SHARED_BYTES
    budget.close(greedy)
    again = budget.open(INSTANCE, client="greedy")
    assert not budget.reserve(again, part // 2).granted
    assert budget.reserve(calm, part // 2).granted, "what others keep is not of its part"
    resident[0] += part // 2
    budget.close(calm)
    calm = budget.open(INSTANCE, client="calm")
    assert not budget.reserve(calm, 2 * CONTEXT_SHARED_BYTES).granted
    resident[0] = 0
    assert budget.reserve(again, part).granted, "it has let go"
    assert budget.reserve(calm, part).granted


def test_time_slicing_serves_memory_first_come_first_served() -> None:
    budget = Budget(1 << 60, client_bytes=sharing_table(Kind.TIME_SLICING, 4).client_bytes)
    one, two = (budget.open(INSTANCE, client=name) for name in ("one", "two"))
    assert budget.reserve(one, WHOLE - 1).granted
    assert not budget.reserve(two, 2).granted


def test_parts_of_multiprocessors_threads_and_contexts() -> None:
    mps, slices = sharing_table(Kind.MPS, 4), sharing_table(Kind.TIME_SLICING, 4)
    count = INSTANCE.profile.sm_count
    assert (mps.multiprocessors(INSTANCE), slices.multiprocessors(INSTANCE)) == (count // 4, count)
    assert [mps.threads(INSTANCE, n) for n in (1, 4, 8)] == [1, 1, 2]
    # With two each, two cores would be idle.
    assert sharing_table(Kind.MPS, 3).threads(INSTANCE, 8) == 3
    assert slices.threads(INSTANCE, 8) == 8
    assert mps.contexts(INSTANCE, 64) == slices.contexts(INSTANCE, 64) == 16
    stranger = SharingTable()
    assert stranger.contexts(INSTANCE, 64) == 64
    assert stranger.client_bytes(INSTANCE) == WHOLE


def test_with_mps_a_client_may_ask_for_less_multiprocessors_and_never_for_more() -> None:
    """CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: of the whole device, limited by the server's setting."""
    mps, count = sharing_table(Kind.MPS, 2), INSTANCE.profile.sm_count
    assert count == 14
    requested = {0: 7, 1: 1, 25_000: 4, 50_000: 7, 50_001: 7, 100_000: 7}
    assert {share: mps.multiprocessors(INSTANCE, share) for share in requested} == requested
    assert [mps.threads(INSTANCE, 16, share) for share in (0, 1, 25_000, 90_000)] == [8, 1, 4, 8]
    for others in (sharing_table(Kind.TIME_SLICING, 2), SharingTable()):
        assert others.multiprocessors(INSTANCE, 25_000) == count  # only clients of MPS read it
        assert others.threads(INSTANCE, 16, 25_000) == 16


def test_what_is_shared_stays_so_over_a_restart(tmp_path: Path) -> None:
    """Clients that connect before the agent reports the sharing again would get the whole slice."""
    SharingTable(tmp_path).replace({INSTANCE.uuid: Sharing(Kind.MPS, 4)})
    later = SharingTable(tmp_path)
    assert later.of(INSTANCE.uuid) == Sharing(Kind.MPS, 4)
    later.replace({})
    assert SharingTable(tmp_path).of(INSTANCE.uuid) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 2, "shares": {}}',
        '{"version": 1, "shares": []}',
        '{"version": 1, "shares": {"x": {"kind": "mps", "replicas": 4}}}',
        '{"version": 1, "shares": {"UUID": {"kind": "mps", "replicas": 1}}}',
        '{"version": 1, "shares": {"UUID": {"kind": "mps", "replicas": true}}}',
        '{"version": 1, "shares": {"UUID": {"kind": "all", "replicas": 4}}}',
    ],
)
def test_a_file_that_does_not_say_it_is_put_aside(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sharing.json"
    path.write_text(text.replace("UUID", INSTANCE.uuid))
    with pytest.raises(JournalError, match="moved to"):
        SharingTable(tmp_path)
    assert not path.exists()
    assert SharingTable(tmp_path).of(INSTANCE.uuid) is None


def test_a_claim_s_share_bounds_its_clients_whatever_they_are() -> None:
    """Memory is limited by the share, contexts in proportion; multiprocessors are used in turns.
    Other clients are not limited.
    """
    shares = (
        ClaimShare("claim:a", "team/a", WHOLE // 4),
        ClaimShare("claim:b", "team/b", WHOLE // 2),
    )
    instance = dataclasses.replace(INSTANCE, shares=shares)
    table = SharingTable()
    assert [table.client_bytes(instance, one.owner) for one in shares] == [WHOLE // 4, WHOLE // 2]
    assert [table.contexts(instance, 64, one.owner) for one in shares] == [16, 32]
    assert table.multiprocessors(instance) == instance.sm_count
    budget = Budget(1 << 60, client_bytes=table.client_bytes)
    first, second, other = (budget.open(instance, client=f"claim:{c}") for c in "aab")
    assert budget.reserve(first, WHOLE // 8).granted
    assert budget.reserve(second, WHOLE // 8).granted
    refused = budget.reserve(second, 1)
    assert (refused.granted, refused.free_bytes, refused.total_bytes) == (False, 0, WHOLE // 4)
    assert budget.reserve(other, WHOLE // 2).granted
    assert budget.client_used_bytes(instance.uuid, "claim:a") == WHOLE // 4
