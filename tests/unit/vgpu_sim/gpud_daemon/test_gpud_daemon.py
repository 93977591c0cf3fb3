"""The daemon's actions around a slice: its control group exists before it can be used."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from vgpu_sim.gpud.contexts.settings import WorkerSettings
from vgpu_sim.gpud.contexts.zygote import Zygote
from vgpu_sim.gpud.daemon import Daemon
from vgpu_sim.gpud.limits.cgroups.base import Share
from vgpu_sim.gpud.limits.cgroups.none import NoCgroups
from vgpu_sim.gpud.model import InstanceUuid, Owner, new_gpu_uuid
from vgpu_sim.gpud.options import NodeOptions
from vgpu_sim.system.admin_socket.errors import Conflict, RequestError
from vgpu_sim.system.peers import PodUid

GPU = {"uuid": new_gpu_uuid(), "index": 0, "board": "a30"}
WANTED = {"gpu_uuid": GPU["uuid"], "profile": "1g.6gb", "start": 0}


@dataclass(frozen=True)
class Groups(NoCgroups):
    """Records calls; ``refusing``: the kernel refuses to create a group."""

    reason: str = "a test"
    refusing: bool = False
    calls: list[str] = field(default_factory=list)

    def prepare(self, uuid: InstanceUuid, share: Share, contexts: int) -> None:
        if self.refusing:
            raise OSError(28, "No space left on device")
        self.calls.append(f"prepare {uuid} for {contexts} of {share.sm_count} SMs")

    def remove(self, uuid: InstanceUuid) -> None:
        self.calls.append(f"remove {uuid}")


@pytest.fixture
def options() -> Iterator[NodeOptions]:
    """Options of a node with a short path, because the lengths of socket paths are limited."""
    with tempfile.TemporaryDirectory(prefix="g-", dir="/tmp") as name:
        root = Path(name)
        (root / "state").mkdir()
        workers = WorkerSettings(
            backend="jit",
            threads=1,
            capability=None,
            own_uids=False,
            strict_cpu=False,
            cache_root=root / "cache",
            weak_sandbox=True,
        )
        yield NodeOptions(
            run_dir=root,
            state_dir=root / "state",
            libraries_dir=root,
            budget_bytes=1 << 40,
            workers=workers,
        )


def with_daemon(options: NodeOptions, groups: Groups, act: Callable[[Daemon], Any]) -> Any:
    """Run ``act`` on a daemon with one GPU, which is not started, so it has no zygote."""

    async def scenario() -> Any:
        daemon = Daemon(options, groups, Zygote(lambda *_: None))
        await daemon._op_configure({"gpus": [GPU], "budget_bytes": 0})
        try:
            return await act(daemon)
        finally:
            for server in daemon._servers.values():
                await server.close(remove_directory=False)

    return asyncio.run(scenario())


def test_a_slice_that_is_created_has_its_group_and_one_that_is_not_has_none(
    options: NodeOptions,
) -> None:
    groups = Groups()
    made = with_daemon(options, groups, lambda daemon: daemon._op_create_instance(WANTED))
    assert groups.calls == [f"prepare {made['uuid']} for 0 of 14 SMs"]
    groups.calls.clear()
    with_daemon(options, groups, lambda daemon: daemon._op_destroy_instance({"uuid": made["uuid"]}))
    assert groups.calls[-1] == f"remove {made['uuid']}"


def test_a_slice_whose_group_cannot_be_created_is_refused_and_leaves_nothing(
    options: NodeOptions,
) -> None:
    """Without a group its memory would be unlimited."""

    async def creation_fails(daemon: Daemon) -> dict[str, Any]:
        with pytest.raises(RequestError, match=r"cannot serve MIG-.*No space left"):
            await daemon._op_create_instance(WANTED)
        return await daemon._op_inventory({})

    inventory = with_daemon(options, Groups(refusing=True), creation_fails)
    assert inventory["gpus"][0]["instances"] == ()
    assert list(options.slices_dir.iterdir()) == []


POD, ANOTHER = (f"{digit * 8}-1111-4111-8111-111111111111" for digit in "12")


@dataclass
class Running:
    """A context, reduced to its owner."""

    owner: Owner


@pytest.mark.parametrize(
    ("listed", "complete", "fenced"),
    [
        ((POD, ANOTHER), True, []),
        ((POD,), True, [ANOTHER]),
        ((), True, [POD, ANOTHER]),
        (None, True, [POD, ANOTHER]),
        (None, False, []),
    ],
    ids=["both", "one of them", "no pod", "not the slice", "not the slice, and not all are known"],
)
def test_contexts_of_pods_that_hold_the_slice_no_longer_are_fenced(
    options: NodeOptions,
    monkeypatch: pytest.MonkeyPatch,
    listed: tuple[str, ...] | None,
    complete: bool,
    fenced: list[str],
) -> None:
    ended: list[str] = []

    async def act(daemon: Daemon) -> None:
        made = await daemon._op_create_instance(WANTED)
        running = [Running(Owner(PodUid(uid), "team")) for uid in (POD, ANOTHER)]
        monkeypatch.setattr(
            daemon._contexts, "of", lambda uuid: running if uuid == made["uuid"] else []
        )
        monkeypatch.setattr(
            daemon._contexts, "fence", lambda context, _: ended.append(context.owner.pod_uid)
        )
        holders = [{"pod_uid": uid, "namespace": "team", "name": "train"} for uid in listed or ()]
        calls = {} if listed is None else {made["uuid"]: holders}
        await daemon._op_set_holders({"holders": calls, "complete": complete})

    with_daemon(options, Groups(), act)
    assert ended == fenced


def test_admission_is_set_and_kept(options: NodeOptions) -> None:
    async def act(daemon: Daemon) -> list[bool]:
        made = await daemon._op_create_instance(WANTED)
        seen = [made["admit"]]
        for admit in (False, True, False):
            await daemon._op_set_admission({"uuid": made["uuid"], "admit": admit})
            ((instance,),) = [g["instances"] for g in (await daemon._op_inventory({}))["gpus"]]
            seen.append(instance["admit"])
        return seen

    assert with_daemon(options, Groups(), act) == [True, False, True, False]


def test_a_budget_changes_the_groups_of_slices_that_are_there(options: NodeOptions) -> None:
    groups = Groups()

    async def act(daemon: Daemon) -> None:
        await daemon._op_create_instance(WANTED)
        groups.calls.clear()
        await daemon._op_configure({"gpus": [GPU], "budget_bytes": 1 << 30})
        inventory = await daemon._op_inventory({})
        assert inventory["budget"]["total_bytes"] == 1 << 30

    with_daemon(options, groups, act)
    assert len(groups.calls) == 1
    assert groups.calls[0].startswith("prepare MIG-")


def test_a_standalone_gpud_knows_no_pods(options: NodeOptions) -> None:
    alone = replace(options, token=bytes(32))
    with pytest.raises(Conflict, match="no pods"):
        with_daemon(
            alone,
            Groups(),
            lambda daemon: daemon._op_set_holders({"holders": {}, "complete": True}),
        )


def test_a_slice_that_is_lost_is_destroyed_once_the_last_context_on_it_has_ended(
    options: NodeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon waits for the end of all contexts, not for their presence."""
    left = [2, 1, 0]
    found: list[bool] = []

    async def act(daemon: Daemon) -> Any:
        made = await daemon._op_create_instance(WANTED)
        other = await daemon._op_create_instance({**WANTED, "start": 1})

        async def wait_until(condition: Callable[[], bool], within_s: float) -> bool:
            assert within_s > 0
            found.extend(condition() for _ in range(3))
            return True

        def count(uuid: InstanceUuid, sharer: str) -> int:
            assert (uuid, sharer) == (made["uuid"], "")
            return left.pop(0) if left else 0

        monkeypatch.setattr(daemon._holders, "wait_until", wait_until)
        monkeypatch.setattr(daemon._launcher, "count", count)
        await daemon._op_destroy_instance({"uuid": made["uuid"], "evict": True})
        (gpu,) = (await daemon._op_inventory({}))["gpus"]
        return other["uuid"], [one["uuid"] for one in gpu["instances"]]

    other, there = with_daemon(options, Groups(), act)
    assert found == [False, False, True]
    assert there == [other]


def test_health_is_published_of_what_a_fault_hits_and_of_nothing_beside_it(
    options: NodeOptions,
) -> None:
    async def act(daemon: Daemon) -> Any:
        one = (await daemon._op_create_instance(WANTED))["uuid"]
        await daemon._op_create_instance({**WANTED, "start": 1})
        seen: list[tuple[str, str, str]] = []

        def record(event: dict[str, Any]) -> None:
            if event["event"] == "health":
                seen.append((event["gpu"], event["instance"], event["before"]))

        daemon._events.subscribe(record)
        fault = {"gpu_uuid": GPU["uuid"], "kind": "hang", "xid": 0, "count": 1, "duration_ms": 0}
        await daemon._op_inject_fault({**fault, "id": "a", "instance": one})
        of_slice, seen[:] = list(seen), []
        await daemon._op_inject_fault({**fault, "id": "b", "instance": ""})
        daemon._faults.close()
        return one, of_slice, seen

    one, of_slice, of_gpu = with_daemon(options, Groups(), act)
    assert of_slice == [(GPU["uuid"], one, "Healthy")]
    assert of_gpu == [(GPU["uuid"], "", "Healthy")]
