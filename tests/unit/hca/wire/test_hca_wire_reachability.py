"""The reachability matrix over a wire: requests between two engines, compared with an oracle.

Each engine has its own tables, as the hcads of two nodes do, and they share no memory. The
connections are RC, and UC, which reports no errors, so that only arrival is compared.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import permutations
from typing import Any

import pytest

from hca.contract.verbs import (
    VerbsMask,
    VerbsQpType,
    VerbsState,
    VerbsStatus as Status,
)
from rdma.compiling.compiler import Compiler
from support.oracles.rdma_oracle import Try, World, allowed_verbs
from support.rigs.hca_rig import BASE, OPCODES, Cq, until
from support.wire import wire_rig
from support.wire.wire_judging import Node
from support.worlds.rdma_world import TRAIN, Dict, load, nine, pairwise_specs, policy

OF_UC = ("Send", "Write", "WriteImm")
HOME = "here"
TRAFFIC_CLASS = 104
SPECS = pairwise_specs()
# Same namespace and different ones, full and limited members; policies select either end or none.
PAIRS = (("a/x", "a/y"), ("b/z", "a/x"), ("c/y", "b/x"), ("a/y", "c/z"), ("b/y", "b/z"))
CASES = range(2 * len(SPECS))  # each of the policies, between two of the pairs
SENT = b"matrix!!"
OURS = 100 + os.getpid() % 150  # in addresses, because other test workers use the nine pods, too
UNSEEN_S = 0.005  # a packet takes some 50 us; a dropped one causes no event


def move_to_loopback(document: Any) -> Any:
    """Return a document with loopback addresses in place of the pods'."""
    return json.loads(json.dumps(document).replace('"10.0.', f'"127.{OURS}.'))


def world_of(number: int) -> World:
    """Return the nine pods under one case's policies; every second case has partitions."""
    world = nine()
    world.pods = move_to_loopback(world.pods)
    for one in world.pods:
        one["spec"]["nodeName"] = HOME
    spec = move_to_loopback(SPECS[number % len(SPECS)])
    world.policies = [policy(spec), policy(spec, space="b")]
    world.networks = [TRAIN] if number % 2 else []
    return world


class Case:
    """Two pods of one case, each on its own engine, and the oracle's verdicts for them."""

    def __init__(self, number: int, nodes: tuple[Node, Node]) -> None:
        self.nodes = nodes
        self.world = world_of(number)
        compiler = load(Compiler(), self.world)
        for node in nodes:
            node.replace_tables(compiler.tables(HOME, 1))
        self.world.keys = dict(compiler.pkeys)
        self.regions = {node.ip: node.region(4096) for node in nodes}

    def may(self, source: Node, destination: Node) -> set[str]:
        pkey = source.enforcer.pkeys_at(source.ip)[0]  # programs request index 0
        flow = Try(source.ip, destination.ip, pkey, qpn=destination.qp.number)
        flow.traffic_class = TRAFFIC_CLASS
        return allowed_verbs(self.world, flow)[0]

    def ways(self) -> list[tuple[Node, Node, set[str]]]:
        """Return the two directions with their allowed verbs; nothing if neither allows any."""
        found = [(one, other, self.may(one, other)) for one, other in permutations(self.nodes)]
        return found if any(passing for *_, passing in found) else []

    def connect(self, silent: bool = False) -> bool:
        """Connect both again; return whether policy allows it. ``silent``: expect no response."""
        a, b = self.nodes
        for node, peer in ((a, b), (b, a)):
            node.qp.modify(VerbsMask.STATE, state=VerbsState.RESET)
            for queue in (node.send_cq, node.recv_cq):
                drain(queue)
            waits: Dict = {"timeout": 8, "retry_count": 0} if silent else {}
            values: Dict = {**wire_rig.RELIABLE, **waits, "traffic_class": TRAFFIC_CLASS}
            values |= {"sgid_index": 1, "dgid": peer.gid, "dest_qpn": peer.qp.number}
            try:
                node.qp.connect(node.qp, **values)
            except PermissionError:
                return False
        return True

    def ask(self, source: Node, destination: Node, verb: str) -> int:
        """Let ``source`` request something from ``destination``; return the requester's status."""
        here, there = self.regions[source.ip], self.regions[destination.ip]
        here.view[:8] = SENT
        there.view[:8] = bytes(8)
        if verb in ("Send", "WriteImm"):
            destination.qp.receive((BASE, 8, there.key))
        source.qp.send(
            *(OPCODES[verb], [(BASE, 8, here.key)]), remote_address=BASE, remote_key=there.key
        )
        return source.send_cq.poll().status


def drain(queue: Cq) -> None:
    queue.tail = queue.page.tail = queue.page.head


@contextmanager
def case_of(number: int, engines: Any, kind: VerbsQpType) -> Iterator[Case]:
    """Return a case with its two pods, which are different for each number."""
    addresses = {
        f"{one['metadata']['namespace']}/{one['metadata']['name']}": one["status"]["podIP"]
        for one in move_to_loopback(nine().pods)
    }
    with ExitStack() as stack:
        nodes = []
        for engine, pod in zip(engines, PAIRS[number % len(PAIRS)], strict=True):
            nodes.append(Node(engine, addresses[pod], kind=kind))
            stack.callback(nodes[-1].close)
        yield Case(number, (nodes[0], nodes[1]))


def expect_status(verb: str, passing: set[str]) -> int:
    """Return the status that the semantics table of docs/rdma.md requires."""
    if verb in passing:
        return Status.SUCCESS
    return Status.REM_ACCESS_ERR if passing else Status.RETRY_EXC_ERR


@pytest.mark.parametrize("number", CASES)
def test_requests_over_a_wire_end_as_the_oracle_predicts(number, engines):
    with case_of(number, engines, VerbsQpType.RC) as case:
        ways = case.ways()
        if not ways:
            assert not case.connect()
            return
        wrong = []
        for source, destination, passing in ways:
            ended = True
            for verb in OPCODES:
                wanted = expect_status(verb, passing)
                if ended:
                    assert case.connect(silent=not passing)
                status = case.ask(source, destination, verb)
                if status != wanted:
                    wrong.append(f"{verb} {source.ip} to {destination.ip}: {status}, not {wanted}")
                ended = status != Status.SUCCESS
        assert wrong == [], case.world.policies


@pytest.mark.parametrize("number", CASES[::3])
def test_unreliable_messages_arrive_as_the_oracle_predicts(number, engines):
    with case_of(number, engines, VerbsQpType.UC) as case:
        ways = case.ways()
        if not ways:
            assert not case.connect()
            return
        wrong = []
        for source, destination, passing in ways:
            there = case.regions[destination.ip]
            for verb in OF_UC:
                assert case.connect()
                assert case.ask(source, destination, verb) == Status.SUCCESS
                if verb in passing:
                    until(lambda there=there: bytes(there.view[:8]) == SENT)
                else:
                    time.sleep(UNSEEN_S)
                arrived = bytes(there.view[:8]) == SENT
                if arrived != (verb in passing):
                    wrong.append(f"{verb} {source.ip} to {destination.ip}: arrived {arrived}")
        assert wrong == [], case.world.policies
