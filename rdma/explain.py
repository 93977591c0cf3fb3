"""Explain why a pod may or may not use a verb on another pod: the text of ``tessera rdma explain``.

The verdict comes from the evaluator that hcad uses; this module only finds the verdict's
reasons.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rdma import addresses, grants
from rdma.compiling.compiler import Compiler
from rdma.errors import RdmaError
from rdma.evaluator import Evaluator, is_one_pod
from rdma.objects import PodFacts
from rdma.operations import BY_KEY
from rdma.tables import (
    DEFAULT_PKEY,
    FULL,
    Direction,
    Endpoint,
    Flow,
    Identity,
    Isolation,
    Limits,
    Membership,
    NodeTables,
    QosClass,
    Verdict,
    describe_pkey,
)
from rdma.verbs import NAMES, Verb

PASSES: Final = "it passes"
NO_MEMORY: Final = (
    "no rule that lets it pass names existing memory: only the region 'device' has a name"
)
NAKED: Final = "the peer answers with a remote access error: IBV_WC_REM_ACCESS_ERR"
SILENT: Final = (
    "the peer does not answer: modifying the queue pair to RTR is refused (EACCES), and what"
    " another peer sends regardless ends in IBV_WC_RETRY_EXC_ERR"
)


class QuestionError(RdmaError):
    """The question names a pod or an address that does not exist."""


@dataclass(frozen=True, slots=True)
class Question:
    """A flow to explain; source and destination are pods "ns/name" or addresses.

    A field that is None stands for any value.
    """

    source: str
    destination: str
    verb: Verb
    pkey: int | None = None
    service: int | None = None
    space: str | None = None
    destination_qpn: int | None = None
    traffic_class: int = 0


@dataclass(frozen=True, slots=True)
class Half:
    """The explanation for one direction, egress of the source or ingress of the destination.

    ``rules`` names each matching rule ("policy ingress[0]") with the verbs that it grants.
    """

    direction: Direction
    who: str
    allowed: bool
    isolated_by: tuple[str, ...] = ()
    rules: tuple[tuple[str, tuple[str, ...]], ...] = ()
    audited_by: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to a question, for both directions.

    ``audited``: the verb passes only because some policies audit without enforcing.
    """

    allowed: bool
    audited: bool
    source: str
    destination: str
    verb: str
    halves: tuple[Half, ...]
    pkey: int
    partition: str
    partition_shared: bool
    consequence: str
    verdict: Verdict
    memory: str = ""
    """The part of the destination's memory that the verb reaches; an empty text means all
    memory.
    """

    def lines(self) -> list[str]:
        """Return the explanation as lines of text."""
        word = "ALLOWED" if self.allowed else "DENIED"
        lines = [f"{word}: {self.verb} from {self.source} to {self.destination}"]
        lines += [f"  {line}" for half in self.halves for line in _half_lines(half, self.verb)]
        share = "shared" if self.partition_shared else "not shared"
        lines.append(f"  partition {describe_pkey(self.pkey)}: {share} ({self.partition})")
        if self.memory:
            lines.append(f"  memory: {self.memory}")
        if self.allowed and self.verdict.limits != Limits():
            lines.append(f"  limits: {_describe_limits(self.verdict.limits)}")
        if self.allowed and self.verdict.qos_class is not None:
            lines.append(f"  QoS class {_describe_class(self.verdict.qos_class)}")
        if self.audited:
            lines.append("  audit: it would be denied if policies that audit were enforced")
        if not self.allowed:
            lines.append(f"  so: {self.consequence}")
        return lines

    def document(self) -> dict[str, Any]:
        """Return the explanation as a JSON object."""
        return {
            "allowed": self.allowed,
            "audited": self.audited,
            "from": self.source,
            "to": self.destination,
            "verb": self.verb,
            **{
                half.direction.value: {
                    "of": half.who,
                    "allowed": half.allowed,
                    "isolatedBy": list(half.isolated_by),
                    "auditedBy": list(half.audited_by),
                    "rules": [{"rule": rule, "verbs": list(verbs)} for rule, verbs in half.rules],
                    "note": half.note,
                }
                for half in self.halves
            },
            "partition": {
                "pkey": f"{self.pkey:#06x}",
                "shared": self.partition_shared,
                "names": self.partition,
            },
            "memory": self.memory,
            "qosClass": self.verdict.qos_class.name if self.verdict.qos_class else None,
            "consequence": self.consequence,
        }


class Explainer:
    """Explains any number of flows between the objects that a compiler contains now."""

    def __init__(self, compiler: Compiler, pods: Iterable[PodFacts]) -> None:
        """Compile the tables; later changes of the compiler's objects have no effect."""
        self._tables = compiler.tables("")
        self._evaluator = Evaluator(self._tables)
        self._pods = {f"{pod.namespace}/{pod.name}": pod for pod in pods}
        self._ends = {endpoint.address: endpoint for endpoint in self._tables.endpoints}
        self._identities = {identity.number: identity for identity in self._tables.identities}

    def explain(self, question: Question) -> Explanation:
        """Explain whether the operation that a question names passes, and by which rules.

        Raises:
            QuestionError: a pod does not exist or cannot take part in RDMA, or an address is
                invalid.
        """
        source, destination = _addresses(question, self._pods)
        sender, receiver = self._ends.get(source), self._ends.get(destination)
        out = self._identities[sender.identity] if sender else None
        into = self._identities[receiver.identity] if receiver else None
        pkey = question.pkey if question.pkey is not None else _usual_pkey(out, into)
        verb, qpn = question.verb, question.destination_qpn
        service, space = question.service, question.space
        flow = Flow(source, destination, pkey, service, space, qpn, question.traffic_class)
        verdict = self._evaluator.evaluate(flow)
        group = receiver is None and addresses.parse(destination).is_multicast
        if group and verb != Verb.UD:
            raise QuestionError(f"{destination} is a multicast group: only UD can be sent to it")
        itself = sender is not None and receiver is not None and is_one_pod(sender, receiver)
        tables, egress, ingress = self._tables, Direction.EGRESS, Direction.INGRESS
        halves = (
            _half(egress, source, sender, out, tables, verdict, verb, itself),
            _half(ingress, destination, receiver, into, tables, verdict, verb, itself),
        )
        passing = grants.passing_verbs(verdict)
        allowed = bool(passing & verb)
        return Explanation(
            allowed=allowed,
            audited=allowed and bool(verdict.audited & verb),
            source=_describe_end(source, sender),
            destination=_describe_end(destination, receiver),
            verb=_names(verb)[0],
            halves=halves,
            pkey=pkey,
            partition=_partition(pkey, out, into, group),
            partition_shared=verdict.partition_shared,
            consequence=PASSES if allowed else NAKED if passing else SILENT,
            verdict=verdict,
            memory=_memory(verdict, verb),
        )


def explain(compiler: Compiler, pods: Iterable[PodFacts], question: Question) -> Explanation:
    """Explain one flow. Raises QuestionError, as ``Explainer.explain`` does."""
    return Explainer(compiler, pods).explain(question)


def _memory(verdict: Verdict, verb: Verb) -> str:
    """Describe the memory that a passing verb reaches.

    The text is empty if the verb reaches all memory, or uses none.
    """
    if not verdict.verbs & verb & BY_KEY:
        return ""
    if not grants.passing_verbs(verdict) & verb:
        return NO_MEMORY
    return "a GPU's alone" if grants.device_only_verbs(verdict) & verb else ""


def _addresses(question: Question, pods: Mapping[str, PodFacts]) -> tuple[str, str]:
    """Return an address of the question's source and one of its destination, both of the same
    family if possible.
    """
    sources = _addresses_of(question.source, pods)
    destinations = _addresses_of(question.destination, pods)
    for source in sources:
        for destination in destinations:
            if (":" in source) == (":" in destination):
                return source, destination
    raise QuestionError(
        f"{question.source} and {question.destination} have no addresses of the same IP family"
    )


def _addresses_of(name: str, pods: Mapping[str, PodFacts]) -> Sequence[str]:
    if "/" not in name:
        try:
            return (addresses.canonical(name),)
        except ValueError as error:
            raise QuestionError(f"{name} is neither namespace/pod nor an IP address") from error
    pod = pods.get(name)
    if pod is None:
        raise QuestionError(f"pod {name} does not exist")
    if pod.host_network:
        raise QuestionError(f"pod {name} is on its node's network, where pods hold no HCA")
    if not pod.holds_hca:
        raise QuestionError(f"pod {name} holds no HCA: it requests none, or has ended")
    if not pod.addresses:
        raise QuestionError(f"pod {name} has no address yet")
    return pod.addresses


def _usual_pkey(out: Identity | None, into: Identity | None) -> int:
    """Return the P_Key that the source would use: the first that both ends share, else its own
    first.
    """
    if out is None:
        return DEFAULT_PKEY | FULL
    theirs = {membership.pkey: membership.full for membership in (into.partitions if into else ())}
    if into is None:
        theirs = {DEFAULT_PKEY: True}
    reaching = [m for m in out.partitions if m.pkey in theirs and (m.full or theirs[m.pkey])]
    chosen = next(iter(reaching or out.partitions), Membership(DEFAULT_PKEY, full=True))
    return chosen.pkey | (FULL if chosen.full else 0)


def _half(
    direction: Direction,
    address: str,
    endpoint: Endpoint | None,
    identity: Identity | None,
    tables: NodeTables,
    verdict: Verdict,
    verb: Verb,
    itself: bool,
) -> Half:
    who = _describe_end(address, endpoint)
    if identity is None or endpoint is None:
        return _outside(direction, who)
    if not endpoint.pod:
        return Half(direction, who, allowed=False, note="two pods claim this address")
    if itself:
        return Half(direction, who, allowed=True, note="a pod always reaches itself")
    isolation = identity.ingress if direction is Direction.INGRESS else identity.egress
    if isolation is None:
        return Half(direction, who, allowed=True, note="no policy isolates it")
    if isolation == Isolation():
        return Half(direction, who, allowed=False, note="nothing is known of its namespace")
    matched = [tables.rules[place] for place in verdict.rules]
    rules = [rule for rule in matched if rule.direction is direction]
    passes = not isolation.enforced or any(rule.verbs & verb for rule in rules)
    return Half(
        direction,
        who,
        passes,
        isolation.policies,
        tuple((f"{rule.policy} {direction}[{rule.index}]", _names(rule.verbs)) for rule in rules),
        isolation.audited_policies,
    )


def _outside(direction: Direction, address: str) -> Half:
    """Return the result for an end whose address no pod has; the address may also be invalid."""
    parsed = addresses.parse(address)
    if direction is Direction.INGRESS and parsed.is_multicast:
        note = "a group outside of the cluster: each member is evaluated separately"
        return Half(direction, address, allowed=True, note=note)
    if not addresses.may_be_outside(parsed):
        note = "neither a pod's address nor one that a peer outside of the cluster can have"
        return Half(direction, address, allowed=False, note=note)
    return Half(direction, address, allowed=True, note="outside of the cluster")


def _half_lines(half: Half, verb: str) -> list[str]:
    word = "allowed" if half.allowed else "denied"
    head = f"{half.direction} of {half.who}: {word}"
    if half.note:
        return [f"{head}, {half.note}"]
    if not half.isolated_by:
        return [f"{head}, only audited by {', '.join(half.audited_by)}"]
    lines = []
    letting = [rule for rule, verbs in half.rules if verb in verbs]
    if letting:
        lines.append(f"{head} by {', '.join(letting)}")
    else:
        lines.append(f"{head}, isolated by {', '.join(half.isolated_by)}")
        lines += [f"  {rule} matches, for {', '.join(verbs)} only" for rule, verbs in half.rules]
        if not half.rules:
            lines.append("  no rule matches this peer and flow")
    if half.audited_by:
        lines.append(f"  audited by {', '.join(half.audited_by)}")
    return lines


def _partition(pkey: int, out: Identity | None, into: Identity | None, group: bool) -> str:
    """Describe the memberships of a flow's source and destination in a partition."""
    words = []
    for side, identity in (("from", out), ("to", into)):
        if group and side == "to":
            words.append("to: each member is evaluated separately")
            continue
        if identity is None:
            words.append(f"{side}: outside, default partition only")
            continue
        memberships = [
            membership
            for membership in identity.partitions
            if membership.pkey == pkey & DEFAULT_PKEY
        ]
        names = [
            f"{'full' if m.full else 'limited'} member of"
            f" {f'{m.network}/{m.partition}' if m.network else 'the default partition'}"
            for m in memberships
        ]
        words.append(f"{side}: {', '.join(names) or 'no member'}")
    return "; ".join(words)


def _describe_class(qos_class: QosClass) -> str:
    phrases = [f"weight {qos_class.weight}"]
    if qos_class.dscp:
        phrases.insert(0, f"DSCP {qos_class.dscp}")
    if qos_class.min_rate is not None:
        phrases.append(f"at least {qos_class.min_rate} bytes/s")
    if qos_class.max_rate is not None:
        phrases.append(f"at most {qos_class.max_rate} bytes/s")
    return f"{qos_class.network}/{qos_class.name}: {', '.join(phrases)}"


def _describe_limits(limits: Limits) -> str:
    limits_by_unit = {
        "bytes/s": limits.bytes_per_second,
        "bytes at once": limits.burst_bytes,
        "operations/s": limits.operations_per_second,
        "queue pairs": limits.queue_pairs,
        "bytes of regions": limits.region_bytes,
    }
    return ", ".join(
        f"{limit} {unit}" for unit, limit in limits_by_unit.items() if limit is not None
    )


def _describe_end(address: str, endpoint: Endpoint | None) -> str:
    return endpoint.pod or address if endpoint is not None else address


def _names(verbs: Verb) -> tuple[str, ...]:
    return tuple(name for name, verb in NAMES.items() if verb & verbs)
