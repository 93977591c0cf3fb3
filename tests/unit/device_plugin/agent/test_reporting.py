"""Status and events: their contents, and how seldom they are written."""

import dataclasses
import datetime
import threading
from functools import partial
from typing import Any

import pytest

from device_plugin.agent import health
from device_plugin.agent.events import describe
from device_plugin.agent.passes import Pulse
from device_plugin.agent.reporting import notices as notices_module, status
from device_plugin.agent.reporting.notices import BURST, REFILL_S, Allowance, Notices
from device_plugin.agent.reporting.reporter import MEMORY_INTERVAL_S, Reporter
from device_plugin.agent.steps import Steps
from device_plugin.errors import ClusterError
from device_plugin.inventory import model
from device_plugin.inventory.model import ClaimShare, Gpu, HolderPod, Inventory, MigSlice
from device_plugin.inventory.resources import Kind, OfferedResources
from device_plugin.kube.client import Kube
from gpu_operator.api.v1alpha1.base import ConditionType, Reason
from mig import geometry
from support.processes.api_server import ApiServer, wait_for
from support.processes.endless import endless
from support.rigs.turned_clock import Clock
from support.worlds.scraped_node import NODE
from vgpu_sim.hal.management import admin

BOARD = geometry.board("h100-80gb")
POD = HolderPod("team", "train", "11111111-1111-4111-8111-111111111111")
SERVED = {"gpu.tessera.dev/mig-1g.10gb"}
HEALTHS = ("Healthy", "Suspect: Xid 94", "Unhealthy: Xid 79")
NAMED = OfferedResources({"MIG-1": "gpu.tessera.dev/mig-1g.10gb"})
SPEC = {"nodeName": "node-1", "index": 0, "board": BOARD.key, "uuid": "GPU-1", "pool": "p"}


def inventory(used_bytes: int) -> Inventory:
    place = geometry.Instance(BOARD.profile("1g.10gb"), 0)
    made = MigSlice("MIG-1", "GPU-1", place, 1, used_bytes, 1, "/run", 0, ())
    gpus = (Gpu("GPU-1", 0, BOARD, "Healthy", (made,)),)
    return Inventory("1", "/lib", 1 << 30, used_bytes, True, "", ("landlock", "seccomp"), gpus)


def test_a_slice_that_a_pod_got_by_the_former_prefix_is_listed_by_it() -> None:
    """The kubelet offers the slice under the new prefix only after that pod has ended."""
    with ApiServer() as api:
        api.put_gpu("gpu-1", SPEC)
        kube = Kube("node-1", api.client())
        reporter = Reporter(kube)
        before, new = "gpu.tessera.dev/mig-1g.10gb", "nvidia.com/mig-1g.10gb"
        for elsewhere, resource in (({"MIG-1": Kind(before, is_share=True)}, before), ({}, new)):
            reporter.report(
                kube.gpus(),
                inventory(0),
                {"GPU-1": Steps()},
                {},
                {new},
                {},
                OfferedResources({"MIG-1": new}),
                elsewhere,
            )
            (listed,) = api.status("gpu-1")["slices"]
            assert listed["resource"] == resource
            assert listed["admitted"] == (resource == new)
            assert listed["shared"] == (resource == before)


@pytest.mark.parametrize(
    ("changes", "degraded", "message"),
    [
        ({}, ("False", "Healthy"), "workers are confined by: landlock, seccomp"),
        (
            {"isolation_enforced": False, "isolation_reason": "no cgroups here"},
            ("False", "IsolationNotEnforced"),
            "limits are bookkeeping only: no cgroups here;"
            " workers are confined by: landlock, seccomp",
        ),
        ({"health": "Unhealthy: fenced"}, ("True", "Unhealthy"), "GPU-1 is Unhealthy: fenced"),
        (
            {"health": "Unhealthy: fenced", "isolation_enforced": False},
            ("True", "Unhealthy"),
            "GPU-1 is Unhealthy: fenced",
        ),
    ],
    ids=["healthy", "not enforced", "unhealthy", "unhealthy comes first"],
)
def test_degraded_reports_unhealthy_devices_and_unenforced_limits(
    changes: dict[str, Any], degraded: tuple[str, str], message: str
) -> None:
    found = inventory(0)
    gpus = (dataclasses.replace(found.gpus[0], health=changes.get("health", "Healthy")),)
    others = {name: value for name, value in changes.items() if name != "health"}
    found = dataclasses.replace(found, gpus=gpus, **others)
    with ApiServer() as api:
        api.put_gpu("gpu-1", SPEC)
        kube = Kube("node-1", api.client())
        Reporter(kube).report(kube.gpus(), found, {"GPU-1": Steps()}, {}, SERVED, {}, NAMED, {})
        conditions = {c["type"]: c for c in api.status("gpu-1")["conditions"]}
        assert (conditions["Degraded"]["status"], conditions["Degraded"]["reason"]) == degraded
        assert conditions["Degraded"]["message"] == message
        assert conditions["Ready"]["status"] == "True"
        assert ("see Degraded" in conditions["Ready"]["message"]) is (degraded[0] == "True")


@pytest.mark.parametrize("rival", ["", "another plugin serves it"])
@pytest.mark.parametrize("unoffered", ["", "none is offered"])
@pytest.mark.parametrize(("gpu", "mig_slice"), [(a, b) for a in HEALTHS for b in HEALTHS])
def test_a_suspect_device_hides_no_reason_why_the_node_does_not_serve_its_gpus(
    gpu: str, mig_slice: str, unoffered: str, rival: str
) -> None:
    """The operator leaves a node whose GPUs are suspect in service."""
    (device,) = inventory(0).gpus
    slices = (dataclasses.replace(device.slices[0], health=mig_slice),)
    device = dataclasses.replace(device, health=gpu, slices=slices)
    states = status._states(device, Steps(), inventory(0), unoffered, rival)
    degraded, reason, message = states[ConditionType.DEGRADED]
    healths = [health.partition(":")[0] for health in (gpu, mig_slice)]
    expected = [
        (Reason.UNHEALTHY, "Unhealthy" in healths),
        (Reason.RESOURCE_CONFLICT, rival),
        (Reason.MIXED_PROFILES, unoffered),
        (Reason.SUSPECT, "Suspect" in healths),
        (Reason.HEALTHY, True),
    ]
    assert reason == next(reason for reason, applies in expected if applies)
    assert degraded is (reason is not Reason.HEALTHY)
    for text in (rival, unoffered, "" if gpu == "Healthy" else gpu):
        assert text in message, "every reason is in the message"


def test_a_gpu_off_the_bus_is_lost_until_it_is_back_or_not_known() -> None:
    found = inventory(0)
    gone = dataclasses.replace(found.gpus[0], is_lost=True)
    with ApiServer() as api:
        api.put_gpu("gpu-1", SPEC)
        kube = Kube("node-1", api.client())
        reporter = Reporter(kube)
        for gpu, lost in ((found.gpus[0], False), (gone, True), (found.gpus[0], False)):
            node = dataclasses.replace(found, gpus=(gpu,))
            reporter.report(kube.gpus(), node, {"GPU-1": Steps()}, {}, SERVED, {}, NAMED, {})
            assert api.status("gpu-1").get("lost", False) is lost
    for kind in ("off_bus", "hang"):
        hit = dataclasses.replace(NODE.gpus[0], faults=(admin.Fault("f", kind, "", 1, 0),))
        of_gpud = model.parse(dataclasses.replace(NODE, gpus=(hit,)).to_json())
        assert [one.is_lost for one in of_gpud.gpus] == [kind == "off_bus"]
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    last = status.build(found, gone, Steps(), {}, (), {}, "", 1, (), now)
    assert (last.lost, status.mark_unknown(last).lost) == (True, False)


def test_a_slice_that_is_not_offered_has_no_resource_and_a_reason() -> None:
    with ApiServer() as api:
        api.put_gpu("gpu-1", SPEC)
        kube = Kube("node-1", api.client())
        unlike = dataclasses.replace(NAMED, problem="1g.10gb and 2g.20gb: none is offered")
        Reporter(kube).report(
            kube.gpus(), inventory(0), {"GPU-1": Steps()}, {}, SERVED, {}, unlike, {}
        )
        (listed,) = api.status("gpu-1")["slices"]
        assert (listed["resource"], listed["admitted"]) == ("", False)
        assert api.condition("gpu-1", "Degraded") == ("True", "MixedProfiles")


def test_a_whole_gpu_is_reported_with_mig_off() -> None:
    (gpu,) = inventory(0).gpus
    place = geometry.Instance(BOARD.whole, 0)
    made = MigSlice("GPU-1", "GPU-1", place, BOARD.memory_bytes, 0, 132, "/run", 0, ())
    whole = dataclasses.replace(gpu, slices=(made,), mig_enabled=False)
    with ApiServer() as api:
        api.put_gpu("gpu-1", SPEC)
        kube = Kube("node-1", api.client())
        named = OfferedResources({"GPU-1": "nvidia.com/gpu"})
        found = dataclasses.replace(inventory(0), gpus=(whole,))
        served = {"nvidia.com/gpu"}
        for gpus, mode, places in (
            (found, "Disabled", ["whole"]),
            (inventory(0), "Enabled", ["1g.10gb"]),
        ):
            Reporter(kube).report(kube.gpus(), gpus, {"GPU-1": Steps()}, {}, served, {}, named, {})
            status = api.status("gpu-1")
            assert status["migMode"] == mode
            assert [s["profile"] for s in status["slices"]] == places


def test_memory_that_flaps_is_written_seldom_and_a_holder_at_once() -> None:
    clock = Clock()
    with ApiServer() as api:
        api.put_gpu("gpu-1", SPEC)
        kube = Kube("node-1", api.client())
        reporter = Reporter(kube, clock)

        def report(used_bytes: int, holders: dict[str, tuple[HolderPod, ...]]) -> int:
            reporter.report(
                kube.gpus(),
                inventory(used_bytes),
                {"GPU-1": Steps()},
                holders,
                SERVED,
                {},
                NAMED,
                {},
            )
            return api.status_writes

        assert report(0, {}) == 1
        for second in range(1, int(MEMORY_INTERVAL_S)):
            clock.now = float(second)
            assert report(second << 20, {}) == 1
        clock.now = MEMORY_INTERVAL_S
        assert report(77, {}) == 2
        assert api.status("gpu-1")["slices"][0]["memoryUsedBytes"] == 77
        assert report(78, {"MIG-1": (POD,)}) == 3
        assert api.status("gpu-1")["slicesUsed"] == 1
        assert report(78, {"MIG-1": (POD,)}) == 3


def test_a_slice_that_no_kubelet_follows_is_reported_as_not_admitted_at_once() -> None:
    with ApiServer() as api:
        api.put_gpu("gpu-1", SPEC)
        kube = Kube("node-1", api.client())
        reporter = Reporter(kube, Clock())
        for served, admitted in ((SERVED, True), (set(), False), ({"another"}, False)):
            reporter.report(
                kube.gpus(), inventory(0), {"GPU-1": Steps()}, {}, served, {}, NAMED, {}
            )
            assert api.status("gpu-1")["slices"][0]["admitted"] is admitted


@pytest.mark.parametrize("whole_gpu", [False, True])
def test_a_sick_slice_is_reported_as_not_admitted(whole_gpu: bool) -> None:
    """The kubelet allocates it to no pod, and the operator lowers ``allocatable`` by it at once."""
    why, there = "Unhealthy: Xid 48", inventory(0)
    (gpu,) = there.gpus
    (well,) = gpu.slices
    sick = dataclasses.replace(gpu, slices=(dataclasses.replace(well, health=why),))
    if whole_gpu:
        sick = dataclasses.replace(gpu, health=why)
    with ApiServer() as api:
        api.put_gpu("gpu-1", SPEC)
        kube = Kube("node-1", api.client())
        reporter = Reporter(kube, Clock())
        for found, admitted in ((gpu, True), (sick, False), (gpu, True)):
            now = dataclasses.replace(there, gpus=(found,))
            reporter.report(kube.gpus(), now, {"GPU-1": Steps()}, {}, SERVED, {}, NAMED, {})
            assert api.status("gpu-1")["slices"][0]["admitted"] is admitted


def test_a_refused_object_s_status_shows_its_device_and_the_reason() -> None:
    with ApiServer() as api:
        api.put_gpu("gpu-1", SPEC)
        kube = Kube("node-1", api.client())
        reporter = Reporter(kube)
        reporter.report(kube.gpus(), inventory(0), {"GPU-1": Steps()}, {}, SERVED, {}, NAMED, {})
        refused = {"gpu-1": (Reason.UNKNOWN_BOARD, "unknown board 'x'")}
        since = api.status("gpu-1")["conditions"]
        for holders in ({"MIG-1": (POD,)}, {}):  # its slices are still served: pods start and end
            reporter.report(
                kube.gpus(), inventory(0), {"GPU-1": Steps()}, holders, SERVED, refused, NAMED, {}
            )
            assert api.condition("gpu-1", "Accepted") == ("False", "UnknownBoard")
            assert api.condition("gpu-1", "Ready")[0] == "False"
            assert api.status("gpu-1")["slicesTotal"] == 1
            assert api.status("gpu-1")["slicesUsed"] == len(holders)
        assert {c["type"] for c in since} == {c["type"] for c in api.status("gpu-1")["conditions"]}


def test_a_gpu_that_gpud_does_not_have_has_no_slices_and_no_health() -> None:
    with ApiServer() as api:
        api.put_gpu("gpu-1", SPEC)
        kube = Kube("node-1", api.client())
        reporter = Reporter(kube)
        holders = {"MIG-1": (POD,)}
        reporter.report(
            kube.gpus(), inventory(0), {"GPU-1": Steps()}, holders, SERVED, {}, NAMED, {}
        )

        reporter.report_failure(kube.gpus(), "gpud does not answer")
        assert api.condition("gpu-1", "Degraded") == ("True", "AgentError")
        assert api.status("gpu-1")["slicesTotal"] == 1  # the last known number
        assert api.status("gpu-1")["health"] == "Unknown"

        gone = dataclasses.replace(inventory(0), gpus=())
        for refused in ({}, {"gpu-1": (Reason.UNKNOWN_BOARD, "unknown board 'x'")}):
            reporter.report(
                kube.gpus(), inventory(0), {"GPU-1": Steps()}, holders, SERVED, {}, NAMED, {}
            )
            assert api.status("gpu-1")["health"] == "Healthy"
            reporter.report(kube.gpus(), gone, {}, holders, SERVED, refused, NAMED, {})
            status = api.status("gpu-1")
            assert status["slices"] == []  # the operator waits for this
            assert (status["slicesTotal"], status["slicesUsed"], status["holders"]) == (0, 0, "")
            assert status["health"] == "Unknown"


def test_an_object_that_names_anothers_device_shows_none_of_its_slices() -> None:
    with ApiServer() as api:
        api.put_gpu("gpu-1", SPEC)
        api.put_gpu("gpu-2", SPEC)
        kube = Kube("node-1", api.client())
        refused = {"gpu-2": (Reason.NODE_CONFLICT, "another GPU object of this node has GPU-1")}
        reporter = Reporter(kube)
        reporter.report(
            kube.gpus(), inventory(0), {"GPU-1": Steps()}, {}, SERVED, refused, NAMED, {}
        )
        assert api.status("gpu-1")["slicesTotal"] == 1
        assert api.status("gpu-2")["slicesTotal"] == 0
        assert api.condition("gpu-2", "Accepted") == ("False", "NodeConflict")


def test_health_is_one_word_and_its_cause_a_condition() -> None:
    with ApiServer() as api:
        api.put_gpu("gpu-1", SPEC)
        kube = Kube("node-1", api.client())
        (gpu,) = inventory(0).gpus
        sick = dataclasses.replace(gpu, health="Unhealthy: the zygote does not start")
        reporter = Reporter(kube)
        found = dataclasses.replace(inventory(0), gpus=(sick,))
        reporter.report(kube.gpus(), found, {"GPU-1": Steps()}, {}, SERVED, {}, NAMED, {})
        assert api.status("gpu-1")["health"] == "Unhealthy"
        conditions = {c["type"]: c for c in api.status("gpu-1")["conditions"]}
        assert "the zygote does not start" in conditions["Degraded"]["message"]


def test_a_pod_that_floods_runs_out_and_its_neighbour_does_not() -> None:
    clock = Clock()
    allowance = Allowance(clock)
    assert sum(allowance.take("hostile") for _ in range(1000)) == BURST
    assert allowance.take("neighbour")
    clock.now = REFILL_S
    assert [allowance.take("hostile") for _ in range(3)] == [True, False, False]
    for number in range(5000):
        allowance.take(str(number))  # memory is bounded: only some pods are remembered
    assert len(allowance._buckets) == 1024


def test_the_queue_of_unwritten_events_is_bounded() -> None:
    with ApiServer() as api:
        notices = Notices(Kube("node-1", api.client()))  # no thread calls ``run``
        assert sum(notices.post(POD, Reason.FAULTED, "bad") for _ in range(1000)) == BURST
        others = (dataclasses.replace(POD, uid=f"uid-{number}") for number in range(1000))
        assert sum(notices.post(pod, Reason.FAULTED, "bad") for pod in others) == 256 - BURST


def test_every_change_of_health_is_an_event_even_after_a_time_without_an_api_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twelve changes in a row are more than the allowance of a pod."""
    monkeypatch.setattr(notices_module, "_RETRY_S", 0.01)
    with ApiServer() as api:
        kube = Kube("node-1", api.client())
        write, failures = kube.gpu_event, [ClusterError("away"), ClusterError("busy", 503)]

        def write_later(*event: Any) -> None:
            if failures:
                raise failures.pop()
            write(*event)

        monkeypatch.setattr(kube, "gpu_event", write_later)
        notices = Notices(kube)
        changes = [f"change {number}" for number in range(12)]
        assert all(notices.post_health("g", "u", Reason.HEALTHY, text, False) for text in changes)
        last = partial(notices.post, POD, Reason.FAULTED, "the end", True)
        with endless(notices.run, wake=last):
            wait_for(api, lambda: len(api.events) >= len(changes))
        messages = [event["message"] for event in api.events.values()]
    assert messages[: len(changes)] == changes


def test_no_change_of_health_is_lost_while_tenants_fill_the_queue_and_the_api_server_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An hour of failed attempts; other events do not wait for it."""
    monkeypatch.setattr(notices_module, "_RETRY_S", 0.0)
    attempts = 720
    with ApiServer() as api:
        kube = Kube("node-1", api.client())
        write, failures = kube.gpu_event, [ClusterError("away")] * attempts
        is_back = threading.Event()

        def write_later(*event: Any) -> None:
            if failures:
                raise failures.pop()
            is_back.wait(60)
            write(*event)

        monkeypatch.setattr(kube, "gpu_event", write_later)
        notices = Notices(kube)
        pods = (dataclasses.replace(POD, uid=f"uid-{number}") for number in range(1000))
        assert sum(notices.post(pod, Reason.FAULTED, "bad") for pod in pods) == 256
        changes = [f"change {number}" for number in range(40)]
        assert all(notices.post_health("g", "u", Reason.HEALTHY, text, False) for text in changes)
        last = partial(notices.post, POD, Reason.FAULTED, "the end", True)
        with endless(notices.run, wake=last):
            wait_for(api, lambda: "bad" in messages(api))
            is_back.set()
            wait_for(api, lambda: changes[-1] in messages(api))
            posted = messages(api)
    assert [text for text in posted if text.startswith("change")] == changes


def messages(api: ApiServer) -> list[str]:
    """Return the messages of all events, in the order in which they were created."""
    return [event["message"] for event in list(api.events.values())]


def test_events_land_on_the_pod_and_repeat_as_a_count() -> None:
    with ApiServer() as api:
        notices = Notices(Kube("node-1", api.client()))
        last = partial(notices.post_gpu, "gpu-1", "uid", Reason.FAULTED, "the end", True)
        with endless(notices.run, wake=last):
            for _ in range(3):
                assert notices.post(POD, Reason.FAULTED, "kernel k, PTX line 7: illegal address")
            wait_for(api, lambda: any(event["count"] == 3 for event in api.events.values()))
            (event,) = api.events.values()
    assert event["count"] == 3
    assert event["involvedObject"]["uid"] == POD.uid
    assert (event["reason"], event["type"]) == ("Faulted", "Warning")


@pytest.mark.parametrize(
    ("event", "reason", "part"),
    [
        ({"event": "fault", "kernel": "k", "ptx_line": 7, "message": "bad"}, "Faulted", "line 7"),
        ({"event": "fault"}, "Faulted", "fault"),
        (
            {"event": "fault", "kernel": "", "message": "the worker ended: killed by signal 9"},
            "Faulted",
            "the worker ended: killed by signal 9",
        ),
        (
            {"event": "refused", "reason": "its former holder has not ended"},
            "SliceInUse",
            "its former holder has not ended",
        ),
        ({"event": "unsupported_ptx", "message": "tex.2d"}, "UnsupportedPTX", "tex.2d"),
        (
            {
                "event": "out_of_memory",
                "requested_bytes": 3 << 30,
                "free_bytes": 969 << 20,
                "slice_free_bytes": 9984 << 20,
                "slice_total_bytes": 9984 << 20,
                "node_free_bytes": 969 << 20,
                "node_total_bytes": 4 << 30,
                "shared_free_bytes": 867 << 20,
                "shared_total_bytes": 3072 << 20,
                "guaranteed_free_bytes": 102 << 20,
                "guaranteed_bytes": 146 << 20,
            },
            "OutOfBudget",
            "3072 MiB requested, 9984 MiB free in the slice, 867 MiB of the node's shared budget"
            " of 3072 MiB, 102 MiB of this slice's guaranteed part of 146 MiB",
        ),
        ({"event": "fenced", "reason": "no longer"}, "Fenced", "no longer"),
        ({"event": "worker_failed", "message": "no cgroup"}, "AgentError", "no cgroup"),
    ],
)
def test_messages_for_users(event: dict[str, Any], reason: str, part: str) -> None:
    described = describe(event)
    assert described is not None
    assert described[0].value == reason
    assert part in described[1]
    assert describe({"event": "context_started"}) is None


def test_probes_tell_a_loop_that_turns_from_one_that_gets_somewhere() -> None:
    pulse = Pulse()
    assert health.evaluate_probe("/healthz", pulse, 1e9)[0] == 503
    pulse.began = 10.0
    assert health.evaluate_probe("/healthz", pulse, 20.0)[0] == 200
    assert health.evaluate_probe("/readyz", pulse, 20.0)[0] == 503
    pulse = dataclasses.replace(pulse, succeeded=15.0)
    assert health.evaluate_probe("/readyz", pulse, 20.0)[0] == 200
    assert health.evaluate_probe("/readyz", pulse, 15.0 + health.STALE_AFTER_S)[0] == 200
    assert health.evaluate_probe("/readyz", pulse, 15.5 + health.STALE_AFTER_S)[0] == 503
    assert health.evaluate_probe("/metrics", pulse, 20.0)[0] == 404


def test_claims_that_share_a_slice_are_listed_each_with_its_pods() -> None:
    """At most 16 pods of a share are named: the API server would refuse a larger object."""
    owners = [f"claim:{name}" for name in ("a", "b")]
    shares = tuple(
        ClaimShare(owner, f"team/{owner[-1]}", 4 << 30, used, contexts=1)
        for owner, used in zip(owners, (5, 7), strict=True)
    )
    (gpu,) = inventory(12).gpus
    gpu = dataclasses.replace(gpu, slices=(dataclasses.replace(gpu.slices[0], shares=shares),))
    pods = [HolderPod("team", f"p-{n}", f"u-{n}", claim=owners[0]) for n in range(20)]
    pods.append(dataclasses.replace(POD, claim=owners[1]))
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    built = status.build(
        inventory(12), gpu, Steps(claimed=gpu.slices), {"MIG-1": pods}, (), {}, "", 1, (), now
    )
    assert built.slices == ()
    assert [
        (c.claim.name, c.shared, c.memory_used_bytes, len(c.holders)) for c in built.claims
    ] == [
        ("a", True, 5, 16),
        ("b", True, 7, 1),
    ]
    assert [c.place for c in built.claimed] == [built.claims[0].place]
    assert (built.slices_total, built.slices_used) == (1, 1)
    ready = next(c for c in built.conditions if c.type == "Ready")
    assert ready.message == "1g.10gb@0 is held by claims team/a, team/b"
