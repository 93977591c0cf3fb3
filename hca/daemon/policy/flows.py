"""Count the requests of flows: in rows of the engine while queue pairs use them, and in sums by
rule.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from hca.binding.engine import Engine, EngineFlow
from hca.contract.hca_engine import HCA_VERBS, HcaFlowCounts
from hca.daemon.common.steps import divide
from hca.daemon.policy.denials import Denial, Denials
from hca.daemon.policy.parties import Parties
from hca.daemon.policy.rates import Rates
from hca.daemon.policy.tallies import PodPair, Tally
from rdma.tables import Flow, Rule, Verdict
from rdma.verbs import NAMES, Verb
from vgpu_sim.records import dataclass

_NAME_OF: Final[Mapping[Verb, str]] = {verb: name for name, verb in NAMES.items()}
_ROWS_AT_ONCE: Final = 64
_ANSWERED: Final = Verb.READ | Verb.ATOMIC_CAS | Verb.ATOMIC_FAA
"""Verbs whose data moves from the destination to the source."""
RuleKey = tuple[str, str, int]
"""A rule's policy, direction and index, which identify the rule; its number differs between
tables.
"""


@dataclass(slots=True)
class RuleCount:
    """The operations and bytes that a rule has permitted.

    ``denied`` counts the operations that the rule matched but did not permit.
    """

    operations: int = 0
    bytes: int = 0
    denied: int = 0


@dataclass(slots=True, eq=False)
class Row:
    """The engine's counters of one flow, kept as long as at least one queue pair uses the flow.

    ``holders`` is the number of these queue pairs. ``function`` is the function on this node that
    takes part in the flow. If both the source and the destination are on this node, it is the
    source's function.
    """

    engine: EngineFlow
    flow: Flow
    function: str
    verdict: Verdict
    rules: Sequence[Rule] = ()
    """The rules of the tables to which the verdict's numbers of rules refer."""
    holders: int = 0
    seen: HcaFlowCounts = field(default_factory=HcaFlowCounts)

    def denial(self, verb: str, *, audited: bool = False) -> Denial:
        """Return the denial record for one verb of this flow."""
        return Denial(
            self.function,
            self.flow.source,
            self.verdict.source_pod,
            self.flow.destination,
            self.verdict.destination_pod,
            verb,
            self.verdict.denied_by,
            self.verdict.reasons,
            audited,
        )


class Flows:
    """The rows of counters, keyed by flow, and the sums of their counts, keyed by rule."""

    def __init__(
        self,
        engine: Engine,
        denials: Denials,
        function_of: Callable[[Flow], str],
        parties: Parties,
    ) -> None:
        self._engine = engine
        self._denials = denials
        self._function_of = function_of
        self._parties = parties
        self.by_pods: Tally[PodPair] = Tally()
        """All completed requests since the start, by the pods of source and destination."""
        self.rates = Rates(engine)
        self._rows: dict[Flow, Row] = {}
        self._rules: Sequence[Rule] = ()
        self._switching = False
        self._sums: dict[RuleKey, RuleCount] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, flow: Flow, verdict: Verdict, rules: tuple[Rule, ...]) -> Row:
        """Return the row of a flow; add a row if the flow has none.

        From now on, the engine counts and limits the flow according to ``verdict``. Raises
        OSError.
        """
        row = self._rows.get(flow)
        if row is None:
            new_row = Row(self._engine.add_flow(), flow, self._function_of(flow), verdict)
            row = self._rows[flow] = new_row
        row.verdict, row.rules = verdict, rules
        self.rates.apply_limits(row.engine, flow, verdict, rules)
        return row

    def remove(self, row: Row) -> None:
        """Remove the row of a flow that no queue pair uses any more.

        The row's counts remain in the sums.
        """
        if self._rows.pop(row.flow, None) is not None:
            self._count(row, self._engine.read_flows([row.engine])[0])
            self._engine.remove_flow(row.engine)
            self.rates.forget(row.engine)

    def collect_counts(self) -> None:
        """Read the engine's counters, and update the sums of the rules.

        The operations that were counted since the last call are added to the sums of the rules that
        matched them.
        """
        for _ in self.collect_in_steps():
            pass

    def collect_in_steps(self) -> Iterator[None]:
        """Do the work of ``collect_counts``, for some of the rows in each step."""
        for batch in divide(tuple(self._rows.values()), _ROWS_AT_ONCE):
            rows = [row for row in batch if self._rows.get(row.flow) is row]
            if rows:
                counted = self._engine.read_flows([row.engine for row in rows])
                for row, counts in zip(rows, counted, strict=True):
                    self._count(row, counts)
            yield

    def begin_switch(self) -> None:
        """Count by each row's own rules until ``set_rules``: new verdicts come in steps."""
        self._switching = True

    def set_rules(self, rules: Sequence[Rule]) -> None:
        """Replace the rules for which sums are kept by those of new tables.

        The sums of rules that the new tables also contain are kept; all others are dropped.
        Before this call, the caller must set the verdicts of the rows under the new tables.
        """
        self._rules, self._switching = rules, False
        rule_keys = {_key(rule) for rule in rules}
        self._sums = {key: count for key, count in self._sums.items() if key in rule_keys}

    def to_json(self) -> Iterator[Mapping[str, Any]]:
        """Yield one JSON object for each rule of the tables in force, with the sums of its
        counts.
        """
        for rule in self._rules:
            if not rule.policy:  # this place in the tables has no rule
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
        if bytes(counts) == bytes(row.seen):
            return
        for place in range(HCA_VERBS):
            verb = Verb(1 << place)
            operation_count = counts.operations[place] - row.seen.operations[place]
            denied = counts.denied[place] - row.seen.denied[place]
            if operation_count:
                self._add_done(
                    row, verb, operation_count, counts.bytes[place] - row.seen.bytes[place]
                )
            if denied:
                self._add_denied(row, verb, denied)
        row.seen = HcaFlowCounts.from_buffer_copy(bytes(counts))

    def _matching_rules(self, row: Row) -> Iterator[tuple[Rule, RuleCount]]:
        rules = row.rules if self._switching else self._rules
        for number in row.verdict.rules:
            if number < len(rules):
                rule = rules[number]
                yield rule, self._sums.setdefault(_key(rule), RuleCount())

    def _add_done(self, row: Row, verb: Verb, operations: int, size: int) -> None:
        for rule, count in self._matching_rules(row):
            if rule.verbs & verb:
                count.operations += operations
                count.bytes += size
        verdict = row.verdict
        pair = PodPair(verdict.source_pod, verdict.destination_pod, _NAME_OF[verb])
        self.by_pods.add(pair, operations, size)
        self._add_local(row.flow, verb, size)
        if row.verdict.audited & verb:
            self._denials.add(row.denial(_NAME_OF[verb], audited=True), operations)

    def _add_local(self, flow: Flow, verb: Verb, size: int) -> None:
        """Count data that was copied between two functions of this node."""
        source, destination = self._parties.at(flow.source), self._parties.at(flow.destination)
        if source is None or destination is None:
            return
        if verb & _ANSWERED:
            source, destination = destination, source
        source.local_sent_bytes += size
        destination.local_received_bytes += size

    def _add_denied(self, row: Row, verb: Verb, times: int) -> None:
        for rule, count in self._matching_rules(row):
            if not rule.verbs & verb:
                count.denied += times
        self._denials.add(row.denial(_NAME_OF[verb]), times)


def _key(rule: Rule) -> RuleKey:
    return rule.policy, str(rule.direction), rule.index
