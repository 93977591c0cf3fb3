"""Which layout to edit so that its GPUs get more slices of a profile, and which pods that concerns.

An edit changes every GPU that follows the layout, not only those with room.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from console.views.waiting.survey import Survey
from facts.wording import count_of, list_first
from gpu_operator.api.v1alpha1.miglayout import OnInUse
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers.layouts import selection
from mig import geometry, pools
from mig.errors import MigError
from mig.pools import GpuState

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class GpuRoom:
    """A divided GPU with room for slices of a profile beside those that pods hold.

    ``layout`` is the layout that it follows; empty if there is none. ``there`` are the slices of
    the profile that exist or are requested, and ``gain`` is how many more fit.
    """

    name: str
    layout: str
    there: int
    gain: int


@dataclass(frozen=True, slots=True)
class OtherGpus:
    """The GPUs beside one that follow a layout, and on which pods hold slices, with these pods."""

    layout: Layout
    held: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __str__(self) -> str:
        """Return what an edit of the layout means for them; it begins with a space."""
        if not self.held:
            return ""
        names = [f"{gpu} ({list_first(pods, _SHOWN)})" for gpu, pods in self.held]
        waits = "waits for" if self.layout.spec.rollout.on_in_use is OnInUse.WAIT else "evicts"
        return (
            f" Layout {self.layout.name} also decides on {count_of(len(self.held), 'other GPU')}"
            f" with slices that pods hold: {list_first(names, _SHOWN)}. An edit changes"
            f" {'this GPU' if len(self.held) == 1 else 'these GPUs'}, too, and {waits} the pods"
            " whose slices it does not keep."
        )


@dataclass(frozen=True, slots=True)
class LayoutEdit:
    """An edit of a layout after which a GPU has more slices of a profile.

    ``number`` is how many each GPU has to request, and ``before`` how many the layout requests now.
    """

    layout: Layout
    gpu: str
    gain: int
    number: int
    before: int
    others: OtherGpus

    @property
    def pods(self) -> int:
        """Return how many pods hold slices of the layout's other GPUs."""
        return len({pod for _, pods in self.others.held for pod in pods})

    def describe(self, profile: str) -> str:
        """Return what to edit."""
        instead = f" instead of {self.before}" if self.before else ""
        return (
            f"Edit layout {self.layout.name} so that it requests {self.number} × {profile} on each"
            f" of its GPUs{instead}."
        )


def find_rooms(
    survey: Survey, states: Iterable[GpuState], profile: str, counts: Iterable[int]
) -> Iterator[GpuRoom]:
    """Yield the divided GPUs with room; ``counts`` has the unheld slices that exist or are to."""
    for state, unheld in zip(states, counts, strict=True):
        if state.is_whole:
            continue
        fits = pools.advise([state], profile, 1).now
        if fits:
            held_count = sum(instance.device.name == profile for instance in state.held)
            layout = survey.world.gpus[state.name].spec.layout or ""
            layout = layout if layout in survey.world.layouts else ""
            yield GpuRoom(state.name, layout, held_count + unheld, max(fits - unheld, 0))


def find_edits(
    survey: Survey, rooms: Sequence[GpuRoom], profile: str, short: int
) -> tuple[LayoutEdit, ...]:
    """Return the edits after which a node has as many more slices as it is short of.

    A layout on whose other GPUs the fewest pods hold slices is first.
    """
    edits: dict[str, LayoutEdit] = {}
    for room in sorted(rooms, key=lambda gpu_room: (-gpu_room.gain, gpu_room.name)):
        layout = survey.world.layouts.get(room.layout)
        if layout is not None and room.gain and layout.name not in edits:
            edits[layout.name] = _edit(survey, layout, room, profile, short)
    every = sorted(
        edits.values(), key=lambda edit: (edit.gain < short, edit.pods, edit.layout.name)
    )
    chosen: list[LayoutEdit] = []
    for edit in every:
        if sum(chosen_edit.gain for chosen_edit in chosen) < short:
            chosen.append(edit)
    return tuple(chosen)


def find_others(survey: Survey, layout: Layout, gpu: str) -> OtherGpus:
    """Return the GPUs beside one that follow a layout and that pods hold."""
    followed = selection.layouts_by_gpu(survey.world)
    gpus = survey.world.gpus
    followers = (gpus[name] for name, of in followed.items() if of == layout.name and name != gpu)
    return OtherGpus(
        layout,
        tuple((follower.name, pods) for follower in followers if (pods := _holders(follower))),
    )


def _edit(survey: Survey, layout: Layout, room: GpuRoom, profile: str, short: int) -> LayoutEdit:
    board = survey.world.gpus[room.name].spec.board
    earlier_count = sum(
        request.count
        for request in layout.spec.instances
        if _name(board, request.profile) == profile
    )
    number = room.there + min(room.gain, short)
    other_gpus = find_others(survey, layout, room.name)
    return LayoutEdit(layout, room.name, room.gain, number, earlier_count, other_gpus)


def _name(board: str, profile: str) -> str:
    """Return the name of a profile that a layout may request by an alias."""
    try:
        return geometry.board(board).device_profile(profile).name
    except MigError:
        return ""


def _holders(gpu: Gpu) -> tuple[str, ...]:
    every = (holder for gpu_slice in gpu.status.slices for holder in gpu_slice.holders)
    return tuple(sorted({f"{holder.namespace}/{holder.name}" for holder in every}))
