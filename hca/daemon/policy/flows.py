"""Counters of flows: rows in the engine while a queue pair has them, sums by rule afterwards."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hca.binding.engine import Engine, EngineFlow
from hca.contract.hca_engine import HCA_VERBS, HcaFlowCounts
from hca.daemon.policy.denials import Denial, Denials
from hca.daemon.policy.rates import Rates
from rdma.tables import Flow, Rule, Verdict
from rdma.verbs import NAMES, Verb

_NAME_OF: Final[Mapping[Verb, str]] = {verb: name for name, verb in NAMES.items()}
RuleKey = tuple[str, str, int]
"""A rule's policy, direction and place in it: its number may be another's in the next tables."""


@dataclass(slots=True)
class RuleCount:
    """What a rule has let pass, and how often it matched a peer and did not have the verb."""

    operations: int = 0
    bytes: int = 0
    denied: int = 0


@dataclass(slots=True, eq=False)
class Row:
    """The counters of one flow, while ``holders`` queue pairs have it.

    ``function`` is this node's: the source's, if both are.
    """

    engine: EngineFlow
    flow: Flow
    function: str
    verdict: Verdict
    holders: int = 0
    seen: HcaFlowCounts = field(default_factory=HcaFlowCounts)

    def denial(self, verb: str, *, audited: bool = False) -> Denial:
        """Say what of it was denied."""
        return Denial(
            *(self.function, self.flow.source, self.verdict.source_pod),
            *(self.flow.destination, self.verdict.destination_pod, verb),
            *(self.verdict.denied_by, self.verdict.reasons, audited),
        )


class Flows:
    """Rows by flow, and what they have come to."""

    def __init__(
        self, engine: Engine, denials: Denials, function_of: Callable[[Flow], str]
    ) -> None:
        self._engine = engine
        self._denials = denials
        self._function_of = function_of
        self.rates = Rates(engine)
        self._rows: dict[Flow, Row] = {}
        self._rules: Sequence[Rule] = ()
        self._sums: dict[RuleKey, RuleCount] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, flow: Flow, verdict: Verdict, rules: tuple[Rule, ...]) -> Row:
        """Return a flow's row, which counts and is held back by this verdict from now on.

        Raises OSError.
        """
        row = self._rows.get(flow)
        if row is None:
            made = Row(self._engine.add_flow(), flow, self._function_of(flow), verdict)
            row = self._rows[flow] = made
        row.verdict = verdict
        self.rates.hold(row.engine, flow, verdict, rules)
        return row

    def remove(self, row: Row) -> None:
        """Remove a row that no queue pair has; what it counted stays in the sums."""
        if self._rows.pop(row.flow, None) is not None:
            self._count(row, self._engine.read_flows([row.engine])[0])
            self._engine.remove_flow(row.engine)
            self.rates.forget(row.engine)

    def gather(self) -> None:
        """Add what the engine has counted since the last time, by the verdicts of that time."""
        rows = tuple(self._rows.values())
        if rows:
            counted = self._engine.read_flows([row.engine for row in rows])
            for row, counts in zip(rows, counted, strict=True):
                self._count(row, counts)

    def follow(self, rules: Sequence[Rule]) -> None:
        """Sum by other rules from now on; their rows have their verdicts."""
        self._rules = rules
        known = {_key(rule) for rule in rules}
        self._sums = {key: count for key, count in self._sums.items() if key in known}

    def to_json(self) -> Iterator[Mapping[str, Any]]:
        """Return the sums of every rule of the tables in force."""
        for rule in self._rules:
            if not rule.policy:  # an empty place
                continue
            count = self._sums.get(_key(rule), RuleCount())
            yield {
                "policy": rule.policy,
                "direction": str(rule.direction),
                "index": rule.index,
                "operations": count.operations,
                "bytes": count.bytes,
                "denied": count.denied,
            }

    def _count(self, row: Row, counts: HcaFlowCounts) -> None:
        for place in range(HCA_VERBS):
            verb = Verb(1 << place)
            done = counts.operations[place] - row.seen.operations[place]
            denied = counts.denied[place] - row.seen.denied[place]
            if done:
                self._add_done(row, verb, done, counts.bytes[place] - row.seen.bytes[place])
            if denied:
                self._add_denied(row, verb, denied)
        row.seen = HcaFlowCounts.from_buffer_copy(bytes(counts))

    def _matched(self, row: Row) -> Iterator[tuple[Rule, RuleCount]]:
        for number in row.verdict.rules:
            if number < len(self._rules):
                rule = self._rules[number]
                yield rule, self._sums.setdefault(_key(rule), RuleCount())

    def _add_done(self, row: Row, verb: Verb, operations: int, size: int) -> None:
        for rule, count in self._matched(row):
            if rule.verbs & verb:
                count.operations += operations
                count.bytes += size
        if row.verdict.audited & verb:
            self._denials.add(row.denial(_NAME_OF[verb], audited=True), operations)

    def _add_denied(self, row: Row, verb: Verb, times: int) -> None:
        for rule, count in self._matched(row):
            if not rule.verbs & verb:
                count.denied += times
        self._denials.add(row.denial(_NAME_OF[verb]), times)


def _key(rule: Rule) -> RuleKey:
    return rule.policy, str(rule.direction), rule.index
