"""What would make room for a pod that waits, in words: the page *Why* and `kubectl tessera`."""

from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from console.views.waiting.remedies import Move, Remedy
from console.views.waiting.why import RequestFinding
from facts.wording import list_first

_ROOM: Final = (
    "as many free slices as the pod requests. What keeps the pod off them is not evaluated"
    " here: CPU and memory, affinity, topology, volumes, or a change that the scheduler has yet to"
    " observe. Its message above names the reason."
)
_NOTE: Final = "Kubernetes cannot move a pod: it ends, and its replacement gets the other slice."
_NOTE_OF_ENDS: Final = (
    "A pod that has to end gets no other slice by this: a replacement waits until some node has"
    " room for it."
)
_TITLE: Final = "What would make room"
_UNMATCHED: Final = (
    "No node that the pod can use exists: its nodeSelector does not match, or it does not tolerate"
    " their taints. No change of devices helps before that."
)
_SHOWN: Final = 8  # names of GPUs


@dataclass(frozen=True, slots=True)
class Advice:
    """A sentence about one requested resource, and the moves that the planner proposes.

    ``steps`` are what would free devices beside these moves. ``layout`` is the address of a form
    with a layout to start from; empty if none would help.
    """

    title: str
    text: str
    moves: tuple[Move, ...] = ()
    note: str = ""
    is_problem: bool = False
    layout: str = ""
    steps: tuple[str, ...] = ()


def advise(request: RequestFinding) -> Advice | None:
    """Return the advice about a request; None if there is none."""
    if request.nodes_with_room:
        number = request.nodes_with_room
        return Advice(
            "Room by this count", f"{number} {'node has' if number == 1 else 'nodes have'} {_ROOM}"
        )
    if request.is_unmatched:
        return Advice(_TITLE, _UNMATCHED, steps=request.steps)
    if request.remedy is not None:
        return replace(_advise_remedy(request.remedy), steps=request.steps)
    return Advice(_TITLE, "", steps=request.steps) if request.steps else None


def _advise_remedy(remedy: Remedy) -> Advice:
    title = _TITLE
    if remedy.problem:
        return Advice(title, remedy.problem, is_problem=True)
    if not remedy.node:
        return Advice(
            title, "No node that the pod can use has a GPU in service on which a layout creates it."
        )
    room = f"{remedy.now} × {remedy.profile}"
    if remedy.now >= remedy.wanted:
        return _advise_layout(title, remedy, room)
    if remedy.with_divided >= remedy.wanted:
        text = (
            f"Beside the slices that pods hold, divided GPUs of node {remedy.node} have room for"
            f" {room}. {_divide(remedy)} {_spare(remedy)}{_name_others(remedy)}"
        )
        return Advice(title, text, layout=_layout_address(remedy))
    demand = f"{remedy.wanted} × {remedy.profile}"
    if not remedy.moves:
        largest = f"the most is {remedy.with_divided}, on node {remedy.node}"
        return Advice(title, f"Nothing makes room for {demand} on one node: {largest}.")
    other_gpus = str(remedy.divide[0].others or "") if remedy.divide else ""
    also = f" {_divide(remedy)}{other_gpus} In addition:" if remedy.divide else ""
    short = "" if remedy.with_moves >= remedy.wanted else " Even all of this is not enough."
    text = (
        f"A pod gets all its slices on one node. Beside the held slices, node {remedy.node} has"
        f" room for {room}.{short}{also} The planner proposes the smallest changes first:"
    )
    kinds = {move.evicts for move in remedy.moves}
    notes = [text for is_end, text in ((False, _NOTE), (True, _NOTE_OF_ENDS)) if is_end in kinds]
    return Advice(title, text, remedy.moves, " ".join(notes))


def _advise_layout(title: str, remedy: Remedy, room: str) -> Advice:
    supply = remedy.supply
    if supply.is_crowded and supply.unheld >= remedy.wanted:
        text = (
            f"Node {remedy.node} has {supply.unheld} × {remedy.profile} in service that no pod"
            f" holds. No layout has to change: {supply.describe_crowding()}."
        )
        return Advice(title, text)
    if remedy.requested >= remedy.wanted:
        text = (
            f"The layouts of node {remedy.node} request {remedy.requested} × {remedy.profile} that"
            " no pod holds, but the node does not offer all of them yet: see the layouts' status."
        )
        return Advice(title, text)
    followed = [
        f"{gpu_room.name} follows layout {gpu_room.layout}"
        for gpu_room in remedy.room
        if gpu_room.layout
    ]
    where = f" ({list_first(followed, _SHOWN)})" if followed else ""
    text = (
        f"Beside all slices that pods hold there is room for {room} on divided GPUs of node"
        f" {remedy.node}{where}"
    )
    gaining = [gpu_room for gpu_room in remedy.room if gpu_room.gain]
    if remedy.edits and all(gpu_room.layout for gpu_room in gaining):
        is_alone = not any(edit.others.held for edit in remedy.edits) and len(remedy.edits) == 1
        alone = "" if is_alone else " on GPU " + " and ".join(edit.gpu for edit in remedy.edits)
        edits = " ".join(edit.describe(remedy.profile) for edit in remedy.edits)
        other_gpus = "".join(str(edit.others) for edit in remedy.edits)
        text = (
            f"{text}, so no pod has to move{alone}. A GPU follows only the oldest layout that"
            f" selects it: another layout would have no effect there. {edits}{other_gpus}"
            f"{_name_others(remedy)}"
        )
        name = remedy.edits[0].layout.name
        return Advice(title, text, layout=f"/layout?{urlencode({'name': name})}")
    text = (
        f"{text}, so no pod has to move: a layout that requests this profile there creates it."
        f"{_name_others(remedy)}"
    )
    return Advice(title, text, layout=_layout_address(remedy))


def _name_others(remedy: Remedy) -> str:
    """Name the other nodes on which no pod has to move either."""
    if not remedy.others:
        return ""
    nodes = f"node{'s' * (len(remedy.others) > 1)} {list_first(remedy.others, _SHOWN)}"
    if remedy.now >= remedy.wanted:
        return f" There is as much room as it needs on divided GPUs of {nodes}, too."
    return f" The same is possible on {nodes}."


def _divide(remedy: Remedy) -> str:
    """Describe the whole GPUs to divide, and the layout with which that is done."""
    names = list_first([gpu.name for gpu in remedy.divide], _SHOWN)
    is_one = len(remedy.divide) == 1
    subject = (
        f"No pod holds the whole GPU{'' if is_one else 's'} {names}, which a layout can divide"
    )
    amount = f"into {remedy.each} × {remedy.profile}{'' if is_one else ' each'}"
    layouts = sorted({gpu.layout for gpu in remedy.divide if gpu.layout})
    if not layouts:
        return f"{subject} {amount}. No layout selects {'it' if is_one else 'them'} yet."
    by = f"{'It is' if is_one else 'They are'} selected by layout {layouts[0]}"
    return f"{subject} {amount}. {by}: request the profile there."


def _spare(remedy: Remedy) -> str:
    """Return whether pods are concerned when the whole GPUs are divided."""
    first = remedy.divide[0]
    other_gpus = str(first.others or "")
    return (
        f"No pod on {first.name} has to move.{other_gpus}" if other_gpus else "No pod has to move."
    )


def _layout_address(remedy: Remedy) -> str:
    """Return the address of the layout to edit, or of a draft of one that divides the GPUs."""
    layout_name = remedy.divide[0].layout if remedy.divide else remedy.layout
    if layout_name:
        return f"/layout?{urlencode({'name': layout_name})}"
    draft = [("node", remedy.node), ("profile", remedy.profile)]
    draft.append(("count", str(min(remedy.wanted, remedy.each or remedy.wanted))))
    return f"/layout?{urlencode(draft + [('index', str(gpu.index)) for gpu in remedy.divide])}"
