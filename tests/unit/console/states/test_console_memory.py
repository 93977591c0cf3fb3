"""What the model keeps of a large cluster: each text once, and nothing that no page needs."""

import asyncio
import random
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.console import synthetic
from benchmarks.console.__main__ import _write_kubeconfig
from benchmarks.console.scenes import add_holders
from benchmarks.console.synthetic import SyntheticCluster
from console import command, serving
from console.model.cluster import ClusterModel
from gpu_operator.kube.client import KubernetesCluster
from gpu_operator.kube.port import Chosen
from support.rigs.console_rig import open_console


@pytest.fixture
def cluster() -> SyntheticCluster:
    """Return a node of two H100s with seven slices each, and the pods that hold them."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=2)
    add_holders(cluster)
    return cluster


def model_of(cluster: SyntheticCluster) -> ClusterModel:
    async def whole() -> ClusterModel:
        async with open_console(cluster) as console:
            return console.model

    return asyncio.run(whole())


def test_the_key_of_a_pod_is_one_text(cluster: SyntheticCluster) -> None:
    pods = model_of(cluster).pods
    assert len(pods) == 12
    for key, pod in pods.items():
        assert key is pod.key
        assert sys.getrefcount(key) < 6  # the record, the dictionary, and this test
        assert f"{pod.namespace}/{pod.name}" == key


def test_changes_for_controllers_are_not_kept(cluster: SyntheticCluster) -> None:
    model = model_of(cluster)
    assert len(model.world().gpus) == 2
    assert not model._store.take_changes()


def test_a_pod_that_goes_while_nothing_watches_is_removed(cluster: SyntheticCluster) -> None:
    gone = next(key for key in cluster.objects["Pod"] if not key.startswith("tessera-system/"))

    async def whole() -> None:
        async with open_console(cluster) as console:
            assert gone in console.model.pods
            del cluster.objects["Pod"][gone]  # no watch reports it
            for queue in cluster._queues["Pod"]:
                about = {"metadata": {"name": "x", "namespace": "y"}, "code": 410}
                queue.put_nowait({"type": "ERROR", "object": about})
            while gone in console.model.pods:
                assert await console.model.wait(console.model.version, 10)
            assert len(console.model.pods) == 11

    asyncio.run(whole())


def test_lists_are_read_in_short_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of 500 pods with its text would be tens of megabytes."""
    limits: list[int] = []

    async def serve(cluster: KubernetesCluster, *_: object, **__: object) -> None:
        async def get(*_: object, limit: int, **__: object) -> object:
            limits.append(limit)
            raise ConnectionResetError

        monkeypatch.setattr(cluster._dynamic, "get", get)
        with pytest.raises(Exception, match="list Pod"):
            await cluster.page("Pod", Chosen())

    monkeypatch.setattr(serving, "serve", serve)
    file = _write_kubeconfig(str(tmp_path), 1)
    done = CliRunner().invoke(command.command, ["--no-browser", "--kubeconfig", str(file)])
    assert done.exit_code == 0, done.output
    assert limits == [100]
