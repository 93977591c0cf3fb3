"""NVIDIA's names in a cluster: the command, the RuntimeClass, variables, CDI, and third-party
manifests.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cluster.kubectl import SAMPLE_IMAGE, Cluster, until
from support.oracles import schedulable
from support.programs import helm_chart

pytestmark = pytest.mark.alone
CORPUS = Path(__file__).parents[2] / "support" / "recorded" / "manifests"
OFFERED = {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 7}


def edit(cluster: Cluster, prefix: str, nvidia_smi: bool) -> None:
    """Change the policy as a user would, and wait as the documentation describes."""
    spec = (
        f'{{"resourcePrefix": "{prefix}", "nvidiaSmi": {{"enabled": {str(nvidia_smi).lower()}}}}}'
    )
    cluster.kubectl("patch", "gpupolicy", "default", "--type=merge", "-p", f'{{"spec": {spec}}}')
    wait = ["wait", "--for=condition=Ready", "gpupolicy/default", "miglayout/seven"]
    cluster.kubectl(*wait, "--timeout=150s")


@pytest.fixture(scope="module")
def nvidia_names(whole_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with `--set resourcePrefix=nvidia.com --set nvidiaSmi.enabled=true`."""
    found = helm_chart.render("resourcePrefix=nvidia.com")
    whole_cluster.apply(found["RuntimeClass"]["nvidia"])
    edit(whole_cluster, "nvidia.com", True)

    def offered(*names: str) -> bool:
        nodes = whole_cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
        return all(
            node["status"]["allocatable"].get(name) == str(OFFERED[name])
            for node in nodes
            for name in names
        )

    assert offered("nvidia.com/mig-1g.10gb"), "the policy was Ready too early"
    until(lambda: offered(*OFFERED), 60)
    yield whole_cluster
    edit(whole_cluster, "gpu.tessera.dev", False)
    whole_cluster.delete("runtimeclass", "nvidia")


def pod(name: str, script: str, limits: dict[str, int], **spec: Any) -> dict[str, Any]:
    """Return a pod that runs a script; ``spec`` may include ``env`` and ``annotations``."""
    container = {
        "name": "main",
        "image": SAMPLE_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "env": [{"name": n, "value": v} for n, v in spec.pop("env", {}).items()],
        "resources": {"limits": limits},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": spec.pop("annotations", {})},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def test_an_edited_prefix_is_named_in_the_policy_and_the_pool(
    nvidia_names: Cluster, namespace: Cluster, sample_pod: Callable[..., dict[str, Any]]
) -> None:
    accepted = nvidia_names.condition("gpupolicy/default", "Accepted")
    assert accepted[:2] == ("True", "Overridden")
    assert "resourcePrefix is nvidia.com, not the chart's gpu.tessera.dev" in accepted[2]
    assert nvidia_names.get("gpupool", "demo")["status"]["resourcePrefix"] == "nvidia.com"
    nvidia_names.wait_for_event("default", "Overridden")
    until(lambda: nvidia_names.condition("gpupolicy/default", "Ready").status == "True")
    whole = sample_pod("unchanged", "--n", "1024")
    whole["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": 1}
    namespace.apply(whole)
    ended = namespace.wait_pod("unchanged")["status"]["phase"]
    assert ended == "Succeeded", namespace.logs("unchanged")
    assert "SMs      132" in namespace.logs("unchanged").splitlines()


def test_a_manifest_for_nvidias_stack_runs_unchanged(
    nvidia_names: Cluster, namespace: Cluster
) -> None:
    script = 'nvidia-smi -L && echo "$NVIDIA_VISIBLE_DEVICES" && nvidia-smi -q -x'
    variables = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
    namespace.apply(
        pod("theirs", script, {"nvidia.com/gpu": 1}, env=variables, runtimeClassName="nvidia")
    )
    ended = namespace.wait_pod("theirs")
    said = namespace.logs("theirs")
    assert ended["status"]["phase"] == "Succeeded", said
    listed, variable, xml = said.split("\n", 2)
    match = re.fullmatch(r"GPU 0: NVIDIA H100 80GB HBM3 \(UUID: (GPU-[0-9a-f-]{36})\)", listed)
    assert match, "one GPU, although the manifest says all"
    assert variable == "all"
    assert [gpu.findtext("uuid") for gpu in ET.fromstring(xml).iter("gpu")] == [match.group(1)]


def test_the_variable_says_which_slice_was_given(nvidia_names: Cluster, namespace: Cluster) -> None:
    script = 'nvidia-smi -L; echo "$NVIDIA_VISIBLE_DEVICES"'
    namespace.apply(pod("slice", script, {"nvidia.com/mig-1g.10gb": 1}))
    namespace.wait_pod("slice", "Succeeded")
    _, device, variable = namespace.logs("slice").splitlines()
    match = re.fullmatch(r"  MIG 1g\.10gb     Device  0: \(UUID: (MIG-[0-9a-f-]{36})\)", device)
    assert match
    assert variable == match.group(1)


def test_names_and_variables_open_nothing(nvidia_names: Cluster, namespace: Cluster) -> None:
    """Neither a pod's annotation nor a variable gives a container access through containerd."""
    script = "command -v nvidia-smi; ls -d /run/tessera; true"
    annotations = {"cdi.k8s.io/all": "nvidia.com/gpu=all"}
    everything = {"NVIDIA_VISIBLE_DEVICES": "all"}
    greedy = pod("greedy", script, {}, env=everything, annotations=annotations)
    greedy["spec"]["runtimeClassName"] = "nvidia"
    namespace.apply(greedy, pod("without", script, {}, env=everything))
    for name in ("greedy", "without"):
        namespace.wait_pod(name, "Succeeded")
        said = namespace.logs(name)
        assert "nvidia-smi" not in said
        assert "cannot access '/run/tessera'" in said


def corpus() -> Iterator[dict[str, Any]]:
    """Yield a pod for each pod template of the corpus that fits the sample nodes."""
    for path in sorted(CORPUS.glob("*/*.yaml")):
        if path.parent.name not in {"mixed", "whole"}:
            continue  # these need another strategy, or sharing
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        for index, spec in enumerate(schedulable.pod_specs(documents)):
            if any(
                count > OFFERED.get(n, 0)
                for n, count in schedulable.requested_devices(spec).items()
            ):
                continue
            for container in (*spec["containers"], *spec.get("initContainers", ())):
                for name in ("args", "readinessProbe", "ports"):
                    container.pop(name, None)
                container |= {
                    "image": SAMPLE_IMAGE,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["true"],
                }
            spec.pop("schedulerName", None)
            spec.pop("priorityClassName", None)
            # Control groups v1 can refuse a container that starts (ENODEV) when another one ends.
            spec["restartPolicy"] = "OnFailure"
            metadata = {"name": f"{path.stem}-{index}"}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_other_peoples_manifests_are_scheduled_and_run(
    nvidia_names: Cluster, namespace: Cluster
) -> None:
    pods = list(corpus())
    assert len(pods) >= 28
    namespace.apply(*pods)

    def phases() -> dict[str, str]:
        items = namespace.get("pods")["items"]
        return {item["metadata"]["name"]: item["status"]["phase"] for item in items}

    def ended() -> bool:
        return {"Succeeded"} == set(phases().values())

    try:
        until(ended, 120, every_s=2)
    except TimeoutError:
        waiting = {name: phase for name, phase in phases().items() if phase != "Succeeded"}
        events = namespace.kubectl("get", "events", "--sort-by=.lastTimestamp").splitlines()
        raise AssertionError(f"{waiting}\n" + "\n".join(events[-30:])) from None
