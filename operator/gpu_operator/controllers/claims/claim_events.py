"""Selects the events that are due: one for each reason on each waiting claim and pod.

An event states the current reason. A changed message replaces the previous one, at most once per
minute. An event that stays true is rewritten before the API server deletes it (by default after
an hour).
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.controllers.claims.reading import Claim, WaitingPod
from gpu_operator.controllers.claims.request_resolution import Classes, ResolvedClaim, resolve_claim
from gpu_operator.controllers.claims.room import GpuCapacities
from gpu_operator.controllers.claims.verdict import ClaimEvaluator, Verdict
from gpu_operator.controllers.common.world import World
from gpu_operator.kube.actions import Record

MOST: Final = 32
"""Maximum number of events in one pass; claims and pods without a recent event come first."""
MAX_EVALUATED: Final = 256
"""Maximum number of claims that one pass evaluates; the longest unevaluated ones come first."""
CHANGED_S: Final = 60.0
AGAIN_S: Final = 900.0
RIPE_S: Final = 30.0
"""Seconds for which room must have been unused before an event reports it.

Before that, the scheduler may be about to use the room.
"""


@dataclass(frozen=True, slots=True)
class _Subject:
    """The object that an event is about."""

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class _WrittenEvent:
    verdict: Verdict
    at_s: float


class ClaimEvents:
    """Limits the rate of events for each waiting claim and pod.

    Tenants may create any number of claims, so each pass evaluates only the claims that are due.
    ``now_s`` is the time of a pass, in monotonic seconds.
    """

    def __init__(self) -> None:
        self._capacities = GpuCapacities()
        self._written: dict[_Subject, _WrittenEvent] = {}
        self._evaluated_at: dict[str, float] = {}  # time of the last evaluation, by claim UID
        self._unused_since: dict[str, float] = {}  # by claim UID

    def take_due_events(
        self,
        claims: Iterable[Claim],
        pods: Iterable[WaitingPod],
        classes: Classes,
        world: World,
        now_s: float,
    ) -> tuple[Record, ...]:
        """Return the events to write now, and record them as written.

        Requests whose DeviceClass does not exist are ignored.
        """
        every = tuple(claims)
        by_name = {(claim.namespace, claim.name): claim for claim in every if claim.requests}
        wanting = {
            pod: pod_claims
            for pod in pods
            if (
                pod_claims := tuple(
                    filter(None, (by_name.get((pod.namespace, c)) for c in pod.claims))
                )
            )
        }
        resolved_claims = {
            claim: resolve_claim(claim, classes)
            for pod_claims in wanting.values()
            for claim in pod_claims
        }
        resolved = {
            claim.uid: resolved_claim
            for claim, resolved_claim in resolved_claims.items()
            if resolved_claim is not None
        }
        waiting = {claim.uid: claim for claim in resolved_claims if claim.uid in resolved}
        self._forget(waiting, {pod.uid for pod in wanting})
        if not waiting:
            return ()
        evaluator = ClaimEvaluator(self._capacities.read(world, every))
        verdicts = self._verdicts(resolved, evaluator, now_s)
        subjects = dict(_subjects(wanting, waiting, verdicts))
        late = sorted(
            (subject for subject in subjects if self._is_due(subject, subjects[subject], now_s)),
            key=lambda subject: self._written[subject].at_s if subject in self._written else -1.0,
        )
        for subject in late[:MOST]:
            self._written[subject] = _WrittenEvent(subjects[subject], now_s)
        return tuple(_record(subject, subjects[subject]) for subject in late[:MOST])

    def _forget(self, claims: Container[str], pods: Container[str]) -> None:
        """Remove the state of claims and pods (by UID) that no longer wait."""
        self._written = {
            subject: last
            for subject, last in self._written.items()
            if subject.uid in (pods if subject.kind == "Pod" else claims)
        }
        self._evaluated_at = {uid: at for uid, at in self._evaluated_at.items() if uid in claims}
        self._unused_since = {uid: at for uid, at in self._unused_since.items() if uid in claims}

    def _verdicts(
        self, resolved: Mapping[str, ResolvedClaim], evaluator: ClaimEvaluator, now_s: float
    ) -> Mapping[str, Verdict]:
        """Evaluate the claims that are due.

        Omit claims for which there is room that the scheduler may be about to allocate.
        """
        verdicts: dict[str, Verdict] = {}
        for uid in nsmallest(
            MAX_EVALUATED, resolved, key=lambda uid: self._evaluated_at.get(uid, -1.0)
        ):
            self._evaluated_at[uid] = now_s
            verdict = evaluator.evaluate(resolved[uid])
            if verdict.reason is not Reason.CLAIM_UNMATCHED:
                self._unused_since.pop(uid, None)
                verdicts[uid] = verdict
            elif now_s - self._unused_since.setdefault(uid, now_s) >= RIPE_S:
                verdicts[uid] = verdict
        return verdicts

    def _is_due(self, subject: _Subject, verdict: Verdict, now_s: float) -> bool:
        last = self._written.get(subject)
        if last is None or last.verdict.reason != verdict.reason:
            return True
        return now_s - last.at_s >= (AGAIN_S if last.verdict == verdict else CHANGED_S)


def _subjects(
    wanting: Mapping[WaitingPod, Iterable[Claim]],
    waiting: Mapping[str, Claim],
    verdicts: Mapping[str, Verdict],
) -> Iterator[tuple[_Subject, Verdict]]:
    """Yield each claim, and each pod with its first claim that cannot be allocated."""
    for uid, verdict in verdicts.items():
        claim = waiting[uid]
        yield _Subject("ResourceClaim", claim.namespace, claim.name, uid), verdict
    for pod, claims in wanting.items():
        for claim in claims:
            first_verdict = verdicts.get(claim.uid)
            if first_verdict is not None:
                message = f"claim {claim.name}, {first_verdict.message}"
                subject = _Subject("Pod", pod.namespace, pod.name, pod.uid)
                yield subject, Verdict(first_verdict.reason, message)
                break


def _record(subject: _Subject, verdict: Verdict) -> Record:
    return Record(
        subject.kind,
        subject.name,
        subject.uid,
        verdict.reason.value,
        verdict.message,
        warning=True,
        namespace=subject.namespace,
        latest=True,
    )
