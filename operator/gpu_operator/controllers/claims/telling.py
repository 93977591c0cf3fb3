"""Which events are due: one of a reason for each claim, and each pod, that waits.

An event says what is so now: another message takes its place, but not more often than each minute,
and one that stays true is written again before the API server forgets it (an hour, as a rule).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.controllers.claims.reading import Claim, WaitingPod
from gpu_operator.controllers.claims.room import Seats
from gpu_operator.controllers.claims.verdict import Judge, Verdict
from gpu_operator.controllers.world import World
from gpu_operator.kube.actions import Record

MOST: Final = 32
"""Events at a time; those who have waited longest for theirs come first."""
CHANGED_S: Final = 60.0
AGAIN_S: Final = 900.0
RIPE_S: Final = 30.0
"""For how long room must have been there unused before that is told: the scheduler may be at it."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """Whom an event is on."""

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class _Told:
    verdict: Verdict
    at_s: float


class Telling:
    """Remembers what was told. ``now_s`` is of a clock that only grows."""

    def __init__(self) -> None:
        self._seats = Seats()
        self._told: dict[_Subject, _Told] = {}
        self._unused_since: dict[str, float] = {}  # claims by UID

    def due(
        self, claims: Iterable[Claim], pods: Iterable[WaitingPod], world: World, now_s: float
    ) -> tuple[Record, ...]:
        """Return the events to write; each counts as told."""
        every = tuple(claims)
        waiting = {(one.namespace, one.name): one for one in every if one.requests}
        wanting = [pod for pod in pods if any((pod.namespace, c) in waiting for c in pod.claims)]
        if not wanting:
            self._told, self._unused_since = {}, {}
            return ()
        judge = Judge(self._seats.of(world, every))
        verdicts = {
            key: verdict
            for key in sorted({(p.namespace, c) for p in wanting for c in p.claims} & set(waiting))
            if (verdict := judge.verdict(waiting[key])) is not None
        }
        ripe = self._ripe(verdicts, waiting, now_s)
        subjects = dict(_subjects(wanting, waiting, ripe))
        self._told = {one: told for one, told in self._told.items() if one in subjects}
        late = sorted(
            (one for one in subjects if self._is_due(one, subjects[one], now_s)),
            key=lambda one: self._told[one].at_s if one in self._told else -1.0,
        )
        for one in late[:MOST]:
            self._told[one] = _Told(subjects[one], now_s)
        return tuple(_record(one, subjects[one]) for one in late[:MOST])

    def _ripe(
        self,
        verdicts: Mapping[tuple[str, str], Verdict],
        waiting: Mapping[tuple[str, str], Claim],
        now_s: float,
    ) -> dict[tuple[str, str], Verdict]:
        """Return the verdicts without those that the scheduler may be about to overtake."""
        unused = {
            waiting[key].uid
            for key, verdict in verdicts.items()
            if verdict.reason is Reason.CLAIM_UNMATCHED
        }
        self._unused_since = {uid: self._unused_since.get(uid, now_s) for uid in unused}
        return {
            key: verdict
            for key, verdict in verdicts.items()
            if now_s - self._unused_since.get(waiting[key].uid, float("-inf")) >= RIPE_S
        }

    def _is_due(self, subject: _Subject, verdict: Verdict, now_s: float) -> bool:
        told = self._told.get(subject)
        if told is None or told.verdict.reason != verdict.reason:
            return True
        return now_s - told.at_s >= (AGAIN_S if told.verdict == verdict else CHANGED_S)


def _subjects(
    pods: Iterable[WaitingPod],
    waiting: Mapping[tuple[str, str], Claim],
    verdicts: Mapping[tuple[str, str], Verdict],
) -> Iterator[tuple[_Subject, Verdict]]:
    """Yield claims, and pods with the first of their claims that is in the way."""
    for key, verdict in verdicts.items():
        claim = waiting[key]
        yield _Subject("ResourceClaim", claim.namespace, claim.name, claim.uid), verdict
    for pod in pods:
        for name in pod.claims:
            found = verdicts.get((pod.namespace, name))
            if found is not None:
                message = f"claim {name}, {found.message}"
                subject = _Subject("Pod", pod.namespace, pod.name, pod.uid)
                yield subject, Verdict(found.reason, message)
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
