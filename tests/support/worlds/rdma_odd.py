"""Random worlds: pods, networks and policies that the API server's schemas accept, from a seed."""

import random
from typing import Any

from rdma.verbs import NAMES
from support.oracles.rdma_oracle import World
from support.worlds.rdma_world import Dict, network, nine, policy

KEYS = ("pod", "app", "ns", "team", "kubernetes.io/metadata.name", "missing")
VALUES = ("", "x", "y", "z", "web", "db", "a", "b", "c", "red")
BLOCKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("10.0.0.0/8", ("10.0.1.0/24", "10.0.1.1/32")),
    ("0.0.0.0/0", ("10.0.0.0/9",)),
    ("::/0", ("fd00::/8",)),
    ("fd00::/8", ("fd00:0:0:2::/64",)),
    ("10.0.1.1/32", ()),
    ("192.0.2.0/24", ()),
    ("::/96", ()),
)
MEMORIES: tuple[Dict, ...] = (
    {},
    {"maxAccess": "ReadOnly"},
    {"scope": "Pod", "regions": []},
    {"scope": "Named", "regions": ["device"]},
    {"scope": "Named", "regions": ["weights"]},
    {"scope": "ProtectionDomain", "maxAccess": "ReadOnly"},
)
LIMITS: tuple[Dict, ...] = ({}, {"maxQPs": 0}, {"bandwidth": "1"}, {"ops": 1, "bandwidth": "1.5Gi"})
FLOWS: tuple[Dict, ...] = (
    {},
    {"service": 2, "space": "TCP", "qpn": 1, "traffic_class": 104},
    {"service": 3, "space": "UDP", "qpn": 5, "traffic_class": 105},
    {"qpn": 0xFFFFFF, "traffic_class": 252},
)


class Odd:
    """Draws objects; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.choice = self.random.choice

    def maybe(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def some(self, draw: Any, most: int) -> list[Any]:
        return [draw() for _ in range(self.random.randrange(most))]

    def selector(self) -> Dict:
        found: Dict = {}
        if self.maybe():
            found["matchLabels"] = dict(self.some(self._label, 3))
        if self.maybe():
            found["matchExpressions"] = self.some(self._expression, 3)
        return found

    def _label(self) -> tuple[str, str]:
        return self.choice(KEYS), self.choice(VALUES)

    def _expression(self) -> Dict:
        operator = self.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        values = [self.choice(VALUES), *self.some(lambda: self.choice(VALUES), 2)]
        valued = {"values": values} if operator in ("In", "NotIn") else {}
        return {"key": self.choice(KEYS), "operator": operator, **valued}

    def peer(self) -> Dict:
        if self.maybe(0.3):
            cidr, parts = self.choice(BLOCKS)
            chosen = [part for part in parts if self.maybe()]
            return {"ipBlock": {"cidr": cidr, "except": chosen}}
        found: Dict = {}
        for name in ("podSelector", "namespaceSelector"):
            if self.maybe():
                found[name] = self.selector()
        if not found or self.maybe(0.3):
            named = found["partition"] = {"name": self.choice(["one", "two", "three"])}
            if self.maybe():
                named["network"] = self.choice(["lab", "late", "none"])
            if self.maybe():
                named["membership"] = self.choice(["Full", "Limited", "Any"])
        return found

    def port(self) -> Dict:
        found: Dict = {}
        if self.maybe():
            first = self.random.randrange(1, 4)
            found |= {"serviceID": first, "endServiceID": first + self.random.randrange(2)}
            if self.maybe():
                found["space"] = self.choice(["TCP", "UDP"])
        if self.maybe():
            found["qpn"] = self.choice([0, 1, 5, 0xFFFFFF])
            if self.maybe():
                found["endQPN"] = 0xFFFFFF
        if not found or self.maybe():
            found |= self.choice([{"trafficClass": 104}, {"trafficClass": 0}, {"dscp": 26}])
        return found

    def rule(self, direction: str) -> Dict:
        found: Dict = {"limits": self.choice(LIMITS)}
        if self.maybe(0.8):
            found["from" if direction == "ingress" else "to"] = self.some(self.peer, 3)
        if self.maybe():
            found["verbs"] = self.some(lambda: self.choice(list(NAMES)), 4)
        if self.maybe(0.4):
            found["ports"] = self.some(self.port, 3)
        if direction == "egress" and self.maybe(0.3):
            found["qosClassName"] = self.choice(["bulk", "soon", "none"])
        if direction == "ingress" and self.maybe(0.7):
            found["memory"] = self.choice(MEMORIES)
            if "maxAccess" in found["memory"] and found.get("verbs"):
                found["verbs"].append("Read")  # otherwise no verb remains, and the rule is refused
        return found

    def spec(self) -> Dict:
        found: Dict = {"podSelector": self.selector() if self.maybe(0.7) else {}}
        if self.maybe(0.7):
            found["policyTypes"] = self.some(lambda: self.choice(["Ingress", "Egress"]), 3)
        for direction in ("ingress", "egress"):
            if self.maybe(0.7):
                found[direction] = self.some(lambda at=direction: self.rule(at), 3)
        if self.maybe(0.25):
            found["enforcement"] = self.choice(["Enforce", "Audit"])
        return found

    def member(self) -> Dict:
        selector = self.choice(["podSelector", "namespaceSelector"])
        return {selector: self.selector(), "membership": self.choice(["Full", "Limited"])}

    def network(self, name: str) -> Dict:
        partitions = []
        for other in ("one", "two", "three"):
            if self.maybe():
                pkey = {"pkey": self.choice([1, 5, 0x7FFF])} if self.maybe() else {}
                partitions.append({"name": other, "members": self.some(self.member, 3), **pkey})
        classes = [{"name": one, "dscp": self.choice([0, 26, 63])} for one in ("bulk", "soon")]
        return network(partitions, name, qosClasses=[one for one in classes if self.maybe()])

    def world(self) -> World:
        """Return the nine pods, some of them changed, with random networks and policies."""
        world = nine()
        for at, pod in enumerate(world.pods):
            if self.maybe(0.2):
                pod["status"]["podIPs"].append({"ip": f"fd00:0:0:{at % 3 + 1}::{at}"})
            if self.maybe(0.05):
                pod["status"]["podIPs"] = [{"ip": "10.0.1.1"}]  # another pod's address
            if self.maybe(0.1):
                pod["metadata"]["labels"] = {}
            if self.maybe(0.05):
                pod["spec"]["containers"] = [{}]
        if self.maybe(0.1):
            world.namespaces.pop()
        world.networks = [self.network(name) for name in ("lab", "late") if self.maybe()]
        for at in range(self.random.randrange(1, 3)):
            world.policies.append(policy(self.spec(), f"p{at}", self.choice("abc")))
        return world
