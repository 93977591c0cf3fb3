"""Why a pod's ResourceClaims keep it waiting, and what would change that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from console.model.claims import KnownClaim
from console.model.pods import PodRecord
from console.views.waiting.obstacles import Obstacle, find_restriction
from console.views.waiting.survey import Survey
from facts.wording import list_first
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.controllers.claims.reading import Claim
from gpu_operator.controllers.claims.request_resolution import resolve_claim
from gpu_operator.controllers.claims.room import GpuCapacities
from gpu_operator.controllers.claims.selectors import Facts
from gpu_operator.controllers.claims.verdict import ClaimEvaluator, Verdict

_SHOWN: Final = 3
_MOST_USERS: Final = 256  # entries of a claim's reservedFor, a limit of Kubernetes
_REMEDIES: Final = {
    Reason.CLAIM_NO_ROOM: "Room appears when a claim or pod named above ends, or when a layout"
    " named above gives up its slices of a GPU.",
    Reason.CLAIM_NOT_OFFERED: "Claims get GPUs of pools whose spec.allocation is DRA or Both, and"
    " what the boards there have.",
}


@dataclass(frozen=True, slots=True)
class ClaimFinding:
    """What is known about a ResourceClaim: a statement, or the verdict that the operator writes."""

    name: str
    verdict: Verdict | None = None
    statement: str = ""

    @property
    def text(self) -> str:
        """Return the statement, or the verdict's message with what would free devices."""
        if self.verdict is None:
            return self.statement
        remedy = _REMEDIES.get(self.verdict.reason, "")
        return f"{self.verdict.message}{'. ' * bool(remedy)}{remedy}"


def find_claims(
    survey: Survey, pod: PodRecord, claims: Mapping[str, Claim], classes: Mapping[str, Facts]
) -> Iterator[ClaimFinding]:
    """Yield a finding for each claim of a pod."""
    evaluator = ClaimEvaluator(GpuCapacities().read(survey.world, claims.values()))
    for name in pod.waiting.claims if pod.waiting else ():
        claim = claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            yield ClaimFinding(name, statement="does not exist: the pod waits until it is created")
            continue
        statement = _state(survey, pod, claim, classes)
        if statement:
            yield ClaimFinding(name, statement=statement)
            continue
        resolved = resolve_claim(claim, classes)
        if resolved is None:
            text = "no request is for devices of Tessera alone; other drivers' are not evaluated"
            yield ClaimFinding(name, statement=text)
        else:
            yield ClaimFinding(name, evaluator.evaluate(resolved))
    for name in pod.unmade_claims:
        text = (
            "has not been created from its ResourceClaimTemplate yet: if this stays so, the"
            " template does not exist, or a ResourceQuota forbids the claim"
        )
        yield ClaimFinding(name, statement=text)


def _state(survey: Survey, pod: PodRecord, claim: Claim, classes: Mapping[str, Facts]) -> str:
    """Return a statement about a claim that the evaluator does not concern; empty for others."""
    if isinstance(claim, KnownClaim):
        if claim.is_allocated:
            return _allocated(survey, pod, claim)
        if claim.is_ending:
            return "is being deleted: the pod needs another claim of this name"
    named = {
        part.device_class for alternative in claim.requests for part in alternative.alternatives
    }
    unknown = sorted(named - classes.keys())
    if unknown:
        return (
            f"DeviceClass {list_first(unknown, _SHOWN)} does not exist: create it, or correct"
            " the claim's deviceClassName"
        )
    return ""


def _allocated(survey: Survey, pod: PodRecord, claim: KnownClaim) -> str:
    nodes = sorted({device.node for device in claim.held})
    if not nodes:
        return "is allocated, with devices of another driver"
    users = [f"{claim.namespace}/{user}" for user in claim.reserved_for]
    text = f"is allocated on node {list_first(nodes, _SHOWN)}, so the pod can only run there"
    for name in nodes:
        node = survey.world.nodes.get(name)
        if node is None:
            text += f"; node {name} does not exist"
        elif (restriction := find_restriction(survey, pod, node)) is not None:
            obstacle, detail = restriction
            text += f"; node {name} {_verb(obstacle)}{obstacle}{': ' * bool(detail)}{detail}"
    if not users:
        return f"{text}. No pod uses it: if it is deleted, its devices are free"
    full = " (no more are possible)" if claim.reservations >= _MOST_USERS else ""
    unlisted_users = claim.reservations - len(users)
    named = (
        list_first(users, _SHOWN)
        if unlisted_users == 0
        else f"{list_first(users, None)} and {unlisted_users} more"
    )
    return (
        f"{text}. It is reserved for {named}{full}: once these have ended, another node can be"
        " chosen"
    )


def _verb(obstacle: Obstacle) -> str:
    return "" if obstacle is Obstacle.SELECTOR else "is "
