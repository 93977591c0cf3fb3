"""A process with many nodes: the agents' real code on stand-ins for gpud and the kubelet.

``python -m benchmarks.scale.fleet FIRST LAST``; commands are lines on standard input: ``hold``
gives a slice of each GPU to a pod, ``free`` ends all pods; a node's name restricts a command to
that node. The answer to each is one line: how many slices were given.
"""

import argparse
import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes.client import ApiClient, CoreV1Api
from kubernetes.client.configuration import Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config.kube_config import load_kube_config_from_dict

from benchmarks.scale import gpud as gpud_stand_in
from benchmarks.scale.kubelet import OWN_POD, NodeKubelet
from device_plugin.agent import loop
from device_plugin.agent.events import EventFollower
from device_plugin.agent.functions import FunctionBinder
from device_plugin.agent.holders import Holders
from device_plugin.agent.reporting.notices import Notices
from device_plugin.backends.gpud import Gpud
from device_plugin.backends.hcad import Hcad
from device_plugin.config import Settings
from device_plugin.kube.client import FIELD_MANAGER, Kube
from device_plugin.kube.gpu_watch import GpuWatch

IDLE_PASS_S = 60.0
"""Pause between idle passes; 5 s on a node, but a thousand nodes share cores here."""


def name_of(number: int) -> str:
    """Return the name of a node."""
    return f"node-{number:05d}"


def main() -> None:
    """Run until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int, help="the first that is not here any more")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--agent", type=Path, required=True, help="kubeconfig of agents")
    parser.add_argument("--kubelet", type=Path, required=True, help="kubeconfig of kubelets")
    parser.add_argument("--pod-lasts", type=float, default=3.0, metavar="SECONDS")
    parser.add_argument("--slow", type=int, nargs="*", default=(), help="nodes that are slow")
    parser.add_argument("--away", type=int, nargs="*", default=(), help="nodes without an agent")
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR, filename=options.root / f"fleet-{options.first}.log")
    urllib3.disable_warnings()  # the API server has a self-signed certificate
    threading.stack_size(512 << 10)
    loop._RESYNC_S = IDLE_PASS_S
    numbers = [n for n in range(options.first, options.last) if n not in options.away]
    gpuds = {n: gpud_stand_in.NodeGpus(1.0 if n in options.slow else 0.0) for n in numbers}
    _serve_gpuds(options.root, gpuds)
    client = _client(options.agent, FIELD_MANAGER)
    kubelets = [NodeKubelet(name_of(n), options.pod_lasts) for n in numbers]
    for number, kubelet in zip(numbers, kubelets, strict=True):
        _start_agent(options.root, number, kubelet, client)
    api = CoreV1Api(_client(options.kubelet, "kubelet"))
    threading.Thread(target=_report, args=(api, kubelets), daemon=True).start()
    print("started", flush=True)
    _obey({kubelet.node: kubelet for kubelet in kubelets})


def _obey(kubelets: dict[str, NodeKubelet]) -> None:
    for line in sys.stdin:
        verb, _, name = line.strip().partition(" ")
        chosen = [kubelets[name]] if name in kubelets else [] if name else list(kubelets.values())
        slice_count = 0
        for kubelet in chosen:
            if verb == "hold":
                slice_count += kubelet.hold()
            elif verb == "free":
                kubelet.free()
        for node in [k.node for k in chosen]:
            _WAKES[node].set()
        print(slice_count, flush=True)


_WAKES: dict[str, threading.Event] = {}


def _start_agent(root: Path, number: int, kubelet: NodeKubelet, client: ApiClient) -> None:
    """Wire one agent as ``device_plugin.agent_process`` does."""
    name = name_of(number)
    home = root / name
    (home / "lib" / "build").mkdir(parents=True)
    (home / "cdi").mkdir()
    settings = Settings(
        node_name=name, pod_name=OWN_POD, run_dir=home, cdi_dir=home / "cdi", budget="64Gi"
    )
    wake = _WAKES[name] = threading.Event()
    kube = Kube(name, client)
    gpud = Gpud(settings.gpud_socket)
    pods: Any = kubelet
    holders = Holders(pods, gpud, OWN_POD)
    notices = Notices(kube)
    hcad = Hcad(settings.hcad_socket)
    binder = FunctionBinder((), 0, hcad, holders, kube, notices)
    watch = GpuWatch(kube, wake.set)
    libraries = home / "lib" / "build"
    agent = loop.Agent(settings, gpud, holders, watch, kubelet, libraries, wake, notices, binder)
    follower = EventFollower(Gpud(settings.gpud_socket), holders, notices, wake.set)
    for body in (follower.run, notices.run, watch.run, agent.run):
        threading.Thread(target=body, daemon=True).start()


def _serve_gpuds(root: Path, gpuds: dict[int, gpud_stand_in.NodeGpus]) -> None:
    loop_ = asyncio.new_event_loop()
    ready = threading.Event()

    async def serve() -> None:
        for number, node in gpuds.items():
            home = root / name_of(number)
            home.mkdir()
            await gpud_stand_in.serve(home / "gpud.sock", node)
        ready.set()

    threading.Thread(target=loop_.run_forever, daemon=True).start()
    asyncio.run_coroutine_threadsafe(serve(), loop_)
    ready.wait()


def _report(api: CoreV1Api, kubelets: Sequence[NodeKubelet]) -> None:
    """Write the nodes' statuses that are due."""
    while True:
        now_s = time.monotonic()
        for kubelet in kubelets:
            patch = kubelet.status(now_s)
            if patch is not None:
                with contextlib.suppress(ApiException):  # the next difference writes it
                    api.patch_node_status(kubelet.node, patch)
        time.sleep(0.2)


def _client(kubeconfig: Path, agent: str) -> ApiClient:
    configuration = Configuration()
    document = yaml.safe_load(kubeconfig.read_text())
    load_kube_config_from_dict(document, client_configuration=configuration)
    configuration.retries = False
    configuration.connection_pool_maxsize = 4096
    client = ApiClient(configuration)
    client.user_agent = agent
    return client


if __name__ == "__main__":
    main()
