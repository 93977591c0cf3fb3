"""The PodDisruptionBudgets that limit the eviction of some pods, read on request.

The console does not watch budgets and does not store the labels of pods: the page that needs them
lists both, and has the API server select the pods of each budget. The rules are those of the
Eviction API (https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/).
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from gpu_operator import errors
from gpu_operator.kube.port import Chosen, Document

KIND: Final = "PodDisruptionBudget"
MOST_BUDGETS: Final = 64  # each costs a list of its pods
_MOST_PAGES: Final = 20  # of 500 objects each
_MOST_SPACES: Final = 16
_WITHIN_S: Final = 10.0


class Lister(Protocol):
    """The operation of the API server that reading budgets needs."""

    async def page(self, kind: str, chosen: Chosen, token: str = "") -> Document:
        """Return one page of the list of a kind's objects."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget and the pods to evict that count against it, as "namespace/name".

    ``allowed`` is how many disruptions the budget allows now. ``stale`` says that its status does
    not yet follow its spec; the API server then refuses evictions.
    """

    namespace: str
    name: str
    allowed: int
    pods: tuple[str, ...]
    stale: bool = False

    @property
    def refused(self) -> int:
        """Return how many of the pods cannot be evicted as things are."""
        return len(self.pods) if self.stale else max(len(self.pods) - self.allowed, 0)

    @property
    def text(self) -> str:
        """Return what follows the budget's name in a sentence."""
        if self.stale:
            return "has a status older than its spec, so the API server refuses evictions"
        allowed = f"allows {self.allowed} eviction{'s' * (self.allowed != 1)} now"
        if not self.refused:
            return f"{allowed}, of {len(self.pods)} needed"
        return f"{allowed}, of {len(self.pods)} needed: the operator retries the others"


@dataclass(frozen=True, slots=True)
class Budgets:
    """What limits the evictions. ``problem`` says why it is not known, or not completely.

    ``several`` are pods that more than one budget selects: the API server refuses to evict them.
    """

    found: tuple[Budget, ...] = ()
    several: tuple[str, ...] = ()
    problem: str = ""


async def read_budgets(lister: Lister | None, pods: Collection[str]) -> Budgets:
    """Return the budgets that select some of ``pods``, which are "namespace/name"."""
    if lister is None:
        return Budgets(problem="this console has no connection to an API server")
    spaces = sorted({pod.partition("/")[0] for pod in pods})
    try:
        async with asyncio.timeout(_WITHIN_S):
            return await _read(lister, set(pods), spaces)
    except TimeoutError:
        return Budgets(problem=f"the API server did not list them within {_WITHIN_S:g} s")
    except errors.Refused as err:
        return Budgets(problem=f"not permitted: {err}")
    except errors.KubeError as err:
        return Budgets(problem=str(err))


async def _read(lister: Lister, pods: set[str], spaces: list[str]) -> Budgets:
    selected: list[tuple[Document, set[str]]] = []
    problem = ""
    if len(spaces) > _MOST_SPACES:
        problem = f"only those of {_MOST_SPACES} of {len(spaces)} namespaces were read"
    for space in spaces[:_MOST_SPACES]:
        async for budget in _iterate(lister, KIND, Chosen(space)):
            if len(selected) == MOST_BUDGETS:
                return _evaluate(selected, f"only the first {MOST_BUDGETS} were read")
            labels = write_selector((budget.get("spec") or {}).get("selector"))
            if labels is None:
                continue
            counted = [
                f"{space}/{pod['metadata']['name']}"
                async for pod in _iterate(lister, "Pod", Chosen(space, labels=labels))
                if is_limited(pod, budget)
            ]
            selected.append((budget, pods.intersection(counted)))
    return _evaluate(selected, problem)


def _evaluate(selected: Iterable[tuple[Document, set[str]]], problem: str) -> Budgets:
    seen: set[str] = set()
    several: set[str] = set()
    found: list[Budget] = []
    for document, pods in selected:
        several |= seen & pods
        seen |= pods
        if pods:
            found.append(_budget(document, pods))
    return Budgets(tuple(found), tuple(sorted(several)), problem)


def _budget(document: Document, pods: Collection[str]) -> Budget:
    metadata, status = document["metadata"], document.get("status") or {}
    return Budget(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata["name"]),
        allowed=max(int(status.get("disruptionsAllowed") or 0), 0),
        pods=tuple(sorted(pods)),
        stale=int(status.get("observedGeneration") or 0) < int(metadata.get("generation") or 0),
    )


def is_limited(pod: Document, budget: Document) -> bool:
    """Return whether the eviction of a selected pod counts against the budget.

    It does not for pods that are pending, that have ended or that are being deleted, nor for pods
    that are not ready if the budget's unhealthyPodEvictionPolicy permits their eviction.
    """
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return False
    if status.get("phase") in ("Pending", "Succeeded", "Failed"):
        return False
    conditions = status.get("conditions") or ()
    if any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions):
        return True
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return False
    of_budget = budget.get("status") or {}
    desired = int(of_budget.get("desiredHealthy") or 0)
    return not 0 < desired <= int(of_budget.get("currentHealthy") or 0)


def write_selector(selector: Mapping[str, object] | None) -> str | None:
    """Return a label selector in the syntax of a request; None if it selects no pod.

    An absent selector selects no pod, an empty one all pods of the namespace (policy/v1).
    """
    if selector is None:
        return None
    labels: object = selector.get("matchLabels")
    parts = [f"{key}={value}" for key, value in labels.items()] if isinstance(labels, dict) else []
    expressions: object = selector.get("matchExpressions")
    for one in expressions if isinstance(expressions, list) else ():
        key, values = one["key"], ",".join(one.get("values") or ())
        forms = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append(forms[one["operator"]])
    return ",".join(parts)


async def _iterate(lister: Lister, kind: str, chosen: Chosen) -> AsyncIterator[Document]:
    """Yield the objects of a list, at most those of its first pages."""
    token = ""
    for _ in range(_MOST_PAGES):
        page = await lister.page(kind, chosen, token)
        for item in page.get("items") or ():
            yield item
        token = str((page.get("metadata") or {}).get("continue") or "")
        if not token:
            return
