"""The faults of GPUs: which GPUFault is behind a health, since when, and what ends it."""

import asyncio
import random
import re
from pathlib import Path
from typing import Any

import pytest
from unit.console.test_console_pages import fetch, run

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from console.views import faults, impact
from gpu_operator import errors
from support.rigs.console_rig import Console, open_console

ROOT = Path(__file__).parents[3]
GPU = "n1-gpu-0"
OFF = "Unhealthy: Xid 79 (GPU has fallen off the bus)"


@pytest.fixture
def node() -> SyntheticCluster:
    """Return a cluster with one node of two H100s with seven slices each."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=2)
    return cluster


def fail(
    cluster: SyntheticCluster,
    name: str,
    health: str,
    phase: str = "Active",
    created: str = "2026-01-02T03:04:05Z",
    gpu: str = GPU,
    slice_uuid: str = "",
    until: str = "",
    **spec: Any,
) -> None:
    """Add a GPUFault that the operator has copied to a GPU, and whose state is reported."""
    document = {
        "metadata": {"name": name, "creationTimestamp": created},
        "spec": {"gpuName": gpu, **spec},
        "status": {"phase": phase, "gpu": gpu, "fault": "f"},
    }
    uid = cluster.put("GPUFault", document)["metadata"]["uid"]
    there = cluster.objects["GPU"][gpu]
    kind = {"offBus": "off_bus", "xid": "xid", "thermal": "thermal", "hang": "hang"}[
        next(iter(spec))
    ]
    wanted = {"id": uid, "kind": kind, "xid": spec.get("xid"), "until": until}
    there["spec"].setdefault("faults", []).append(wanted)
    state = {"id": uid, "phase": phase, "slice": slice_uuid}
    there["status"].setdefault("faults", []).append(state)
    there["status"]["health"] = health
    cluster.put("GPU", there)


def notes(text: str) -> list[str]:
    """Return the notes about trouble of a page, as text."""
    found = re.findall(r'<p class="note bad">(.*?)</p>', text, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", "", one).split()) for one in found]


def test_the_page_of_a_gpu_names_the_fault_behind_its_health(node: SyntheticCluster) -> None:
    fail(node, "bus", OFF, offBus=True)
    text = fetch(node, f"/gpus/{GPU}").text
    assert (
        "GPUFault bus (offBus), requested 2026-01-02 03:04:05 UTC: lasts until the GPUFault is "
        "deleted: gpud then resets the GPU, and puts it back into service after a probation."
        in notes(text)
    )
    assert 'href="/faults/bus"' in text
    assert "No GPUFault of the GPU explains" not in text


@pytest.mark.parametrize("path", ["/", "/nodes/n1"])
def test_fleet_and_node_name_every_sick_gpu_with_its_fault(
    node: SyntheticCluster, path: str
) -> None:
    fail(node, "bus", OFF, offBus=True)
    fail(node, "hot", "Suspect: thermal slowdown", gpu="n1-gpu-1", thermal=True)
    serves = node.objects["Node"]["n1"]["status"]["conditions"][1]
    serves |= {"status": "False", "reason": "Unhealthy", "message": f"{GPU}: is {OFF}"}
    text = fetch(node, path).text
    for name, gpu in (("bus", GPU), ("hot", "n1-gpu-1")):
        assert f'href="/faults/{name}"' in text
        assert f'href="/gpus/{gpu}"' in text
    title = f"GPU 0 lost: off the bus; {OFF}, GPUFault bus (offBus); GPU 1 Suspect: thermal"
    assert title in text


def test_a_card_of_a_large_fleet_changes_with_the_faults_alone() -> None:
    cluster = SyntheticCluster()
    synthetic.fill(cluster, 30, alike=True)

    async def use(console: Console) -> tuple[str, str]:
        query = "name=gpu-0003"
        fault = {"metadata": {"name": "late"}, "spec": {"gpuName": "gpu-0003-gpu-0", "hang": True}}
        gpu = console.cluster.objects["GPU"]["gpu-0003-gpu-0"]
        gpu["spec"]["faults"] = [{"id": "uid-GPUFault-late", "kind": "hang"}]
        gpu["status"]["faults"] = [{"id": "uid-GPUFault-late", "phase": "Active"}]
        console.cluster.put("GPU", dict(gpu))
        await console.settle()
        before = (await console.request("/parts/nodes", query=query)).text
        console.cluster.put("GPUFault", fault)
        await console.settle()
        return before, (await console.request("/parts/nodes", query=query)).text

    before, after = run(cluster, use)
    assert "hang, Xid 109, deleted" not in after
    assert "GPUFault late (hang, Xid 109)" not in before
    assert "GPUFault late (hang, Xid 109)" in after


def test_a_fault_that_happened_once_is_behind_the_health_that_names_its_xid(
    node: SyntheticCluster,
) -> None:
    fail(node, "x48", "Unhealthy: Xid 48 (Double Bit ECC Error)", "Injected", xid=48)
    fail(node, "x4", "Unhealthy: Xid 48 (Double Bit ECC Error)", "Injected", xid=4)
    text = fetch(node, f"/gpus/{GPU}").text
    (note,) = [one for one in notes(text) if "GPUFault" in one]
    assert "GPUFault x48 (Xid 48)" in note
    assert "happened once and is over; the health names its Xid" in note
    assert 'href="/faults/x4"' in text  # listed below, without an effect


def test_the_fault_that_the_health_names_is_first_and_others_are_marked(
    node: SyntheticCluster,
) -> None:
    sick = "Unhealthy: Xid 48 (Double Bit ECC Error)"
    fail(node, "stuck", sick, created="2026-01-01T00:00:00Z", hang=True)
    fail(node, "xid48", sick, "Injected", xid=48)
    first, second = (one for one in notes(fetch(node, f"/gpus/{GPU}").text) if "GPUFault" in one)
    assert first.startswith("GPUFault xid48 (Xid 48)")
    assert second.startswith("also: GPUFault stuck (hang, Xid 109)")
    title = f"GPU 0 {sick}, GPUFault xid48 (Xid 48), also: GPUFault stuck (hang, Xid 109)"
    assert title in fetch(node, "/").text
    node.objects["GPU"][GPU]["status"]["health"] = "Unhealthy: GPU 0 hangs"
    text = fetch(node, f"/gpus/{GPU}").text
    (note,) = [one for one in notes(text) if "GPUFault" in one]
    assert note.startswith("GPUFault stuck (hang, Xid 109)")
    assert "also: " not in text


def test_of_the_same_fault_set_again_the_latest_is_behind_the_health(
    node: SyntheticCluster,
) -> None:
    sick = "Unhealthy: Xid 48 (Double Bit ECC Error)"
    fail(node, "b-first", sick, "Injected", "2026-01-01T00:00:00Z", xid=48)
    fail(node, "a-again", sick, "Injected", "2026-01-03T00:00:00Z", xid=48)
    text = fetch(node, f"/gpus/{GPU}").text
    (note,) = [one for one in notes(text) if "GPUFault" in one]
    assert "a-again" in note
    assert "is over; a later fault is of the same kind" in text


def test_two_lasting_faults_are_both_behind_the_health(node: SyntheticCluster) -> None:
    fail(node, "first", OFF, offBus=True)
    fail(node, "second", OFF, until="2026-01-02T04:00:00+00:00", hang=True)
    found = [one for one in notes(fetch(node, f"/gpus/{GPU}").text) if ", requested" in one]
    assert len(found) == 2
    assert "lasts until 2026-01-02T04:00:00+00:00, or until the GPUFault is deleted" in found[1]


def test_a_health_without_a_fault_claims_none(node: SyntheticCluster) -> None:
    gpu = node.objects["GPU"][GPU]
    gpu["status"]["health"] = OFF
    assert "No GPUFault of the GPU explains its health" in fetch(node, f"/gpus/{GPU}").text
    fail(node, "x13", OFF, "Injected", xid=13)
    assert "No GPUFault of the GPU explains its health" in fetch(node, f"/gpus/{GPU}").text
    node.refused["GPUFault"] = errors.Refused("faults are forbidden")
    text = fetch(node, f"/gpus/{GPU}").text
    assert "No GPUFault of the GPU explains" not in text
    assert "GPUFaults are not shown" in text


def test_a_fault_whose_gpufault_was_deleted_is_listed_until_the_node_ends_it(
    node: SyntheticCluster,
) -> None:
    fail(node, "bus", OFF, offBus=True)
    node.remove("GPUFault", "bus")
    text = fetch(node, f"/gpus/{GPU}").text
    assert "a GPUFault that is gone (offBus): its GPUFault is gone" in " ".join(notes(text))
    assert 'href="/faults/' not in text


def test_the_page_of_a_fault_has_its_manifest_and_state(node: SyntheticCluster) -> None:
    uuid = node.objects["GPU"][GPU]["status"]["slices"][0]["uuid"]
    fail(node, "stuck", "Healthy", slice_uuid=uuid, hang=True, durationSeconds=60)
    text = fetch(node, "/faults/stuck").text
    for part in (f'href="/gpus/{GPU}"', f'href="/slices/{uuid}"', "durationSeconds: 60"):
        assert part in text
    assert "kubectl tessera fault clear stuck" in text
    assert fetch(node, "/faults/nope").status == 404
    refused = {
        "metadata": {"name": "no"},
        "spec": {"gpuName": "elsewhere", "xid": 79},
        "status": {
            "phase": "Refused",
            "gpu": "elsewhere",
            "conditions": [
                {
                    "type": "Accepted",
                    "status": "False",
                    "reason": "GPUNotFound",
                    "message": "there is no GPU elsewhere",
                    "lastTransitionTime": "x",
                }
            ],
        },
    }
    node.put("GPUFault", refused)
    text = fetch(node, "/faults/no").text
    assert "has no effect: there is no GPU elsewhere" in text
    assert 'href="/gpus/elsewhere"' not in text


def test_the_page_of_a_gpu_of_a_silent_node_states_that_its_figures_are_old(
    node: SyntheticCluster,
) -> None:
    assert "reported last" not in fetch(node, f"/gpus/{GPU}").text
    serves = node.objects["Node"]["n1"]["status"]["conditions"][1]
    serves |= {"status": "False", "reason": "AgentUnreachable", "message": "gpud is down"}
    text = fetch(node, f"/gpus/{GPU}").text
    assert "AgentUnreachable: gpud is down" in text
    assert "reported last" in text


def test_a_fault_without_a_report_has_the_state_that_the_operator_states(
    node: SyntheticCluster,
) -> None:
    fault = node.put("GPUFault", {"metadata": {"name": "f"}, "spec": {"gpuName": GPU, "xid": 48}})
    text = fetch(node, "/faults/f").text
    assert "<dd>Pending</dd>" in text
    assert "The fault is not reported by the node&#39;s agent yet." in text
    fault["status"] = {"phase": "Injected", "gpu": GPU, "fault": "Xid 48"}
    text = fetch(node, "/faults/f").text
    assert "<dd>Injected</dd>" in text
    assert "The fault happened once and is over." in text


def test_faults_are_found_once_for_each_state_of_the_cluster(node: SyntheticCluster) -> None:
    fail(node, "bus", OFF, offBus=True)

    async def use() -> None:
        async with open_console(node) as console:
            world = console.model.world()
            assert faults.faults_by_gpu(world) is faults.faults_by_gpu(world)
            assert list(faults.faults_by_gpu(world)) == [GPU]

    asyncio.run(use())


def test_a_later_fault_that_was_refused_does_not_end_the_one_behind_the_health(
    node: SyntheticCluster,
) -> None:
    sick = "Unhealthy: Xid 48 (Double Bit ECC Error)"
    fail(node, "real", sick, "Injected", "2026-01-01T00:00:00Z", xid=48)
    fail(node, "refused", sick, "Refused", "2026-01-03T00:00:00Z", xid=48)
    text = fetch(node, f"/gpus/{GPU}").text
    assert any("GPUFault real (Xid 48)" in one for one in notes(text))
    assert "a later fault is of the same kind" not in text


def test_remedies_are_those_of_the_documentation() -> None:
    text = (ROOT / "docs/faults.md").read_text().partition("\n## Xids\n")[2]
    rows = re.findall(r"^\| (\d+) \|(?:[^|]*\|){4} ([^|]*) \|$", text, re.MULTILINE)
    assert {int(xid): remedy for xid, remedy in rows} == impact.REMEDIES


@pytest.mark.parametrize("path", [f"/gpus/{GPU}", "/faults/x48"])
def test_gpu_and_fault_list_the_pods_and_the_first_step(node: SyntheticCluster, path: str) -> None:
    fail(node, "x48", "Healthy", "Injected", xid=48)
    assert "Affected pods" not in fetch(node, path).text
    node.objects["GPU"][GPU]["status"]["health"] = "Unhealthy: Xid 48 (Double Bit ECC Error)"
    text = fetch(node, path).text
    listed = text.partition('<ul aria-label="Affected pods">')[2].partition("</ul>")[0]
    pods = {
        f"{holder['namespace']}/{holder['name']}"
        for one in node.objects["GPU"][GPU]["status"]["slices"]
        for holder in one.get("holders", ())
    }
    assert set(re.findall(r'title="([^"]+)"', listed)) == pods
    assert 'href="/pods/' in listed
    assert "after Xid 48: reset the GPU; if it recurs, replace the board." in text
    assert "no CUDA context is left on it" in text


def test_a_single_cause_is_not_marked_as_another_one(node: SyntheticCluster) -> None:
    fail(node, "stuck", "Unhealthy", hang=True)
    assert "GPU 0 Unhealthy, GPUFault stuck (hang, Xid 109)" in fetch(node, "/").text
    for path in ("/", "/nodes/n1", f"/gpus/{GPU}"):
        assert "also: " not in fetch(node, path).text
    fail(node, "hot", "Unhealthy", thermal=True)
    assert ", also: GPUFault stuck (hang, Xid 109)" in fetch(node, "/").text


def test_a_hang_has_its_xid_and_what_gpud_itself_does_when_it_ends(node: SyntheticCluster) -> None:
    fail(node, "stuck", "Unhealthy", hang=True)
    for path in (f"/gpus/{GPU}", "/faults/stuck"):
        text = fetch(node, path).text
        assert "(hang, Xid 109)" in text or "<dd>hang, Xid 109</dd>" in text
        assert "the first step after Xid 109: debug the program." in text
        assert "gpud itself ends the CUDA contexts that hang (error 719, Xid 45)" in text
        assert "No pod has to end for this" in text
        assert "gpud then ends the CUDA contexts on it (error 719, Xid 45; pods keep" in text


def test_a_gpu_on_probation_needs_no_pod_to_end(node: SyntheticCluster) -> None:
    fail(node, "stuck", "Probation", "Cleared", hang=True)
    status = node.objects["GPU"][GPU]["status"]
    for one in status["slices"]:
        one["health"] = "Probation: GPU 0 hung (Xid 109)"
    text = fetch(node, f"/gpus/{GPU}").text
    assert "The fault is over, and gpud has reset the GPU. It watches the GPU" in text
    assert "No pod has to end" in text
    assert " hangs" not in text
    status["health"] = "Probation: GPU 0 hung (Xid 109)"
    assert "GPUFault stuck (hang, Xid 109)" in fetch(node, "/").text


def test_the_condition_has_the_cause_of_a_health_that_states_none(node: SyntheticCluster) -> None:
    fail(node, "hot", "Probation", "Cleared", offBus=True)
    degraded = {"type": "Degraded", "status": "True", "reason": "Unhealthy"}
    degraded |= {"message": "GPU-1 is Probation: Xid 79 (GPU has fallen off the bus)"}
    degraded |= {"lastTransitionTime": "2026-01-02T03:04:05Z"}
    node.objects["GPU"][GPU]["status"]["conditions"] = [degraded]
    text = fetch(node, f"/gpus/{GPU}").text
    assert "GPUFault hot (offBus)" in " ".join(notes(text))
    assert "No GPUFault of the GPU explains" not in text


def test_a_fault_of_a_slice_affects_the_holders_of_that_slice(node: SyntheticCluster) -> None:
    one = node.objects["GPU"][GPU]["status"]["slices"][0]
    one["holders"] = [{"namespace": "ml", "name": "hit"}]
    sick = "Suspect: Xid 94 (Contained ECC error)"
    fail(node, "x94", "Healthy", "Injected", slice_uuid=one["uuid"], xid=94)
    one["health"] = sick
    text = fetch(node, "/faults/x94").text
    listed = text.partition('<ul aria-label="Affected pods">')[2].partition("</ul>")[0]
    assert listed.count("<li>") == 1
    assert "ml/hit" in listed
    assert "after Xid 94: restart the program" in text
    pod = fetch(node, "/pods/ml/hit").text
    (note,) = notes(pod)
    assert sick in note
    assert "GPUFault x94 (Xid 94)" in note
    assert "CUDA contexts may have ended with an error" in note
    one["health"] = "Healthy"
    assert "may have ended" not in fetch(node, "/pods/ml/hit").text
