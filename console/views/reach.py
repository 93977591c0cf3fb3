"""Which pod may use which RDMA verb on which other, by the evaluator that hcad uses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from console.model.fabric import Fabric
from facts.wording import list_first
from rdma import grants
from rdma.explain import Explanation, Half, Question, QuestionError
from rdma.objects import PodFacts
from rdma.verbs import ALL, NAMES, NONE, Verb

SHOWN: Final = 32  # rows and columns of a matrix
_REASONS: Final = 3  # policies, and rules, that a cell names
_LETTERS: Final = {
    "Send": "S",
    "Write": "W",
    "WriteImm": "I",
    "Read": "R",
    "AtomicCAS": "C",
    "AtomicFAA": "F",
    "Invalidate": "V",
    "UD": "U",
    "CM": "M",
}
LEGEND: Final = tuple((letter, name) for name, letter in _LETTERS.items())


@dataclass(frozen=True, slots=True)
class Cell:
    """The verbs that pass from one pod to another; ``problem`` if they cannot be evaluated.

    ``reasons`` name the policies and rules that decide, a line for each direction.
    """

    verbs: Verb
    audited: Verb = NONE
    partition_shared: bool = True
    problem: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def letters(self) -> str:
        """Return one letter for each verb that passes."""
        return "".join(_LETTERS[name] for name, verb in NAMES.items() if verb & self.verbs)

    @property
    def kind(self) -> str:
        """Return the class of the style sheet: all, some, none or odd."""
        if self.problem:
            return "odd"
        return "all" if self.verbs == ALL else "some" if self.verbs else "none"

    @property
    def label(self) -> str:
        """Return the verdict in words."""
        if self.problem:
            return self.problem
        names = ", ".join(name for name, verb in NAMES.items() if verb & self.verbs)
        word = "all verbs" if self.verbs == ALL else names or "nothing passes"
        audit = "; some only because policies audit" if self.audited & self.verbs else ""
        return word + audit + ("" if self.partition_shared else "; no common partition")


@dataclass(frozen=True, slots=True)
class Matrix:
    """Sources (rows) by destinations (columns); ``more`` pods are not shown."""

    pods: tuple[PodFacts, ...]
    cells: tuple[tuple[Cell, ...], ...]
    more: int
    namespaces: tuple[str, ...]


EMPTY: Final = Matrix((), (), 0, ())


def matrix(fabric: Fabric, namespace: str = "", first: int = 0) -> Matrix:
    """Return the matrix of the pods that hold an HCA."""
    pods, hidden_count = select_pods(fabric, namespace, first)
    cells = tuple(tuple(_cell(fabric, a, b) for b in pods) for a in pods)
    spaces = tuple(sorted({pod.namespace for pod in fabric.pods.values()}))
    return Matrix(pods, cells, hidden_count, spaces)


def select_pods(fabric: Fabric, namespace: str, first: int) -> tuple[tuple[PodFacts, ...], int]:
    """Return the pods of one page of the matrix, and how many others it does not have."""
    pods = sorted(fabric.pods.values(), key=lambda pod: (pod.namespace, pod.name))
    chosen = [pod for pod in pods if namespace in ("", pod.namespace)]
    page_pods = tuple(chosen[first : first + SHOWN])
    return page_pods, len(chosen) - len(page_pods)


def explain_pair(fabric: Fabric, source: str, destination: str) -> Sequence[Explanation]:
    """Return the explanation of every verb. Raises QuestionError."""
    return [explain_verb(fabric, source, destination, verb) for verb in NAMES.values()]


def explain_verb(fabric: Fabric, source: str, destination: str, verb: Verb) -> Explanation:
    """Return the explanation of one verb. Raises QuestionError.

    The fabric has only pods that hold an HCA: whether another pod exists is not known.
    """
    for name in (source, destination):
        if "/" in name and name not in fabric.pods:
            raise QuestionError(
                f"pod {name} holds no HCA: it requests none, has ended, or does not exist"
            )
    return fabric.explainer().explain(Question(source, destination, verb))


def _cell(fabric: Fabric, source: PodFacts, destination: PodFacts) -> Cell:
    try:
        explanation = fabric.explainer().explain(
            Question(_name(source), _name(destination), Verb.SEND)
        )
    except QuestionError as err:
        return Cell(NONE, problem=str(err))
    verdict = explanation.verdict
    reasons = tuple(map(_describe_half, explanation.halves))
    passing = grants.passing_verbs(verdict)
    return Cell(passing, verdict.audited, verdict.partition_shared, reasons=reasons)


def _describe_half(half: Half) -> str:
    """Return which policies isolate one end, and which of their rules grant something."""
    name = half.direction.value
    if not half.isolated_by:
        return f"{name}: no policy isolates {half.who}"
    rules = [f"{rule} grants {', '.join(verbs)}" for rule, verbs in half.rules]
    granted = list_first(rules, _REASONS) if rules else "no rule grants anything"
    return f"{name}: isolated by {list_first(half.isolated_by, _REASONS)}; {granted}"


def _name(pod: PodFacts) -> str:
    return f"{pod.namespace}/{pod.name}"
