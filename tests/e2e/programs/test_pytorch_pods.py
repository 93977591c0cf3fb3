"""PyTorch's stock wheel in pods: the examples' Job and Deployment, with the numbers of the CPU.

Skipped unless TESSERA_TEST_TORCH_PYTHON names a Python with the wheel that the workers see.
"""

import re
import urllib.request

import pytest

from support.cluster.kubectl import Cluster, forward_port, until
from support.cluster.pytorch_pods import (
    FOLDER,
    Wheel,
    find_wheel,
    manifest,
    programs,
    require_in_nodes,
)

pytestmark = pytest.mark.slow
_LOSS = re.compile(r"^step \d+ loss ([\d.]+)", re.MULTILINE)
_SLICE = re.compile(r"^NVIDIA .* MIG 1g.10gb (\S+)$", re.MULTILINE)
_ENDS_WITHIN_S = 900


@pytest.fixture
def wheel(whole_cluster: Cluster) -> Wheel:
    found = find_wheel()
    require_in_nodes(whole_cluster, found)
    return found


def _pod(cluster: Cluster, job: str) -> str:
    pods = until(lambda: cluster.get("pods", "-l", f"job-name={job}")["items"], 60)
    return str(pods[0]["metadata"]["name"])


def _is_over(cluster: Cluster, job: str) -> bool:
    status = cluster.get("job", job)["status"]
    return bool(status.get("succeeded") or status.get("failed"))


def test_two_jobs_on_two_slices_train_with_the_numbers_of_the_cpu(
    namespace: Cluster, wheel: Wheel
) -> None:
    names = ("train-0", "train-1")
    jobs = [manifest("job.yaml", wheel, name) for name in names]
    # Another user than root has no home in the image.
    jobs[1]["spec"]["template"]["spec"]["securityContext"] = {"runAsUser": 1000}
    namespace.apply(programs(), *jobs)
    expected = [float(one) for one in _LOSS.findall(wheel.run(str(FOLDER / "train.py"), "cpu"))]
    assert len(expected) == 20
    until(lambda: all(_is_over(namespace, name) for name in names), _ENDS_WITHIN_S)
    slices = set()
    for name in names:
        log = namespace.logs(_pod(namespace, name))
        assert namespace.get("job", name)["status"].get("succeeded"), log
        losses = [float(one) for one in _LOSS.findall(log)]
        assert losses == pytest.approx(expected, rel=1e-4), log
        slices.update(_SLICE.findall(log))
    assert len(slices) == 2


def test_a_deployment_generates_what_the_cpu_generates(namespace: Cluster, wheel: Wheel) -> None:
    namespace.apply(programs(), manifest("deployment.yaml", wheel, "serve"))
    until(
        lambda: namespace.get("deployment", "serve")["status"].get("readyReplicas"), _ENDS_WITHIN_S
    )
    program = (
        "import torch; from model import *; torch.manual_seed(0);"
        "print(generate(GPT().eval(), b'import', 16, 'cpu').hex())"
    )
    (pod,) = namespace.get("pods", "-l", "app=pytorch-serve")["items"]
    with (
        forward_port(pod["metadata"]["name"], 8000, namespace.namespace, "/import") as address,
        urllib.request.urlopen(address, timeout=120) as answer,
    ):
        assert answer.read().decode() == wheel.run("-c", program)
        with urllib.request.urlopen(f"{address.removesuffix('/import')}/metrics") as metrics:
            assert "\nhttp_requests_total 1\n" in metrics.read().decode()
