"""The PodDisruptionBudgets that limit the eviction of some pods, read on request.

The console does not watch budgets and does not store the labels of pods: the page that needs them
lists both, and has the API server select the pods of each budget. The rules are those of the
Eviction API (https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/).
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from gpu_operator import errors
from gpu_operator.kube.port import Chosen, Document

KIND: Final = "PodDisruptionBudget"
MOST_BUDGETS: Final = 16  # of a namespace; each costs a list of its pods
_MOST_PAGES: Final = 20  # of 500 objects each
_MOST_SPACES: Final = 16
_PROBLEMS: Final = 3  # that are stated
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

    @property
    def refused(self) -> int:
        """Return how many evictions the budgets that were read refuse as things are."""
        single = (
            replace(budget, pods=tuple(set(budget.pods) - {*self.several})) for budget in self.found
        )
        return len(self.several) + sum(budget.refused for budget in single)


@dataclass(slots=True)
class _Reading:
    """What was read so far: budgets, the pods that each selects, and those that it limits."""

    pods: set[str]
    found: list[Budget] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    several: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def result(self) -> Budgets:
        return Budgets(
            tuple(self.found), tuple(sorted(self.several)), "; ".join(self.problems[:_PROBLEMS])
        )


async def read_budgets(lister: Lister | None, pods: Collection[str]) -> Budgets:
    """Return the budgets that select some of ``pods``, which are "namespace/name"."""
    if lister is None:
        return Budgets(problem="this console has no connection to an API server")
    reading = _Reading(set(pods))
    spaces = sorted({pod.partition("/")[0] for pod in pods})
    if len(spaces) > _MOST_SPACES:
        reading.problems.append(
            f"only those of {_MOST_SPACES} of {len(spaces)} namespaces are read"
        )
    try:
        async with asyncio.timeout(_WITHIN_S):
            for space in spaces[:_MOST_SPACES]:
                await _read_space(lister, space, reading)
    except TimeoutError:
        reading.problems.append(f"the API server did not list all within {_WITHIN_S:g} s")
    except errors.Refused as err:
        reading.problems.append(f"not permitted: {err}")
    except errors.KubeError as err:
        reading.problems.append(str(err))
    return reading.result()


async def _read_space(lister: Lister, space: str, reading: _Reading) -> None:
    pod_names = {
        name for of, _, name in (pod.partition("/") for pod in reading.pods) if of == space
    }
    budgets, has_more = await _list(lister, KIND, Chosen(space))
    if has_more or len(budgets) > MOST_BUDGETS:
        reading.problems.append(f"only the first {MOST_BUDGETS} of namespace {space} are read")
    for budget in budgets[:MOST_BUDGETS]:
        labels = write_selector((budget.get("spec") or {}).get("selector"))
        if labels is None:
            continue
        chosen = Chosen(space, labels=labels)
        selected, has_more = await _list(
            lister, "Pod", chosen, lambda pod: name_of(pod) in pod_names
        )
        if has_more:
            reading.problems.append(f"{space}/{name_of(budget)} selects more pods than are read")
        _add(reading, budget, {f"{space}/{name_of(pod)}": pod for pod in selected})


def _add(reading: _Reading, budget: Document, selected: Mapping[str, Document]) -> None:
    """Add a budget. The API server counts a pod's budgets before it evaluates what they limit."""
    evicted = {name for name in reading.pods & selected.keys() if _is_running(selected[name])}
    reading.several |= reading.seen & evicted
    reading.seen |= evicted
    limited = {name for name in evicted if is_limited(selected[name], budget)}
    if limited:
        reading.found.append(_budget(budget, limited))


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
    if not _is_running(pod):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in conditions
    ):
        return True
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return False
    of_budget = budget.get("status") or {}
    desired = int(of_budget.get("desiredHealthy") or 0)
    return not 0 < desired <= int(of_budget.get("currentHealthy") or 0)


def _is_running(pod: Document) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    is_deleted = bool(pod["metadata"].get("deletionTimestamp"))
    return not is_deleted and phase not in ("Pending", "Succeeded", "Failed")


def write_selector(selector: Mapping[str, object] | None) -> str | None:
    """Return a label selector in the syntax of a request; None if it selects no pod.

    An absent selector selects no pod, an empty one all pods of the namespace (policy/v1).
    """
    if selector is None:
        return None
    labels: object = selector.get("matchLabels")
    parts = [f"{key}={value}" for key, value in labels.items()] if isinstance(labels, dict) else []
    expressions: object = selector.get("matchExpressions")
    for expression in expressions if isinstance(expressions, list) else ():
        key, values = expression["key"], ",".join(expression.get("values") or ())
        forms = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append(forms[expression["operator"]])
    return ",".join(parts)


def name_of(document: Document) -> str:
    """Return an object's name."""
    return str(document["metadata"]["name"])


async def _list(
    lister: Lister,
    kind: str,
    chosen: Chosen,
    is_wanted: Callable[[Document], bool] = lambda _: True,
) -> tuple[list[Document], bool]:
    """Return the wanted objects of a list's first pages, and whether there are more pages."""
    token = ""
    documents: list[Document] = []
    for _ in range(_MOST_PAGES):
        page = await lister.page(kind, chosen, token)
        documents += filter(is_wanted, page.get("items") or ())
        token = str((page.get("metadata") or {}).get("continue") or "")
        if not token:
            break
    return documents, bool(token)
