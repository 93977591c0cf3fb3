"""What would free a slice that a pod waits for, in words: the page *Why* and `kubectl tessera`."""

from dataclasses import dataclass
from typing import Final

from console.views.why import Move, Remedy, RequestFinding

_ROOM: Final = (
    "nodes have as many free slices as the pod requests. What keeps the pod off them is not"
    " evaluated here: CPU and memory, affinity, topology, volumes, or a change that the scheduler"
    " has yet to observe. Its message above names the reason."
)
_NOTE: Final = "Kubernetes cannot move a pod: it ends, and its replacement gets the other slice."
_SEVERAL: Final = " Room is counted over all nodes, but a pod needs all its slices on one."


@dataclass(frozen=True, slots=True)
class Advice:
    """A sentence about one requested resource, and the moves that the planner proposes."""

    title: str
    text: str
    moves: tuple[Move, ...] = ()
    note: str = ""
    is_problem: bool = False
    suggests_layout: bool = False


def advise(request: RequestFinding) -> Advice | None:
    """Return the advice about a request; None if the resource is no MIG device and all is full."""
    if request.nodes_with_room:
        return Advice("Room by this count", f"{request.nodes_with_room} {_ROOM}")
    if request.remedy is None:
        return None
    return _advise_remedy(request.remedy)


def _advise_remedy(remedy: Remedy) -> Advice:
    title = "What would free it"
    if remedy.problem:
        return Advice(title, remedy.problem, is_problem=True)
    room = f"{remedy.now} × {remedy.profile}"
    if remedy.now >= remedy.wanted:
        text = (
            f"Beside all slices that pods hold there is room for {room} on divided GPUs, so no pod"
            " has to move: a layout that requests this profile there creates it."
        )
        return Advice(title, text, suggests_layout=True)
    if not remedy.moves:
        text = f"No move of pods makes room for {remedy.profile} on a divided GPU."
        return Advice(title, text)
    short = "" if remedy.possible >= remedy.wanted else " (even all of them are not enough)"
    text = (
        f"Beside the held slices there is room for {room}. The planner proposes the smallest"
        f" changes first{short}:"
    )
    note = _NOTE + (_SEVERAL if remedy.wanted > 1 else "")
    return Advice(title, text, remedy.moves, note)
