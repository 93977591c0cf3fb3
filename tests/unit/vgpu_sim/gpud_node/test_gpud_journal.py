"""The journal survives restarts completely, and a damaged one is moved aside, never dropped."""

import dataclasses
import json
import os

import pytest

from facts.document import GpuFacts
from mig.geometry import board
from vgpu_sim.gpud.devices import journal
from vgpu_sim.gpud.devices.journal import NodeState
from vgpu_sim.gpud.errors import JournalError
from vgpu_sim.gpud.model import (
    ClaimShare,
    Gpu,
    MigInstance,
    new_gpu_uuid,
    new_instance_uuid,
)


def a_state() -> NodeState:
    gpu = Gpu(new_gpu_uuid(), 3, "h100-80gb")
    profile = board("h100-80gb").profile("1g.10gb+me")
    instance = MigInstance(new_instance_uuid(), gpu, profile, 6, slot=4, admit=False)
    return NodeState((gpu,), (instance,), 123456)


def test_what_was_saved_is_loaded(tmp_path):
    state = a_state()
    journal.save(tmp_path, state)
    assert journal.load(tmp_path) == state
    assert (tmp_path / journal.FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == [journal.FILE_NAME]


def test_what_an_instance_was_made_for_is_kept_and_a_layouts_is_written_as_before(tmp_path):
    state = a_state()
    (plain,) = journal.encode(state)["instances"]
    assert not {"owner", "owner_name"} & plain.keys()
    (instance,) = state.instances
    claim = "claim:33333333-3333-4333-8333-333333333333"
    claimed = dataclasses.replace(instance, owner=claim, owner_name="team/job")
    journal.save(tmp_path, dataclasses.replace(state, instances=(claimed,)))
    assert journal.load(tmp_path).instances == (claimed,)


CLAIM, OTHER = (f"claim:{digit * 8}-3333-4333-8333-333333333333" for digit in "34")


def a_share(**changed) -> dict:
    return {
        "owner": CLAIM,
        "owner_name": "team/job",
        "memory_bytes": 1 << 30,
        "admit": True,
    } | changed


def test_shares_of_claims_are_kept(tmp_path):
    state = a_state()
    (instance,) = state.instances
    shares = (ClaimShare(CLAIM, "team/job", 1 << 30), ClaimShare(OTHER, "team/b", 5, admit=False))
    shared = dataclasses.replace(instance, shares=shares)
    journal.save(tmp_path, dataclasses.replace(state, instances=(shared,)))
    assert journal.load(tmp_path).instances == (shared,)


def test_no_journal_is_an_empty_node(tmp_path):
    assert journal.load(tmp_path) == NodeState()


def test_a_crash_while_writing_leaves_the_old_journal(tmp_path, monkeypatch):
    state = a_state()
    journal.save(tmp_path, state)

    def power_cut(descriptor: int) -> None:
        raise OSError("power cut")

    monkeypatch.setattr(os, "fsync", power_cut)
    with pytest.raises(OSError, match="power cut"):
        journal.save(tmp_path, NodeState())
    assert journal.load(tmp_path) == state


def damage(change) -> dict:
    document = journal.encode(a_state())
    change(document)
    return document


DAMAGES = {
    "version": lambda d: d.update(version=2),
    "unknown field": lambda d: d.update(extra=1),
    "missing field": lambda d: d.pop("gpus"),
    "budget": lambda d: d.update(budget_bytes=-1),
    "bool for a number": lambda d: d["instances"][0].update(start=True),
    "an owner without a name": lambda d: d["instances"][0].update(owner="claim:x"),
    "an owner that is none": lambda d: d["instances"][0].update(owner="x", owner_name="team/job"),
    "a share without owner": lambda d: d["instances"][0].update(
        shares=[a_share(owner="", owner_name="")]
    ),
    "a share without memory": lambda d: d["instances"][0].update(shares=[a_share(memory_bytes=0)]),
    "more shares than memory": lambda d: d["instances"][0].update(
        shares=[a_share(memory_bytes=6 << 30), a_share(owner=OTHER, memory_bytes=6 << 30)]
    ),
    "two shares of one claim": lambda d: d["instances"][0].update(shares=[a_share(), a_share()]),
    "shares beside an owner": lambda d: d["instances"][0].update(
        shares=[a_share()], owner=OTHER, owner_name="team/b"
    ),
    "a slice with its gpu's uuid": lambda d: d["instances"][0].update(uuid=d["gpus"][0]["uuid"]),
    "a whole gpu with a slice's uuid": lambda d: d["instances"][0].update(profile="whole", start=0),
    "unknown board": lambda d: d["gpus"][0].update(board="h9000"),
    "index beyond the aperture": lambda d: d["gpus"][0].update(index=8),
    "unknown profile": lambda d: d["instances"][0].update(profile="9g.1gb"),
    "illegal start": lambda d: d["instances"][0].update(start=7),
    "path in a uuid": lambda d: d["instances"][0].update(uuid="MIG-../../etc"),
    "foreign gpu": lambda d: d["instances"][0].update(gpu_uuid=new_gpu_uuid()),
    "two gpus with one uuid": lambda d: d["gpus"].append(d["gpus"][0] | {"index": 4}),
    "two gpus with one index": lambda d: d["gpus"].append(d["gpus"][0] | {"uuid": new_gpu_uuid()}),
    "two in one place": lambda d: d["instances"].append(
        d["instances"][0] | {"uuid": new_instance_uuid(), "slot": 5}
    ),
    "two with one slot": lambda d: d["instances"].append(
        d["instances"][0] | {"uuid": new_instance_uuid(), "profile": "1g.10gb", "start": 0}
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_journal_is_put_aside_and_named(tmp_path, name):
    text = json.dumps(damage(DAMAGES[name]))
    (tmp_path / journal.FILE_NAME).write_text(text)
    with pytest.raises(JournalError, match=r"gpud\.json\.corrupt-1"):
        journal.load(tmp_path)
    assert (tmp_path / "gpud.json.corrupt-1").read_text() == text
    assert journal.load(tmp_path) == NodeState()


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"null", b"[1]"])
def test_garbage_is_put_aside(tmp_path, data):
    (tmp_path / journal.FILE_NAME).write_bytes(data)
    with pytest.raises(JournalError, match="moved to"):
        journal.load(tmp_path)


def test_a_second_corrupt_journal_does_not_overwrite_the_first(tmp_path):
    for text in ("one", "two"):
        (tmp_path / journal.FILE_NAME).write_text(text)
        with pytest.raises(JournalError):
            journal.load(tmp_path)
    assert (tmp_path / "gpud.json.corrupt-1").read_text() == "one"
    assert (tmp_path / "gpud.json.corrupt-2").read_text() == "two"


def test_a_gpu_instance_without_a_compute_instance_is_one_after_a_restart(tmp_path):
    state = a_state()
    bare = dataclasses.replace(state.instances[0], compute=False)
    journal.save(tmp_path, NodeState(state.gpus, (bare,)))
    assert journal.load(tmp_path).instances == (bare,)
    assert (bare.ci_id, state.instances[0].ci_id) == (-1, 0)


def test_a_topology_is_kept_and_a_node_without_one_is_written_as_before(tmp_path):
    plain, placed = (
        NodeState((Gpu(new_gpu_uuid(), 3, "h100-80gb", GpuFacts(name)),), (), 0)
        for name in ("flat", "dgx-h100")
    )
    assert "topology" not in journal.encode(plain)["gpus"][0]
    assert journal.decode(journal.encode(placed)) == placed
    assert journal.decode(journal.encode(plain)) == plain
    unknown = journal.encode(placed)
    unknown["gpus"][0]["topology"] = "dgx-h1"
    with pytest.raises(ValueError, match="no topology 'dgx-h1'"):
        journal.decode(unknown)
