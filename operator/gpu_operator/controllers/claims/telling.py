"""Which events are due: one of a reason for each claim, and each pod, that waits.

An event says what is so now: another message takes its place, but not more often than each minute,
and one that stays true is written again before the API server forgets it (an hour, as a rule).
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.controllers.claims.reading import Claim, WaitingPod
from gpu_operator.controllers.claims.room import Seats
from gpu_operator.controllers.claims.verdict import Judge, Verdict
from gpu_operator.controllers.claims.wanting import Classes, Wish, wish
from gpu_operator.controllers.common.world import World
from gpu_operator.kube.actions import Record

MOST: Final = 32
"""Events at a time; those who have waited longest for theirs come first."""
MOST_JUDGED: Final = 256
"""Claims at a time; those whose turn was longest ago come first."""
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
    """Remembers what was told. ``now_s`` is of a clock that only grows.

    Claims are tenants', as many as they like: those whose turn it is are judged, no others.
    """

    def __init__(self) -> None:
        self._seats = Seats()
        self._told: dict[_Subject, _Told] = {}
        self._judged: dict[str, float] = {}  # claims by UID: when last
        self._unused_since: dict[str, float] = {}  # claims by UID

    def due(
        self,
        claims: Iterable[Claim],
        pods: Iterable[WaitingPod],
        classes: Classes,
        world: World,
        now_s: float,
    ) -> tuple[Record, ...]:
        """Return the events to write; each counts as told. Without its class nothing is a wish."""
        every = tuple(claims)
        by_name = {(one.namespace, one.name): one for one in every if one.requests}
        wanting = {
            pod: wanted
            for pod in pods
            if (
                wanted := tuple(filter(None, (by_name.get((pod.namespace, c)) for c in pod.claims)))
            )
        }
        every_wish = {
            claim: wish(claim, classes) for wanted in wanting.values() for claim in wanted
        }
        wishes = {claim.uid: found for claim, found in every_wish.items() if found is not None}
        waiting = {claim.uid: claim for claim in every_wish if claim.uid in wishes}
        self._forget(waiting, {pod.uid for pod in wanting})
        if not waiting:
            return ()
        judge = Judge(self._seats.of(world, every))
        verdicts = self._verdicts(wishes, judge, now_s)
        subjects = dict(_subjects(wanting, waiting, verdicts))
        late = sorted(
            (one for one in subjects if self._is_due(one, subjects[one], now_s)),
            key=lambda one: self._told[one].at_s if one in self._told else -1.0,
        )
        for one in late[:MOST]:
            self._told[one] = _Told(subjects[one], now_s)
        return tuple(_record(one, subjects[one]) for one in late[:MOST])

    def _forget(self, claims: Container[str], pods: Container[str]) -> None:
        """Forget who no longer waits, by UID."""
        self._told = {
            one: told
            for one, told in self._told.items()
            if one.uid in (pods if one.kind == "Pod" else claims)
        }
        self._judged = {uid: at for uid, at in self._judged.items() if uid in claims}
        self._unused_since = {uid: at for uid, at in self._unused_since.items() if uid in claims}

    def _verdicts(
        self, wishes: Mapping[str, Wish], judge: Judge, now_s: float
    ) -> Mapping[str, Verdict]:
        """Judge the claims whose turn it is; leave out what the scheduler may just be changing."""
        found: dict[str, Verdict] = {}
        for uid in nsmallest(MOST_JUDGED, wishes, key=lambda uid: self._judged.get(uid, -1.0)):
            self._judged[uid] = now_s
            verdict = judge.verdict(wishes[uid])
            if verdict.reason is not Reason.CLAIM_UNMATCHED:
                self._unused_since.pop(uid, None)
                found[uid] = verdict
            elif now_s - self._unused_since.setdefault(uid, now_s) >= RIPE_S:
                found[uid] = verdict
        return found

    def _is_due(self, subject: _Subject, verdict: Verdict, now_s: float) -> bool:
        told = self._told.get(subject)
        if told is None or told.verdict.reason != verdict.reason:
            return True
        return now_s - told.at_s >= (AGAIN_S if told.verdict == verdict else CHANGED_S)


def _subjects(
    wanting: Mapping[WaitingPod, Iterable[Claim]],
    waiting: Mapping[str, Claim],
    verdicts: Mapping[str, Verdict],
) -> Iterator[tuple[_Subject, Verdict]]:
    """Yield claims, and pods with the first of their claims that is in the way."""
    for uid, verdict in verdicts.items():
        claim = waiting[uid]
        yield _Subject("ResourceClaim", claim.namespace, claim.name, uid), verdict
    for pod, claims in wanting.items():
        for claim in claims:
            found = verdicts.get(claim.uid)
            if found is not None:
                message = f"claim {claim.name}, {found.message}"
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
