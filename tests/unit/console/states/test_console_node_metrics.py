"""The slices of an exporter's table: each has a link, and a GPU that is not divided has its own."""

import random

from unit.console.test_console_devices import show

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from support.rigs.fake_exporters import FakeProxy, exporter_of

ANSWER = """
DCGM_FI_DEV_FB_USED{gpu="0",GPU_I_PROFILE="1g.10gb",GPU_I_ID="13"} 1
DCGM_FI_DEV_FB_USED{gpu="1",namespace="ml",pod="big-model"} 2
"""


def test_slices_are_links_and_a_whole_gpu_has_one() -> None:
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=2)
    sliced, whole = (cluster.objects["GPU"][f"n1-gpu-{n}"]["status"] for n in range(2))
    (uuid,) = [one["uuid"] for one in sliced["slices"] if one["start"] == 6]
    first = whole["slices"][0] | {"profile": "whole", "start": 0, "uuid": "GPU-whole"}
    whole["slices"] = [first]
    text = show(cluster, FakeProxy(ANSWER.encode(), [exporter_of("n1")]))
    cell = '<td data-label="Slice"><a href="/slices/'
    assert f'{cell}{uuid}"><bdi>1g.10gb@6 (instance 13)</bdi></a>' in text
    assert f'{cell}GPU-whole"><bdi>whole@0</bdi></a>' in text
