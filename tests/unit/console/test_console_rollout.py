"""The progress of rollouts, on the pages and in `kubectl tessera layout status`."""

import asyncio
import datetime
import html
import json
import random
import re
from typing import Any

import pytest

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from console.kubectl import rollout_text
from console.views import rollout
from console.views.rollout import Phase, format_duration
from gpu_operator.api.v1alpha1 import CHANGED_AT, ROLLED_BACK, ROLLED_BACK_WHY
from gpu_operator.controllers.common.world import World
from support.rigs.console_rig import Console, open_console

HALVES = [{"profile": "3g.40gb", "start": 0}, {"profile": "3g.40gb", "start": 4}]


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@pytest.fixture
def node() -> SyntheticCluster:
    """Return a cluster with one node of three H100s that follow the layout ``mixed``."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=3)
    put_layout(cluster, [{"profile": "1g.10gb", "count": 7}])
    return cluster


def put_layout(cluster: SyntheticCluster, instances: list[dict[str, Any]]) -> None:
    spec = {"selector": {"pool": "h100"}, "instances": instances}
    metadata = {"name": "mixed", "uid": "u", "generation": 2}
    status = {"observedGeneration": 2, "gpusSelected": 3, "gpusApplied": 3}
    document = {"kind": "MIGLayout", "metadata": metadata, "spec": spec, "status": status}
    cluster.put("MIGLayout", document)


def test_a_layout_that_selects_no_gpu_is_listed_as_unfinished(node: SyntheticCluster) -> None:
    put_layout(node, HALVES)
    layout = node.objects["MIGLayout"]["mixed"]
    assert "Layouts that are not applied" not in show(node, "/")[0]
    message = "selector.nodeNames: no GPU is on n9; nodes with GPUs: n1"
    ready = {"type": "Ready", "status": "False", "reason": "NoGPUs", "message": message}
    ready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    layout["status"] |= {"gpusSelected": 0, "gpusApplied": 0, "conditions": [ready]}
    (text,) = show(node, "/")
    assert "Layouts that are not applied to all their GPUs, with a problem" in text
    assert "(0 of 0 GPUs; <bdi>NoGPUs: selector.nodeNames: no GPU is on n9" in text


def begin_change(cluster: SyntheticCluster, index: int, ago_s: float) -> dict[str, Any]:
    """Have a GPU's change to two halves begin some seconds ago."""
    gpu = cluster.objects["GPU"][f"n1-gpu-{index}"]
    gpu["spec"]["instances"] = HALVES
    begun = now() - datetime.timedelta(seconds=ago_s)
    gpu["metadata"]["annotations"] = {CHANGED_AT: begun.isoformat(timespec="seconds")}
    return gpu


def show(cluster: SyntheticCluster, *paths: str) -> list[str]:
    async def whole() -> list[str]:
        async with open_console(cluster) as console:
            return [(await console.request(path)).text for path in paths]

    return asyncio.run(whole())


def world_of(cluster: SyntheticCluster) -> World:
    async def whole() -> World:
        console: Console
        async with open_console(cluster) as console:
            return console.model.world()

    return asyncio.run(whole())


def test_a_finished_rollout_has_every_gpu_done(node: SyntheticCluster) -> None:
    fleet, every, gpu = show(node, "/", "/rollout", "/gpus/n1-gpu-0")
    assert "3 of 3 GPUs done" in every
    assert "Layouts that are not applied" not in fleet
    assert "Layout: " not in gpu


def test_a_gpu_that_waits_for_pods_has_its_holders_and_the_time_left(
    node: SyntheticCluster,
) -> None:
    put_layout(node, [{"profile": "3g.40gb", "count": 2}])
    node.objects["MIGLayout"]["mixed"]["status"]["gpusApplied"] = 1
    begin_change(node, 0, 100)
    holder = node.objects["GPU"]["n1-gpu-0"]["status"]["slices"][0]["holders"][0]
    (found,) = rollout.find_rollouts(world_of(node))
    assert found.counts == {
        Phase.APPLIED: 0,
        Phase.PENDING: 2,
        Phase.CHANGING: 0,
        Phase.WAITING: 1,
        Phase.UNHEALTHY: 0,
        Phase.FAILED: 0,
        Phase.ROLLED_BACK: 0,
    }
    assert found.left_s(now()) in (499, 500, 501)
    fleet, every, one, gpu, next_gpu = show(
        node, "/", "/rollout", "/rollout/mixed", "/gpus/n1-gpu-0", "/gpus/n1-gpu-1"
    )
    assert "Layout: not begun: <bdi>waits for its turn: 1 of at most 1 at a time" in next_gpu
    assert "(1 of 3 GPUs)" in fleet
    assert "0 of 3 GPUs done" in every
    assert "8 min" in every
    for text in (one, gpu):
        assert f"1g.10gb@0 is held by pod {holder['namespace']}/{holder['name']}" in text
        assert "waiting for pods" in text
        assert "data-left=" in text


def test_a_passed_deadline_is_over(node: SyntheticCluster) -> None:
    put_layout(node, [{"profile": "3g.40gb", "count": 2}])
    begin_change(node, 0, 5000)
    (found,) = rollout.find_rollouts(world_of(node))
    assert found.left_s(now()) == 0
    assert "deadline over: to be rolled back" in show(node, "/rollout")[0]


def test_a_rolled_back_gpu_has_the_reason_and_stops_the_others(node: SyntheticCluster) -> None:
    put_layout(node, [{"profile": "3g.40gb", "count": 2}])
    gpu = begin_change(node, 0, 700)
    gpu["metadata"]["annotations"] |= {ROLLED_BACK: "u/2", ROLLED_BACK_WHY: "not done: <b>held"}
    every, one, page = show(node, "/layout", "/rollout/mixed", "/gpus/n1-gpu-0")
    for text in (one, page):
        assert "not done: &lt;b&gt;held" in text
        assert "rolled back" in text
    assert one.count("the rollout has stopped: another GPU was rolled back") == 2
    assert '<b class="bad">1</b> rolled back' in every
    node.objects["MIGLayout"]["mixed"]["metadata"]["generation"] = 3  # an edit: a new attempt
    (found,) = rollout.find_rollouts(world_of(node))
    assert found.counts[Phase.ROLLED_BACK] == 0
    assert not found.is_observed


def test_gpus_of_an_older_layout_and_boards_that_do_not_fit_are_named(
    node: SyntheticCluster,
) -> None:
    spec = {"selector": {"pool": "h100"}, "instances": [{"profile": "7g.80gb"}]}
    late = {"name": "later", "uid": "v", "creationTimestamp": "2026-02-01T00:00:00Z"}
    node.put("MIGLayout", {"kind": "MIGLayout", "metadata": late, "spec": spec})
    other = {"selector": {"indices": [1]}, "instances": [{"profile": "1g.99gb"}]}
    bad = {"name": "wrong", "uid": "w", "creationTimestamp": "2026-02-02T00:00:00Z"}
    node.put("MIGLayout", {"kind": "MIGLayout", "metadata": bad, "spec": other})
    later, wrong, nothing = show(node, "/rollout/later", "/rollout/wrong", "/rollout/none")
    assert later.count('follows <a href="/rollout/mixed">') == 3
    assert "1g.99gb" in wrong
    assert "failed" in wrong
    assert "MIGLayout none" in nothing


def test_a_refused_eviction_is_the_headline_and_in_the_row_of_its_gpu(
    node: SyntheticCluster,
) -> None:
    put_layout(node, [{"profile": "3g.40gb", "count": 2}])
    begin_change(node, 0, 100)
    holder = node.objects["GPU"]["n1-gpu-0"]["status"]["slices"][0]["holders"][0]
    why = "Cannot evict pod as it would violate the pod's disruption budget"
    pod = f"{holder['namespace']}/{holder['name']}"
    ready = {"type": "Ready", "status": "False", "reason": "SliceInUse"}
    ready["message"] = f"1 GPU waits; eviction refused: {pod}: {why}; other/pod: no"
    ready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    node.objects["MIGLayout"]["mixed"]["status"]["conditions"] = [ready]
    every, gpu = show(node, "/rollout", "/rollout/mixed")
    blocked = f"{pod}: {why}; other/pod: no".replace("'", "&#39;")
    for text in (every, gpu):
        assert f"<b>Blocked: evictions are refused</b>: <bdi>{blocked}" in text
    row = gpu.partition("<tbody>")[2].partition("</tr>")[0]
    assert f"; eviction refused: {pod}: Cannot evict" in row
    assert "other/pod" not in row


def test_gpus_that_have_not_begun_state_why(node: SyntheticCluster) -> None:
    put_layout(node, [{"profile": "3g.40gb", "count": 2}])
    text = show(node, "/rollout/mixed")[0]
    assert text.count("is due: the operator begins some GPUs at a time") == 3
    begin_change(node, 0, 100)
    text = show(node, "/rollout/mixed")[0]
    assert text.count("waits for its turn: 1 of at most 1 at a time (rollout.maxUnavailable:") == 2
    node.objects["MIGLayout"]["mixed"]["status"]["observedGeneration"] = 1
    text = show(node, "/rollout/mixed")[0]
    assert text.count("the operator has not processed the layout&#39;s latest version yet") == 2


def test_without_a_kind_no_rollout_is_shown(node: SyntheticCluster) -> None:
    from gpu_operator import errors

    node.refused["Node"] = errors.Refused("nodes is forbidden")
    text, gpu = show(node, "/rollout", "/gpus/n1-gpu-0")
    assert "No rollout is shown" in text
    assert "GPUs done" not in text
    assert "Layout: " not in gpu


def test_the_plugin_prints_the_same(
    node: SyntheticCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    put_layout(node, [{"profile": "3g.40gb", "count": 2}])
    begin_change(node, 0, 100)
    found = rollout.find_rollouts(world_of(node))
    rollout_text.write_rollouts(found, "", now())
    head, row = (line.split() for line in capsys.readouterr().out.splitlines()[:2])
    assert head[2:8] == [
        *("RECONFIGURING", "WAITING", "NOT-BEGUN", "NOT-HEALTHY", "FAILED", "ROLLED-BACK"),
    ]
    assert row[:8] == ["mixed", "0/3", "0", "1", "2", "0", "0", "0"]
    rollout_text.write_rollouts(found, "wide", now())
    text = capsys.readouterr().out
    assert "n1-gpu-0   waiting for pods   8 min" in text
    assert text.count("not begun") == 2


def test_spans_have_their_two_largest_units() -> None:
    for seconds, text in ((0, "0 s"), (59, "59 s"), (60, "1 min 0 s"), (500, "8 min 20 s")):
        assert format_duration(seconds) == text
    assert format_duration(3600 + 119) == "1 h 1 min"
    assert format_duration(86400 * 2 + 3600) == "2 d 1 h"


@pytest.mark.parametrize(
    ("reason", "health"),
    [("Unhealthy", "Unhealthy: Xid 109"), ("Suspect", "Suspect: kernel hangs")],
)
def test_a_gpu_that_only_hangs_has_not_failed_to_change(
    node: SyntheticCluster, reason: str, health: str
) -> None:
    gpu = node.objects["GPU"]["n1-gpu-0"]
    gpu["status"]["health"] = health
    degraded = {**gpu["status"]["conditions"][0], "type": "Degraded", "status": "True"}
    degraded |= {"reason": reason, "message": f"GPU-1 is {health}"}
    gpu["status"]["conditions"].append(degraded)
    (found,) = rollout.find_rollouts(world_of(node))
    assert (found.counts[Phase.UNHEALTHY], found.counts[Phase.FAILED]) == (1, 0)
    every, one, page = show(node, "/rollout", "/rollout/mixed", "/gpus/n1-gpu-0")
    for text in (one, page):
        assert f"GPU-1 is {health}; its slices are those of the layout" in text
    for text in (every, one, page):
        assert "not healthy" in text
        assert "failed" not in text.partition("<main")[2].partition("<h2>Slices")[0]
    gpu["status"]["slices"].pop()
    assert "its slices are not yet those of the layout" in show(node, "/rollout/mixed")[0]
    gpu["status"]["conditions"][-1]["reason"] = "AgentError"
    (found,) = rollout.find_rollouts(world_of(node))
    assert (found.counts[Phase.UNHEALTHY], found.counts[Phase.FAILED]) == (0, 1)


def roll_back(cluster: SyntheticCluster, pod: str) -> None:
    """Have the operator roll back a GPU and report it."""
    put_layout(cluster, [{"profile": "3g.40gb", "count": 2}])
    why = f"n1-gpu-0: not done in 600 s, rolled back: 1g.10gb@0 is held by pod {pod}"
    noted = {ROLLED_BACK: "u/2", ROLLED_BACK_WHY: why}
    begin_change(cluster, 0, 700)["metadata"]["annotations"] |= noted
    degraded = {"type": "Degraded", "status": "True", "reason": "DeadlineExceeded", "message": why}
    degraded["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    status = {"gpusApplied": 2, "conditions": [degraded]}
    cluster.objects["MIGLayout"]["mixed"]["status"] |= status


def test_after_a_roll_back_the_pages_state_how_to_try_again(
    node: SyntheticCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    roll_back(node, "ml/big")
    command = "kubectl patch miglayout mixed --type=merge -p "
    patch = '\'{"spec":{"rollout":{"deadlineSeconds":1200}}}\''
    for page in show(node, "/rollout/mixed", "/gpus/n1-gpu-0"):
        assert command + patch in html.unescape(page)
        assert "also when the pods in the way have ended" in page
    assert command not in show(node, "/gpus/n1-gpu-1")[0]
    found = rollout.find_rollouts(world_of(node))
    for form in ("", "wide"):
        rollout_text.write_rollouts(found, form, now())
        assert command + patch in capsys.readouterr().err
    rollout_text.write_rollouts(found, "json", now())
    assert command in json.loads(capsys.readouterr().out)["layouts"][0]["retry"]


def test_a_rolled_back_layout_is_a_problem_on_the_page_of_the_fleet(
    node: SyntheticCluster,
) -> None:
    roll_back(node, "ml/big")
    fleet, machine, gpu = show(node, "/", "/nodes/n1", "/gpus/n1-gpu-0")
    (note,) = re.findall(r'<p class="note bad">Layouts that are not(.*?)</p>', fleet, re.DOTALL)
    assert "(2 of 3 GPUs; <bdi>DeadlineExceeded: n1-gpu-0: not done in 600 s, rolled" in note
    assert machine.count("layout mixed, rolled back") == 1
    for page in (machine, gpu):
        assert page.count('</a> <span class="tag fault">rolled back</span>') == 1
    assert "The GPU's condition Ready is about the slices that were restored" in gpu
    node.objects["MIGLayout"]["mixed"]["metadata"]["generation"] = 3  # an edit: a new attempt
    fleet, machine = show(node, "/", "/nodes/n1")
    assert "DeadlineExceeded" not in fleet
    assert '<p class="note">Layouts that are not' in fleet
    assert "rolled back" not in machine


def test_pods_that_messages_of_a_rollout_name_are_links(node: SyntheticCluster) -> None:
    pod = synthetic.add_pending_pod(node, "ml", "big", {"gpu.tessera.dev/mig-1g.10gb": "1"})
    pod["spec"]["nodeName"] = "n1"
    roll_back(node, "ml/big")
    link = '<a href="/pods/ml/big" title="ml/big">'
    every, one, gpu, fleet = show(node, "/rollout", "/rollout/mixed", "/gpus/n1-gpu-0", "/")
    assert one.count(link) == 3  # headline, row of the GPU, condition
    for page in (every, gpu, fleet):
        assert link in page
