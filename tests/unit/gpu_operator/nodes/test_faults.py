"""GPUFaults: what is written to GPUs, and how their state is reported."""

import dataclasses
import datetime
from typing import Any

import jsonschema
import pytest

from gpu_operator.api.v1alpha1.gpu import FaultPhase, FaultStatus, WantedFault
from gpu_operator.api.v1alpha1.gpufault import GPUFaultSpec, GPUFaultStatus
from gpu_operator.api.v1alpha1.resource import Fault, Gpu, Meta, Resource
from gpu_operator.config import GpudConfig, HealthChecksConfig, NodeConfig
from gpu_operator.controllers import faults
from gpu_operator.controllers.common.world import World
from gpu_operator.kube.actions import Apply, Manager, Record
from gpu_operator.render import gpud
from support.worlds.gpu_world import NOW, applied_documents, gpu, node, pool, world

UID = "11111111-1111-4111-8111-111111111111"


def fault(name: str = "f", uid: str = UID, **spec: Any) -> Fault:
    spec = {"gpuName": "n1-gpu-0", **spec}
    made = NOW.isoformat()
    return Resource(
        Meta("GPUFault", name, uid, created=made),
        GPUFaultSpec.model_validate(spec),
        GPUFaultStatus(),
    )


def world_with(*items: Fault, on: Gpu | None = None) -> World:
    found = world(node(), pool(), on or gpu())
    return dataclasses.replace(found, faults={one.name: one for one in items})


def report_on(what: World, name: str = "f") -> tuple[dict[str, Any], dict[str, Any], list[Record]]:
    """Return the status, the condition Accepted, and the events of a GPUFault."""
    actions = faults.reconcile(what, name, NOW).actions
    (write,) = (a for a in actions if isinstance(a, Apply))
    status = dict(write.document["status"])
    (accepted,) = (c for c in status["conditions"] if c["type"] == "Accepted")
    return status, accepted, [a for a in actions if isinstance(a, Record)]


def written_faults(what: World) -> list[dict[str, Any]]:
    (document,) = applied_documents(tuple(faults.write(what, "n1-gpu-0")), Manager.FAULTS)
    return list(document["spec"]["faults"])


def with_results(*results: FaultStatus, wanted: tuple[WantedFault, ...] = ()) -> Gpu:
    made = gpu()
    spec = made.spec.model_copy(update={"faults": wanted})
    return dataclasses.replace(
        made, spec=spec, status=made.status.model_copy(update={"faults": results})
    )


def test_a_requested_fault_is_written_to_the_gpu_once() -> None:
    mine = fault(offBus=True, durationSeconds=60)
    until = (NOW + datetime.timedelta(seconds=60)).isoformat()
    assert written_faults(world_with(mine)) == [
        {"id": UID, "kind": "off_bus", "count": 1, "until": until}
    ]
    wanted = (WantedFault(id=UID, kind="off_bus", until=until),)
    there = with_results(wanted=wanted)
    assert list(faults.write(world_with(mine, on=there), "n1-gpu-0")) == []
    assert written_faults(world_with(on=there)) == []


def test_an_active_fault_that_ends_is_reported_on_the_gpu() -> None:
    wanted = (
        WantedFault(id=UID, kind="off_bus"),
        WantedFault(id="over", kind="xid", xid=48),
    )
    states = (
        FaultStatus(id=UID, phase=FaultPhase.ACTIVE),
        FaultStatus(id="over", phase=FaultPhase.INJECTED),
    )
    there = with_results(*states, wanted=wanted)
    actions = list(faults.write(world_with(on=there), "n1-gpu-0"))
    (event,) = (one for one in actions if isinstance(one, Record))
    assert (event.kind, event.name, event.reason) == ("GPU", "n1-gpu-0", "Cleared")
    assert event.message == "offBus ends: its GPUFault was deleted"
    kept = world_with(fault(offBus=True), on=with_results(*states[:1], wanted=wanted[:1]))
    assert not [one for one in faults.write(kept, "n1-gpu-0") if isinstance(one, Record)]


def test_a_gpu_is_found_by_node_and_index_and_others_are_left_alone() -> None:
    mine = fault(gpuName=None, nodeName="n1", index=0, xid=48, slice={"profile": "1g.10gb"})
    others = fault("g", "other", gpuName="n1-gpu-1", hang=True)
    assert written_faults(world_with(mine, others)) == [
        {"id": UID, "kind": "xid", "xid": 48, "count": 1, "profile": "1g.10gb", "until": ""}
    ]


@pytest.mark.parametrize(
    ("spec", "reason", "message", "gpu"),
    [
        ({"gpuName": "n9-gpu-0", "hang": True}, "GPUNotFound", "no GPU n9-gpu-0", "n9-gpu-0"),
        (
            {"gpuName": None, "nodeName": "n9", "index": 3, "hang": True},
            "GPUNotFound",
            "there is no GPU index 3 on node n9",
            "index 3 on node n9",
        ),
        ({"hang": True, "xid": 48}, "InvalidSpec", "exactly one of xid, ecc.", "n1-gpu-0"),
        ({}, "InvalidSpec", "exactly one of", "n1-gpu-0"),
    ],
)
def test_an_impossible_fault_is_refused_with_condition_and_event(
    spec: dict[str, Any], reason: str, message: str, gpu: str
) -> None:
    what = world_with(fault(**spec))
    status, accepted, events = report_on(what)
    assert status["gpu"] == gpu
    assert (status["phase"], accepted["status"], accepted["reason"]) == ("Refused", "False", reason)
    assert message in accepted["message"]
    assert [(one.reason, one.warning) for one in events] == [(reason, True)]
    assert list(faults.write(what, "n1-gpu-0")) == []


def test_a_refusal_by_gpud_is_reported() -> None:
    refused = FaultStatus(id=UID, phase=FaultPhase.REFUSED, message="unknown Xid 7; known: 13")
    status, accepted, events = report_on(world_with(fault(xid=7), on=with_results(refused)))
    assert (status["phase"], accepted["reason"]) == ("Refused", "FaultRefused")
    assert accepted["message"] == "unknown Xid 7; known: 13"
    assert events[0].warning


@pytest.mark.parametrize(
    ("result", "phase", "ready"),
    [
        (None, "Pending", "False"),
        (FaultStatus(id=UID, phase=FaultPhase.ACTIVE), "Active", "True"),
        (FaultStatus(id=UID, phase=FaultPhase.INJECTED, slice="MIG-1"), "Injected", "True"),
        (FaultStatus(id=UID, phase=FaultPhase.CLEARED), "Cleared", "True"),
    ],
)
def test_the_agent_reports_the_phase(result: FaultStatus | None, phase: str, ready: str) -> None:
    there = with_results(*([result] if result else []))
    status, accepted, _ = report_on(world_with(fault(thermal=True), on=there))
    assert (status["phase"], status["gpu"], status["fault"]) == (phase, "n1-gpu-0", "thermal")
    assert accepted["status"] == "True"
    assert [c["status"] for c in status["conditions"] if c["type"] == "Ready"] == [ready]
    assert status["slice"] == (result.slice if result else "")


def test_a_gpu_s_faults_are_limited_and_the_oldest_apply() -> None:
    many = [fault(f"f{i:03}", f"u{i:03}", hang=True) for i in range(faults.MAX_FAULTS + 3)]
    wanted = written_faults(world_with(*many))
    assert [one["id"] for one in wanted] == [f"u{i:03}" for i in range(faults.MAX_FAULTS)]


def test_health_checks_reach_gpud_as_nvidias_variables() -> None:
    checks = HealthChecksConfig(disabled="48, 63", enabled="all")
    config = NodeConfig(image="i", service_account="s", gpud=GpudConfig(health_checks=checks))
    template = gpud.daemon_set("p", pool().spec, config, "ns")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert {one["name"]: one["value"] for one in container["env"]}.items() >= {
        ("DP_DISABLE_HEALTHCHECKS", "48, 63"),
        ("DP_ENABLE_HEALTHCHECKS", "all"),
    }
    with pytest.raises(ValueError, match="disabled"):
        HealthChecksConfig(disabled="48;63")


def test_the_schema_has_bounds() -> None:
    from gpu_operator.api.v1alpha1.schema import structural_schema

    found = structural_schema(GPUFaultSpec)
    jsonschema.validate({"xid": 79}, found)
    for wrong in ({"xid": 0}, {"ecc": {"corrected": 1001}}, {"index": 8}, {"durationSeconds": 0}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, found)
