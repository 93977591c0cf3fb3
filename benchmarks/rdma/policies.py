"""RDMA policies at the size of a large cluster: ``python -m benchmarks.rdma.policies``.

10,000 pods on 200 nodes, in 100 namespaces, with 50 values of one label and 3 of another that
selectors use, and one label that is different for each pod and used by no selector; 1,000
policies of two rules each. Everything is generated from a fixed seed. Times are CPU times of
this process, which computes and never waits, the least of several rounds; compilation times do
not include reading manifests and writing text.
"""

import gc
import random
import sys
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from benchmarks.report import Row, Section, machine, table
from rdma import codec
from rdma.compiling.compiler import Compiler
from rdma.evaluator import Evaluator
from rdma.objects import NamespaceFacts, Network, PodFacts, Policy
from rdma.reading.manifests import network_of, policy_of
from rdma.tables import Flow, NodeTables

PODS = 10_000
POLICIES = 1_000
NAMESPACES = 100
NODES = 200
ROUNDS = 7
FLOWS = 2_000


class Cluster:
    """Objects of a cluster, generated from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.namespaces = [
            NamespaceFacts(f"ns{i}", {"team": f"t{i % 10}", "env": "prod" if i % 3 else "dev"})
            for i in range(NAMESPACES)
        ]
        self.pods = [self.pod(i) for i in range(PODS)]
        self.policies = [self.policy(i) for i in range(POLICIES)]
        self.network = self._network()

    def pod(self, number: int) -> PodFacts:
        """Return a pod."""
        labels = {
            "app": self._app(),
            "tier": str(self.random.randrange(3)),
            "pod-template-hash": f"{number:x}",
        }
        address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        namespace, node = f"ns{number % NAMESPACES}", f"node{number % NODES}"
        return PodFacts(f"uid{number}", namespace, f"p{number}", node, labels, (address,))

    def policy(self, number: int) -> Policy:
        """Return a policy."""
        return policy_of(f"ns{number % NAMESPACES}", f"policy{number}", self.policy_spec())

    def policy_spec(self) -> dict[str, Any]:
        """Return a spec: an application's peers by label and by team, and allowed destinations."""
        team = {"matchLabels": {"team": f"t{self.random.randrange(10)}"}}
        front = {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["0", "1"]}]}
        block = {"cidr": "10.0.0.0/8", "except": ["10.0.1.0/24"]}
        return {
            "podSelector": {"matchLabels": {"app": self._app()}},
            "ingress": [
                {
                    "from": [
                        {"podSelector": {"matchLabels": {"app": self._app()}}},
                        {"namespaceSelector": team, "podSelector": front},
                    ],
                    "verbs": ["Read", "Send", "CM"],
                }
            ],
            "egress": [{"to": [{"ipBlock": block}, {"namespaceSelector": {}}]}],
        }

    def _network(self) -> Network:
        team = {"matchLabels": {"team": "t1"}}
        members: list[Any] = [{"namespaceSelector": team, "membership": "Full"}]
        return network_of("lab", {"partitions": [{"name": "t1", "members": members}]})

    def _app(self) -> str:
        return f"app{self.random.randrange(50)}"


def compile_tables(cluster: Cluster) -> tuple[Compiler, NodeTables]:
    """Compile all policies, and make one node's tables."""
    compiler = Compiler()
    for namespace in cluster.namespaces:
        compiler.upsert_namespace(namespace)
    compiler.upsert_network(cluster.network)
    for pod in cluster.pods:
        compiler.upsert_pod(pod)
    for policy in cluster.policies:
        compiler.upsert_policy(policy)
    return compiler, compiler.tables("node1", 1)


def _least_ms(act: Callable[[], object]) -> float:
    times_s = []
    for _ in range(ROUNDS):
        gc.collect()
        started = time.process_time()
        outcome = act()
        times_s.append(time.process_time() - started)
        del outcome  # deallocation is not measured
    return min(times_s) * 1e3


def measure() -> Section:
    """Measure the compilation of the policies."""
    cluster = Cluster(seed=1)
    numbers = count(PODS)
    full = _least_ms(lambda: compile_tables(cluster))
    compiler, tables = compile_tables(cluster)

    def edit_policy() -> None:
        compiler.upsert_policy(cluster.policy(5))
        compiler.tables("node1", 2)

    def add_pod() -> None:
        compiler.upsert_pod(cluster.pod(next(numbers)))
        compiler.tables("node1", 2)

    def relabel_namespace() -> None:
        team = f"t{cluster.random.randrange(10)}"
        compiler.upsert_namespace(NamespaceFacts("ns5", {"team": team, "env": "dev"}))
        compiler.tables("node1", 2)

    edits = [_least_ms(act) for act in (edit_policy, add_pod, relabel_namespace)]
    evaluator = Evaluator(tables)
    pick = cluster.random.choice
    flows = [
        Flow(pick(cluster.pods).addresses[0], pick(cluster.pods).addresses[0]) for _ in range(FLOWS)
    ]
    verdict_us = _least_ms(lambda: [evaluator.evaluate(flow) for flow in flows]) / FLOWS * 1e3
    text = codec.encode(tables)
    size = f"{PODS:,} pods x {POLICIES:,} policies, {len(tables.identities):,} identities"
    one_node = "and one node's tables"
    rows = (
        Row("policy", f"{size}: compile all, {one_node}", full, "ms", 100),
        Row("policy", f"one policy edited, {one_node}", edits[0], "ms", 10),
        Row("policy", f"one pod added, {one_node}", edits[1], "ms", 10),
        Row("policy", f"labels of a namespace, {one_node}", edits[2], "ms", 10),
        Row("policy", "one verdict", verdict_us, "us", 50),
        Row("policy", "tables as text", len(text) / 1e6, "MB"),
        Row("policy", "to write them", _least_ms(lambda: codec.encode(tables)), "ms"),
        Row("policy", "to read them", _least_ms(lambda: codec.decode(text)), "ms"),
    )
    return Section("rdma policies", rows)


if __name__ == "__main__":
    print(machine(), flush=True)
    section = measure()
    print(table([section]))
    sys.exit(any(row.verdict == "MISSED" for row in section.rows))
